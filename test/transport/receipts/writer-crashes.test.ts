import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createUser, type KeyPair } from "@nats-io/nkeys";
import { expect } from "chai";
import fc from "fast-check";
import { z } from "zod";
import { parseWitness } from "../../../transport/receipts/witness-format.ts";
import { startNodeServer } from "../../support/nats.ts";
import {
  type Bench,
  bench,
  done,
  reopened,
  running,
  type WorkStore,
} from "../../support/receipts.ts";
import { type TcpProxy, tcpProxy } from "../../support/tcp-proxy.ts";

const WRITER = fileURLToPath(new URL("../../support/receipt-writer.ts", import.meta.url));
const intent = Buffer.from("do it");
const unknown = { phase: "unknown", step: 0 } as const;
const lost = { phase: "lost", step: 0 } as const;

const answer = z.object({ id: z.string(), outcome: z.string(), witnessed: z.int() });
type Answer = z.infer<typeof answer>;
type Sign = "ready" | "wrote" | "held";

class Writer {
  readonly #child: ChildProcess;
  /** Every answer that it gave, in order. */
  readonly answers: Answer[] = [];
  readonly #awaited = new Map<string, (answer: Answer) => void>();
  readonly #signs = new Map<Sign, () => void>();

  constructor(spec: object) {
    this.#child = fork(WRITER, [JSON.stringify(spec)], {
      serialization: "advanced",
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.#child.on("message", (message) => {
      if (message === "ready" || message === "wrote" || message === "held") {
        this.#signs.get(message)?.();
        return;
      }
      const given = answer.parse(message);
      this.answers.push(given);
      this.#awaited.get(given.id)?.(given);
    });
  }

  /** Resolves with the next one. */
  next(sign: Sign): Promise<void> {
    return new Promise((resolve) => this.#signs.set(sign, resolve));
  }

  hold(writes: number): void {
    this.#child.send({ hold: writes });
  }

  /** Asks for it; its answer need not be waited for. */
  ask(request: { readonly admit: string } | { readonly end: string }): Promise<Answer> {
    const id = "admit" in request ? request.admit : request.end;
    const given = new Promise<Answer>((resolve) => this.#awaited.set(id, resolve));
    // A killed one takes no more.
    this.#child.send(request, () => {});
    return given;
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}

describe("a receipt store whose process is killed", () => {
  let ground: Bench;
  let proxy: TcpProxy;
  let writer: Writer;
  let users: { readonly store: KeyPair; readonly sys: KeyPair };
  let generation = 0;

  async function begin(maxStoreBytes?: number): Promise<void> {
    users = { store: createUser(), sys: createUser() };
    const server = await startNodeServer({
      storeUser: users.store,
      sysUser: users.sys,
      ...(maxStoreBytes === undefined ? {} : { maxStoreBytes }),
    });
    ground = await bench(server);
    proxy = await tcpProxy(server.child.ports.client);
    writer = await newWriter();
  }
  afterEach(async () => {
    await writer.kill();
    await proxy[Symbol.asyncDispose]();
    await ground[Symbol.asyncDispose]();
  });

  async function newWriter(): Promise<Writer> {
    generation += 1;
    const seed = (user: KeyPair) => new TextDecoder().decode(user.getSeed());
    const started = new Writer({
      storeUrl: proxy.url,
      sysUrl: ground.server.child.clientUrl,
      storeSeed: seed(users.store),
      sysSeed: seed(users.sys),
      directory: ground.directory,
      generation,
    });
    await started.next("ready");
    return started;
  }

  function successor(): Promise<WorkStore> {
    generation += 1;
    return reopened(ground, generation);
  }

  async function streamHolds(count: number): Promise<void> {
    for (;;) {
      const info = await ground.connection.request("$JS.API.STREAM.INFO.KV_work");
      if (info.json<{ state: { messages: number } }>().state.messages >= count) return;
    }
  }

  function kindsInWitness(): string[] {
    const parsed = parseWitness(readFileSync(join(ground.files, "witness")), "work");
    return (parsed?.entries ?? []).map(({ kind }) => kind);
  }

  /** What stands of an id after the process was killed: the same in each life, and it never runs again. */
  async function expectForGood(id: string, state: object): Promise<void> {
    const told = Math.max(0, ...writer.answers.map(({ witnessed }) => witnessed));
    for (const _ of ["next life", "the one after"]) {
      const store = await successor();
      expect(store.condition).to.equal("serving");
      expect(store.lastWitnessedSequence).to.be.at.least(told);
      expect((await store.read(id))?.state).to.deep.equal(state);
      const again = await store.admit(id, intent, running);
      expect(again).to.include({ outcome: "existing", sameIntent: true });
      expect(again.receipt.state).to.deep.equal(state);
      expect(store.retained).to.equal(1);
      await store.close();
    }
  }

  /** Of what was to be written, and what it reads as: not stored, or stored. */
  const writes = {
    admit: { stored: unknown, absent: lost },
    end: { stored: done, absent: unknown },
  } as const;
  for (const [call, { stored, absent }] of Object.entries(writes)) {
    describe(`(${call})`, () => {
      let messages: number;

      beforeEach(async () => {
        await begin();
        if (call === "end") await writer.ask({ admit: "run:1" });
        messages = call === "end" ? 3 : 2;
      });

      function ask(): Promise<Answer> {
        return writer.ask(call === "end" ? { end: "run:1" } : { admit: "run:1" });
      }

      it("knows what was stored before it was announced", async () => {
        writer.hold(0);
        const held = writer.next("held");
        void ask();
        await Promise.all([held, streamHolds(messages)]);
        await writer.kill();
        await expectForGood("run:1", stored);
      });

      it("is uncertain of what was announced and not stored", async () => {
        proxy.holdRequests();
        const announced = Promise.all([proxy.heard(), writer.next("wrote")]);
        const before = writer.answers.length;
        void ask();
        await announced;
        await writer.kill();
        expect(writer.answers).to.have.length(before);
        await expectForGood("run:1", absent);
        expect(kindsInWitness().filter((kind) => kind === "missing")).to.have.length(1);
      });

      it("knows what was stored and announced, and not answered", async () => {
        proxy.swallowReplies();
        const announced = writer.next("wrote");
        void ask();
        await Promise.all([announced, streamHolds(messages)]);
        await writer.kill();
        await expectForGood("run:1", stored);
      });

      it("knows what was answered and not confirmed", async () => {
        expect((await ask()).outcome).to.be.oneOf(["admitted", "done"]);
        await writer.kill();
        expect(kindsInWitness().at(-1)).to.equal("announced");
        await expectForGood("run:1", stored);
      });
    });
  }

  it("has written the confirmation of one with the announcement of the next", async () => {
    await begin();
    await writer.ask({ admit: "run:1" });
    await writer.ask({ end: "run:1" });
    await writer.kill();
    expect(kindsInWitness()).to.deep.equal(["announced", "revision", "announced"]);
    await expectForGood("run:1", done);
  });

  it("keeps to it that nothing happened when the server stored no more", async () => {
    await begin(64 * 1024);
    let ids = 0;
    let refused: Answer;
    do {
      ids += 1;
      refused = await writer.ask({ admit: `run:${ids}:${"x".repeat(200)}` });
    } while (refused.outcome === "admitted");
    expect(refused.outcome).to.equal("no_space");
    await writer.kill();
    expect(kindsInWitness().at(-1)).to.equal("withdrawn");
    const store = await successor();
    expect(await store.read(refused.id)).to.equal(null);
    expect(store.retained).to.equal(ids - 1);
    for (const { id } of writer.answers.slice(0, -1)) {
      expect((await store.read(id))?.state).to.deep.equal(unknown);
    }
  });

  describe("after its server was killed with a put that had not arrived", () => {
    beforeEach(async () => {
      await begin();
      proxy.holdRequests();
    });

    async function serverReplaced(): Promise<void> {
      await ground.server.kill();
      await ground.server.restart();
    }

    it("keeps to it that nothing happened", async () => {
      const announced = Promise.all([proxy.heard(), writer.next("wrote")]);
      const refused = writer.ask({ admit: "run:1" });
      await announced;
      await serverReplaced();
      expect((await refused).outcome).to.equal("receipt_store_unavailable");
      await writer.kill();
      const store = await successor();
      expect(await store.read("run:1")).to.equal(null);
      expect((await store.admit("run:1", intent, running)).outcome).to.equal("admitted");
    });

    it("has not said so before it was sure to be able to keep to it", async () => {
      writer.hold(1);
      const announced = Promise.all([proxy.heard(), writer.next("wrote")]);
      void writer.ask({ admit: "run:1" });
      await announced;
      const held = writer.next("held");
      await serverReplaced();
      await held;
      expect(writer.answers).to.deep.equal([]);
      await writer.kill();
      await expectForGood("run:1", lost);
    });
  });

  it("keeps every answer, whenever it and its server are killed", async () => {
    await begin();
    const all: Answer[] = [];
    const fate = fc.record({ ids: fc.integer({ min: 1, max: 90 }), answers: fc.nat(120) });
    await fc.assert(
      fc.asyncProperty(fate, fc.boolean(), async ({ ids, answers }, serverToo) => {
        const enough = Promise.withResolvers<void>();
        const names = Array.from({ length: ids }, (_, n) => `run:${generation}:${n}`);
        const stories = names.map(async (id) => {
          await writer.ask({ admit: id });
          if (writer.answers.length >= answers) enough.resolve();
          await writer.ask({ end: id });
          if (writer.answers.length >= answers) enough.resolve();
        });
        await Promise.race([enough.promise, Promise.all(stories)]);
        await writer.kill();
        if (serverToo) {
          await ground.server.kill();
          await ground.server.restart();
        }
        all.push(...writer.answers);
        const store = await successor();
        await expectTrue(store, all);
        await store.close();
        writer = await newWriter();
      }),
      { numRuns: 5, endOnFailure: true },
    );
  });

  /** All that was answered holds in a store of a later life. */
  async function expectTrue(store: WorkStore, answers: readonly Answer[]): Promise<void> {
    expect(store.condition).to.equal("serving");
    for (const { id, outcome, witnessed } of answers) {
      expect(store.lastWitnessedSequence).to.be.at.least(witnessed);
      const read = await store.read(id);
      if (outcome === "done") expect(read?.state, id).to.deep.equal(done);
      else if (outcome === "admitted")
        expect(read?.state.phase, id).to.be.oneOf(["unknown", "done"]);
      else throw new Error(`nothing was harmed that answers ${outcome}`);
      expect((await store.admit(id, intent, running)).outcome).to.equal("existing");
    }
  }
});
