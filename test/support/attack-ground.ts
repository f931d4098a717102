/** Owns the ground of the attack table: a controller, an honest node that must never notice, and hand-made leaf links. */
import { AckPolicy, jetstream, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { createUser, type KeyPair } from "@nats-io/nkeys";
import { expect } from "chai";
import type { NodeKey } from "../../protocol/ids.ts";
import { joinNode, startController, type TestController, type TestNode } from "./link-fleet.ts";
import { openRawLeaf, type RawLeaf } from "./raw-leaf.ts";

const HOUR_MS = 3_600_000;

export type LeafOptions = Partial<Parameters<typeof openRawLeaf>[0]>;

export class AttackGround implements AsyncDisposable {
  readonly controller: TestController;
  readonly victim: TestNode;
  readonly #raws: RawLeaf[] = [];
  readonly #heard: () => number;
  /** The account whose credentials the attacker holds, another for each test. */
  own: NodeKey;

  private constructor(
    controller: TestController,
    victim: TestNode,
    heard: () => number,
    own: NodeKey,
  ) {
    this.controller = controller;
    this.victim = victim;
    this.#heard = heard;
    this.own = own;
  }

  static async open(): Promise<AttackGround> {
    const controller = await startController();
    let heard = 0;
    const victim = await joinNode(controller, {
      handlers: {
        count() {
          heard += 1;
          return heard;
        },
      },
    });
    const jsm = await jetstreamManager(controller.connection);
    await jsm.streams.add({
      name: "JOBS",
      subjects: ["jobs.>"],
      retention: RetentionPolicy.Workqueue,
    });
    await jsm.consumers.add("JOBS", { durable_name: "worker", ack_policy: AckPolicy.Explicit });
    await jetstream(controller.connection).publish("jobs.1", "work");
    const bucket = await new Kvm(controller.connection).create("registry");
    await bucket.put("node", "as it was");
    return new AttackGround(controller, victim, () => heard, await controller.link.provision());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.victim[Symbol.asyncDispose]();
    await this.controller[Symbol.asyncDispose]();
  }

  /** Before each test. */
  async begin(): Promise<void> {
    this.own = await this.controller.link.provision();
  }

  /** After each test: ends what it opened, and proves that nobody noticed. */
  async end(): Promise<void> {
    for (const raw of this.#raws.splice(0)) {
      raw.close();
      await raw.closed;
    }
    await this.expectUntouched();
  }

  /** A line of its own, with a key of its own unless it is given one: the account may have two at once. */
  async attacker(options: LeafOptions = {}): Promise<RawLeaf> {
    const user = options.key ?? createUser();
    const raw = await openRawLeaf({
      url: this.controller.websocketUrl,
      jwt: options.jwt ?? (await this.issued(user)),
      key: user,
      serverName: `n-evil-${this.#raws.length}`,
      ...options,
    });
    this.#raws.push(raw);
    return raw;
  }

  issued(user: KeyPair): Promise<string> {
    return this.controller.link.issue(this.own, user.getPublicKey(), { expiresInMs: HOUR_MS });
  }

  callVictim(): Promise<unknown> {
    return this.controller.caller.call(this.victim.key, {
      method: "count",
      params: null,
      generation: 1,
      deadlineMs: 30_000,
      mutation: false,
    });
  }

  /** What must be so after every attack. */
  async expectUntouched(): Promise<void> {
    const before = this.#heard();
    expect(await this.callVictim()).to.equal(before + 1);
    const lost = this.controller.events.filter(
      (event) => event.type === "disconnected" && event.connection.account === this.victim.key,
    );
    expect(lost).to.deep.equal([]);
    const jsm = await jetstreamManager(this.controller.connection);
    const { state } = await jsm.streams.info("JOBS");
    expect([state.messages, state.last_seq]).to.deep.equal([1, 1]);
    const bucket = await new Kvm(this.controller.connection).open("registry");
    const entry = await bucket.get("node");
    expect([entry?.string(), entry?.revision]).to.deep.equal(["as it was", 1]);
    expect((await jsm.streams.info("KV_registry")).state.messages).to.equal(1);
  }

  /** The attack has been handled by the hub (which may close the line over it), and whatever came of it has come to the controller. */
  async handled(raw: RawLeaf): Promise<void> {
    await raw.settled().catch(() => raw.closed);
    await this.controller.connection.flush();
    await this.controller.system.flush();
  }

  /** Publishes each on a line of its own: the hub closes one that oversteps its rights. */
  async publishEach(
    messages: readonly (readonly [
      subject: string,
      payload?: string | Uint8Array,
      reply?: string,
    ])[],
  ): Promise<void> {
    for (const [subject, payload, reply] of messages) {
      const raw = await this.attacker();
      raw.subscribe(`node.${this.own}.>`);
      raw.publish(subject, payload, reply);
      await this.handled(raw);
      expect(raw.messages, subject).to.deep.equal([]);
      raw.close();
      await raw.closed;
    }
  }
}
