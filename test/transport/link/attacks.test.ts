/**
 * The attack table of the node link: what a machine that holds a node's credentials can try with a peer
 * of its own making. Each attack is shown to have no effect on another node, on the hub's JetStream and
 * on the controller; and the peer itself is shown able to do what a node may, so that none of it is
 * refused for a wrong reason.
 */
import { once } from "node:events";
import { AckPolicy, jetstream, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { encodeUser } from "@nats-io/jwt";
import { Kvm } from "@nats-io/kv";
import { createAccount, createUser, type KeyPair } from "@nats-io/nkeys";
import { connect, jwtAuthenticator } from "@nats-io/transport-node";
import { expect } from "chai";
import { WebSocket } from "ws";
import type { NodeKey } from "../../../protocol/ids.ts";
import { newSigningKey } from "../../../transport/keys/signing-key.ts";
import { callSubject, replySubject } from "../../../transport/rpc/subjects.ts";
import {
  expiredJwt,
  joinNode,
  startController,
  type TestController,
  type TestNode,
} from "../../support/link-fleet.ts";
import { openRawLeaf, type RawLeaf } from "../../support/raw-leaf.ts";

const HOUR_MS = 3_600_000;
/** Parameters of a request that has none, and the answer 7, as they stand on the link. */
const NIL = Uint8Array.of(0xc0);
const SEVEN = Uint8Array.of(0x92, 0x00, 0x07);

describe("a machine that speaks the leaf protocol by hand", () => {
  let controller: TestController;
  /** The honest node that must never notice. */
  let victim: TestNode;
  let victimHeard = 0;
  /** The account whose credentials the attacker holds. */
  let own: NodeKey;
  const raws: RawLeaf[] = [];

  before(async () => {
    controller = await startController();
    victim = await joinNode(controller, {
      handlers: {
        count() {
          victimHeard += 1;
          return victimHeard;
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
  });
  after(async () => {
    await victim[Symbol.asyncDispose]();
    await controller[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    own = await controller.link.provision();
  });
  afterEach(async () => {
    for (const raw of raws.splice(0)) {
      raw.close();
      await raw.closed;
    }
    await expectUntouched();
  });

  /** A line of its own, with a key of its own unless it is given one: the account may have two at once. */
  async function attacker(
    options: Partial<Parameters<typeof openRawLeaf>[0]> = {},
  ): Promise<RawLeaf> {
    const user = options.key ?? createUser();
    const raw = await openRawLeaf({
      url: controller.websocketUrl,
      jwt: options.jwt ?? (await issued(user)),
      key: user,
      serverName: `n-evil-${raws.length}`,
      ...options,
    });
    raws.push(raw);
    return raw;
  }

  const issued = (user: KeyPair): Promise<string> =>
    controller.link.issue(own, user.getPublicKey(), { expiresInMs: HOUR_MS });

  const callVictim = (): Promise<unknown> =>
    controller.caller.call(victim.key, {
      method: "count",
      params: null,
      generation: 1,
      deadlineMs: 30_000,
      mutation: false,
    });

  /** What must be so after every attack. */
  async function expectUntouched(): Promise<void> {
    const before = victimHeard;
    expect(await callVictim()).to.equal(before + 1);
    const lost = controller.events.filter(
      (event) => event.type === "disconnected" && event.connection.account === victim.key,
    );
    expect(lost).to.deep.equal([]);
    const jsm = await jetstreamManager(controller.connection);
    const { state } = await jsm.streams.info("JOBS");
    expect([state.messages, state.last_seq]).to.deep.equal([1, 1]);
    const bucket = await new Kvm(controller.connection).open("registry");
    const entry = await bucket.get("node");
    expect([entry?.string(), entry?.revision]).to.deep.equal(["as it was", 1]);
    expect((await jsm.streams.info("KV_registry")).state.messages).to.equal(1);
  }

  /** The attack has been handled by the hub (which may close the line over it), and whatever came of it has come to the controller. */
  async function handled(raw: RawLeaf): Promise<void> {
    await raw.settled().catch(() => raw.closed);
    await controller.connection.flush();
    await controller.system.flush();
  }

  /** Publishes each on a line of its own: the hub closes one that oversteps its rights. */
  async function publishEach(
    messages: readonly (readonly [
      subject: string,
      payload?: string | Uint8Array,
      reply?: string,
    ])[],
  ): Promise<void> {
    for (const [subject, payload, reply] of messages) {
      const raw = await attacker();
      raw.subscribe(`node.${own}.>`);
      raw.publish(subject, payload, reply);
      await handled(raw);
      expect(raw.messages, subject).to.deep.equal([]);
      raw.close();
      await raw.closed;
    }
  }

  it("is given what its node may have: its calls, and answers to what it asks", async () => {
    const raw = await attacker();
    raw.subscribe(`node.${own}.>`);
    await raw.settled();
    const called = controller.caller.call(own, {
      method: "x",
      params: null,
      generation: 1,
      deadlineMs: 30_000,
      mutation: false,
    });
    await controller.connection.flush();
    await raw.settled();
    const [message] = raw.messages;
    expect(message?.subject).to.equal(callSubject(own));
    raw.publish(message?.reply ?? "", SEVEN);
    expect(await called).to.equal(7);

    raw.publish(`ctl.${own}.pause`, NIL, `node.${own}.i.1`);
    await handled(raw);
    await raw.settled();
    expect(raw.messages.map(({ subject }) => subject)).to.deep.equal([
      callSubject(own),
      `node.${own}.i.1`,
    ]);
    expect(controller.caller.renewal(own)).to.be.a("number");
  });

  it("acknowledges nobody's work with a forged $JS.ACK", async () => {
    const pull = await jetstream(controller.connection).consumers.get("JOBS", "worker");
    const work = await pull.next({ expires: 5_000 });
    const ack = (work as { readonly reply?: string } | null)?.reply ?? "";
    expect(ack).to.match(/^\$JS\.ACK\./);
    await publishEach([
      [ack, "+ACK"],
      [ack.replace("$JS.ACK", "$JS.ACK.hub.x"), "+ACK"],
    ]);
    work?.nak();
  });

  it("takes none of another node's calls, by a queue or plainly, nor the controller's answers", async () => {
    const raw = await attacker();
    for (const subject of [
      "node.>",
      "node.*.rpc",
      callSubject(victim.key),
      `node.${victim.key}.>`,
      `ctl.${victim.key}.>`,
      "ctl.>",
      ">",
      "_INBOX.>",
      "_R_.>",
      "$SYS.>",
      "$JS.>",
      "$KV.>",
    ]) {
      raw.subscribe(subject);
      raw.subscribe(subject, "thieves");
    }
    await handled(raw);
    for (let call = 0; call < 100; call++) await callVictim();
    await handled(raw);
    expect(raw.messages).to.deep.equal([]);
  });

  it("displaces nobody under another node's server name", async () => {
    const raw = await attacker({ serverName: victim.life.serverName });
    await handled(raw);
    expect(victim.leaf.up).to.equal(true);
  });

  it("writes no key and deletes no stream through the answer to its own request", async () => {
    const raw = await attacker();
    const asked: string[] = [];
    const tap = controller.connection.subscribe(`ctl.${own}.*`, {
      callback: (_error, { subject }) => void asked.push(subject),
    });
    await controller.connection.flush();
    const replies = [
      "$KV.registry.node",
      "$JS.API.STREAM.DELETE.JOBS",
      "$JS.hub.API.STREAM.DELETE.JOBS",
      "jobs.2",
      callSubject(victim.key),
    ];
    for (const reply of replies) raw.publish(`ctl.${own}.pause`, NIL, reply);
    await handled(raw);
    tap.unsubscribe();
    // Each was asked and answered; where the answer went is what matters.
    expect(asked).to.have.length(replies.length);
  });

  it("speaks for nobody else to the controller", async () => {
    const raw = await attacker();
    const heard: string[] = [];
    const tap = controller.connection.subscribe("ctl.*.*", {
      callback: (_error, { subject }) => void heard.push(subject),
    });
    await controller.connection.flush();
    raw.publish(`ctl.${own}.notice`, NIL);
    await handled(raw);
    await publishEach([
      [`ctl.${victim.key}.pause`, NIL],
      ["ctl.LEMON.pause", NIL],
      [`ctl.${controller.authority.controllerAccount}.pause`, NIL],
    ]);
    tap.unsubscribe();
    expect(heard).to.deep.equal([`ctl.${own}.notice`]);
    expect(controller.caller.renewal(victim.key)).to.equal(null);
  });

  it("answers no call to another node, even when it knows the call's id", async () => {
    const raw = await attacker();
    const arrived = Promise.withResolvers<void>();
    const end = Promise.withResolvers<string>();
    const slow = await joinNode(controller, {
      handlers: {
        slow() {
          arrived.resolve();
          return end.promise;
        },
      },
    });
    const overheard = Promise.withResolvers<string>();
    const tap = controller.connection.subscribe(callSubject(slow.key), {
      callback: (_error, { reply }) => overheard.resolve(reply?.split(".").at(-1) ?? ""),
    });
    await controller.connection.flush();
    const outcome = controller.caller.call(slow.key, {
      method: "slow",
      params: null,
      generation: 1,
      deadlineMs: 30_000,
      mutation: false,
    });
    await arrived.promise;
    const id = await overheard.promise;
    tap.unsubscribe();
    expect(id).not.to.equal("");
    raw.publish(replySubject(own, id), SEVEN);
    raw.publishWithHeaders(replySubject(own, id), " 503", "");
    await handled(raw);
    await publishEach([[replySubject(slow.key, id), SEVEN]]);
    const other = await attacker();
    other.publishWithHeaders(replySubject(slow.key, id), " 503", "");
    await handled(other);
    end.resolve("honest");
    expect(await outcome).to.equal("honest");
    await slow[Symbol.asyncDispose]();
  });

  it("orders nothing of the hub: not its accounts, not its advisories, not its JetStream", async () => {
    const reply = `node.${own}.i.1`;
    const claims = await encodeUser("x", createUser(), createAccount());
    const orders: [subject: string, payload?: string][] = [
      ["$SYS.REQ.CLAIMS.UPDATE", claims],
      ["$SYS.REQ.CLAIMS.DELETE", claims],
      ["$SYS.REQ.CLAIMS.LIST"],
      [`$SYS.REQ.ACCOUNT.${victim.key}.CLAIMS.LOOKUP`],
      ["$SYS.REQ.SERVER.PING"],
      ["$SYS.REQ.SERVER.PING.CONNZ"],
      ["$SYS.REQ.ACCOUNT.PING.CONNZ"],
      ["$SYS.REQ.USER.INFO"],
      [`$SYS.ACCOUNT.${victim.key}.DISCONNECT`, "{}"],
      ["$JS.API.INFO"],
      ["$JS.API.STREAM.NAMES"],
      ["$JS.API.STREAM.DELETE.JOBS"],
      ["$JS.API.STREAM.PURGE.KV_registry"],
      ["$JS.hub.API.STREAM.DELETE.JOBS"],
      ["$JS.FC.JOBS.x"],
      ["$KV.registry.node", "changed"],
      ["jobs.2", "more"],
    ];
    await publishEach(orders.map(([subject, payload = ""]) => [subject, payload, reply]));
  });

  it("gains nothing by what its CONNECT claims to be", async () => {
    let letIn = 0;
    for (const claims of [
      { is_hub: true },
      { domain: "hub", jetstream: true },
      { remote_account: controller.authority.controllerAccount },
      { cluster: "hub", server_id: "NHUB" },
      { deny_pub: [], deny_sub: [], isolate: true },
      { user: "x", pass: "y", nkey: victim.life.link.getPublicKey() },
    ]) {
      let raw: RawLeaf;
      try {
        raw = await attacker({ claims });
      } catch {
        continue; // refused outright
      }
      letIn += 1;
      raw.subscribe(">");
      raw.subscribe("node.>", "thieves");
      await handled(raw);
      await callVictim();
      raw.publish("$JS.API.STREAM.DELETE.JOBS");
      raw.publish("$KV.registry.node", "changed");
      raw.publish(`ctl.${victim.key}.pause`, NIL);
      await handled(raw);
      expect(raw.messages, JSON.stringify(claims)).to.deep.equal([]);
      expect(controller.caller.renewal(victim.key)).to.equal(null);
      raw.close();
      await raw.closed;
    }
    expect(letIn, "that were let in at all").to.be.at.least(4);
  });

  it("gains nothing by the operations of other kinds of peers, nor by telling what it may do", async () => {
    const rights = JSON.stringify({ import: { allow: [">"] }, export: { allow: [">"] } });
    const claims = JSON.stringify({ jwt: "", is_hub: true });
    for (const text of [
      `PUB ctl.${victim.key}.pause 1\r\n\u0000\r\n`,
      "PUB $KV.registry.node 7\r\nchanged\r\n",
      `HPUB ctl.${victim.key}.pause 12 13\r\nNATS/1.0\r\n\r\n\u0000\r\n`,
      "SUB > 1\r\n",
      "SUB node.> thieves 1\r\n",
      "RS+ $G > \r\n",
      "LDS+ x\r\n",
      `A+ ${victim.key}\r\n`,
      `INFO ${rights}\r\n`,
      `CONNECT ${claims}\r\n`,
    ]) {
      const raw = await attacker();
      raw.send(text);
      await handled(raw);
      raw.subscribe(">");
      raw.publish(`ctl.${victim.key}.pause`, NIL);
      await handled(raw);
      await callVictim();
      expect(raw.messages, text).to.deep.equal([]);
      expect(controller.caller.renewal(victim.key), text).to.equal(null);
      raw.close();
      await raw.closed;
    }
  });

  it("gets 500 subscriptions and no more", async () => {
    const raw = await attacker();
    for (let at = 0; at < 600; at++) raw.subscribe(`node.${own}.s${at}`);
    await raw.settled();
    expect(raw.errors.length).to.be.at.least(100);
    expect(raw.errors[0]).to.include("maximum subscriptions exceeded");
  });

  it("gets two links at once and no third, whatever key each has", async () => {
    const links = [await attacker(), await attacker()];
    const refused = await attacker().catch((error: Error) => error.message);
    expect(refused).to.match(/maximum account active/);
    for (const link of links) await link.settled();
  });

  describe("gets no link at all", () => {
    const refusal = async (
      options: Partial<Parameters<typeof openRawLeaf>[0]>,
    ): Promise<string> => {
      try {
        await attacker(options);
      } catch (error) {
        return (error as Error).message;
      }
      return "accepted";
    };

    const refusedWord = /authori|authentication|expired|revoked/i;

    it("with credentials that have expired", async () => {
      const key = createUser();
      const jwt = await expiredJwt(controller, own, key.getPublicKey());
      expect(await refusal({ jwt, key })).to.match(refusedWord);
    });

    it("with credentials that were revoked", async () => {
      const key = createUser();
      const jwt = await issued(key);
      await controller.link.revoke(own, [key.getPublicKey()]);
      expect(await refusal({ jwt, key })).to.match(refusedWord);
    });

    it("with somebody else's credentials and its own key", async () => {
      const theirs = createUser().getPublicKey();
      const jwt = await controller.link.issue(victim.key, theirs, { expiresInMs: HOUR_MS });
      expect(await refusal({ jwt })).to.match(refusedWord);
    });

    it("with credentials that it signed itself", async () => {
      const account = newSigningKey(createAccount);
      const key = createUser();
      for (const jwt of [
        await encodeUser("worker", key, account, {}, { scopedUser: true }),
        await encodeUser("worker", key, victim.key, {}, { signer: account, scopedUser: true }),
      ]) {
        expect(await refusal({ jwt, key })).to.match(refusedWord);
      }
    });

    it("with no JWT, or with one of which a byte is another", async () => {
      expect(await refusal({ jwt: "" })).to.match(refusedWord);
      const key = createUser();
      const jwt = await issued(key);
      const at = jwt.indexOf(".") + 40;
      const changed = `${jwt.slice(0, at)}${jwt[at] === "A" ? "B" : "A"}${jwt.slice(at + 1)}`;
      expect(await refusal({ jwt: changed, key })).to.match(refusedWord);
    });

    it("as a plain client, on the hub's client port", async () => {
      const key = createUser();
      const authenticator = jwtAuthenticator(await issued(key), key.getSeed());
      const servers = controller.hub.child.clientUrl;
      const refused = await connect({ servers, authenticator, reconnect: false }).then(
        async (client) => {
          await client.close();
          return "accepted";
        },
        (error: Error) => error.message,
      );
      expect(refused).to.match(refusedWord);
    });
  });

  it("is cut off by the hub when a message is larger than the hub takes, and nobody else is", async () => {
    const raw = await attacker();
    raw.send(`LMSG ctl.${own}.x ${9 * 1024 * 1024}\r\n`);
    raw.send("x".repeat(1024));
    await raw.closed;
  });

  it("is cut off when it does not say who it is, whether it says nothing or begins and never ends", async () => {
    const strangers = ["", "CONNECT {"].map((text) => {
      const socket = new WebSocket(`${controller.websocketUrl}/leafnode`);
      socket.on("open", () => socket.send(text));
      return once(socket, "close");
    });
    await Promise.all(strangers);
  });

  it("is cut off for what is no protocol at all, and nobody else is", async () => {
    for (const text of [
      "GET / HTTP/1.1\r\n\r\n",
      "LMSG\r\n",
      "LS+ \r\n",
      "RMSG $G x 1\r\nx\r\n",
      "\u0000".repeat(5_000),
    ]) {
      const raw = await attacker();
      raw.send(text);
      await raw.settled().catch(() => undefined);
      raw.close();
      await raw.closed;
    }
  });
});
