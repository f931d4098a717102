import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { expect } from "chai";
import fc from "fast-check";
import { LemonError } from "../../../protocol/errors.ts";
import type { Receipt, StoreState } from "../../../transport/receipts/receipt.ts";
import {
  type Bench,
  bench,
  done,
  reopened,
  running,
  type WorkState,
  type WorkStore,
} from "../../support/receipts.ts";
import { refusalOf } from "../../support/refusal.ts";

const intent = Buffer.from("do it");

/** Resolves when the store is in one of these states. */
function reaches(store: WorkStore, ...states: readonly StoreState[]): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (!states.includes(store.condition)) return;
      unwatch();
      resolve();
    };
    const unwatch = store.watch(look);
    look();
  });
}

describe("a receipt store whose server dies", () => {
  let ground: Bench;
  let store: WorkStore;

  beforeEach(async () => {
    ground = await bench();
    store = await ground.open();
  });
  afterEach(() => ground[Symbol.asyncDispose]());

  async function die(): Promise<void> {
    await ground.server.kill();
    await reaches(store, "verifying");
  }

  it("refuses everything at once while the server is away, and knows all when it is back", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    await die();
    for (const attempt of [
      () => store.admit("run:2", intent, running),
      () => store.read("run:1"),
      () => store.read("run:2"),
      () => store.advance(receipt, { phase: "running", step: 1 }),
    ]) {
      const refusal = await refusalOf(attempt);
      expect(refusal).to.include({
        code: "receipt_store_unavailable",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
    }
    await ground.server.restart();
    await reaches(store, "serving");
    expect(await store.read("run:1")).to.deep.equal(receipt);
    expect(await store.read("run:2")).to.equal(null);
    expect((await store.admit("run:2", intent, running)).outcome).to.equal("admitted");
  });

  it("keeps the end of work in memory and writes it when the server is back", async () => {
    const receipts = await Promise.all(
      ["run:1", "run:2"].map(async (id) => (await store.admit(id, intent, running)).receipt),
    );
    await die();
    const ends = receipts.map((receipt) => store.advance(receipt, done));
    await ground.server.restart();
    const ended = await Promise.all(ends);
    for (const receipt of ended) {
      expect(receipt.state).to.deep.equal(done);
      expect(await store.read(receipt.id)).to.deep.equal(receipt);
    }
  });

  it("gives up an end that waits when it is closed", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    await die();
    const end = refusalOf(() => store.advance(receipt, done));
    await store.close();
    expect((await end).code).to.equal("receipt_store_unavailable");
    await ground.server.restart();
    store = await reopened(ground, 2);
    expect((await store.read("run:1"))?.state.phase).to.equal("unknown");
  });

  it("has its proofs redone for each new life of the server before it admits again", async () => {
    await store.admit("run:1", intent, running);
    await ground.server.kill();
    await ground.sys.close();
    await ground.server.restart();
    await reaches(store, "unproven");
    const refusal = await refusalOf(() => store.admit("run:2", intent, running));
    expect(refusal.code).to.equal("durability_unproven");
    expect((await store.read("run:1"))?.state).to.deep.equal(running);
  });

  it("notices a stream that is gone when the server is back", async () => {
    await store.admit("run:1", intent, running);
    const { receipt } = await store.admit("run:2", intent, running);
    await die();
    const waiting = refusalOf(() => store.advance(receipt, done));
    rmSync(join(ground.server.storeDirectory, "STORE"), { recursive: true });
    await ground.server.restart();
    await reaches(store, "damaged");
    expect(store.damage).to.equal("stream_missing");
    for (const attempt of [
      () => store.admit("run:3", intent, running),
      () => store.read("run:3"),
      () => store.read("run:1"),
    ]) {
      expect((await refusalOf(attempt)).code).to.be.oneOf([
        "receipt_store_damaged",
        "receipt_store_unavailable",
      ]);
    }
    expect((await waiting).code).to.equal("receipt_store_damaged");
  });

  it("knows as lost, for good, what an older copy of the stream lacks", async () => {
    const kept = await store.admit("run:kept", intent, running);
    await ground.server.stop();
    const directory = join(ground.server.storeDirectory, "STORE");
    cpSync(directory, `${directory}.old`, { recursive: true });
    await ground.server.restart();
    await reaches(store, "serving");
    const gone = await store.admit("run:gone", intent, running);
    const moved = await store.advance(kept.receipt, done);
    await ground.server.stop();
    cpSync(directory, `${directory}.new`, { recursive: true });
    rmSync(directory, { recursive: true });
    cpSync(`${directory}.old`, directory, { recursive: true });
    await ground.server.restart();
    await reaches(store, "serving");
    const lost = { phase: "lost", step: 0 } as const;
    for (const id of ["run:gone", "run:kept"]) {
      expect((await store.read(id))?.state).to.deep.equal(lost);
      const again = await store.admit(id, Buffer.from("other"), running);
      expect(again).to.include({ outcome: "existing", sameIntent: true });
      expect(again.receipt.state).to.deep.equal(lost);
    }
    expect((await store.advance(gone.receipt, done)).state).to.deep.equal(lost);
    expect(store.retained).to.equal(2);
    expect((await store.admit("run:new", intent, running)).outcome).to.equal("admitted");

    // Also when the stream that had it all is put back: what was once said to be lost stays so.
    await store.close();
    await ground.server.stop();
    rmSync(directory, { recursive: true });
    cpSync(`${directory}.new`, directory, { recursive: true });
    await ground.server.restart();
    const later = await reopened(ground, 2);
    expect((await later.read(moved.id))?.state).to.deep.equal(lost);
    // And what was admitted on the older copy is lost with it.
    expect((await later.read("run:new"))?.state).to.deep.equal(lost);
  });

  it("is damaged when an older copy lacks more than a crash can explain", async () => {
    await ground.server.stop();
    const directory = join(ground.server.storeDirectory, "STORE");
    cpSync(directory, `${directory}.old`, { recursive: true });
    await ground.server.restart();
    await reaches(store, "serving");
    const ids = Array.from({ length: 65 }, (_, n) => `run:${n}`);
    await Promise.all(ids.map((id) => store.admit(id, intent, running)));
    await ground.server.stop();
    rmSync(directory, { recursive: true });
    cpSync(`${directory}.old`, directory, { recursive: true });
    await ground.server.restart();
    await reaches(store, "damaged");
    expect(store.damage).to.equal("revisions_lost");
    for (const id of ["run:0", "run:new"]) {
      expect((await refusalOf(() => store.read(id))).code).to.equal("receipt_store_damaged");
      const refusal = await refusalOf(() => store.admit(id, intent, running));
      expect(refusal.code).to.equal("receipt_store_damaged");
    }
    await store.close();
    const refusal = await refusalOf(() => reopened(ground, 2));
    expect(refusal.details).to.deep.equal({ reason: "revisions_lost" });
  });

  it("shows, while damaged, what is proven intact and nothing as absent", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    const manager = await jetstreamManager(ground.connection);
    const { config } = await manager.streams.info("KV_work");
    await manager.streams.update("KV_work", { ...config, max_age: 1_000_000_000_000 });
    await die();
    await ground.server.restart();
    await reaches(store, "damaged");
    expect(store.damage).to.equal("stream_settings");
    expect(await store.read("run:1")).to.deep.equal(receipt);
    expect((await refusalOf(() => store.read("run:2"))).code).to.equal("receipt_store_damaged");
  });

  it("loses, forgets and repeats nothing, whenever the server dies", async () => {
    const history = new History();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(9), fc.constantFrom("admit", "advance", "end", "read")), {
          minLength: 10,
          maxLength: 40,
        }),
        fc.nat(60),
        async (calls, turns) => {
          history.newRound();
          const under = calls.map(([id, call]) => history.call(store, `run:${id}`, call));
          for (let turn = 0; turn < turns; turn += 1) {
            await new Promise((resolve) => setImmediate(resolve));
          }
          await ground.server.kill();
          await ground.server.restart();
          await reaches(store, "serving");
          await Promise.all(under);
          await history.check(store);
        },
      ),
      { numRuns: 10, endOnFailure: true },
    );
    await store.close();
    store = await reopened(ground, 2);
    await history.check(store);
  });
});

/** Everything that was answered about some ids, and what must hold from then on. */
class History {
  #round = 0;
  readonly #acknowledged = new Map<string, Receipt<WorkState>>();
  readonly #admitted = new Map<string, number>();

  /** Ids of a round are its own, so that every round admits anew; those before it are still checked. */
  newRound(): void {
    this.#round += 1;
  }

  async call(store: WorkStore, name: string, call: string): Promise<void> {
    const id = `${this.#round}/${name}`;
    try {
      if (call === "admit") {
        const { outcome, receipt } = await store.admit(id, intent, running);
        if (outcome === "admitted") this.#admitted.set(id, (this.#admitted.get(id) ?? 0) + 1);
        this.#see(receipt);
        return;
      }
      if (call === "read") {
        const known = this.#acknowledged.has(id);
        const receipt = await store.read(id);
        if (known) expect(receipt, `${id} reads as absent`).not.to.equal(null);
        if (receipt !== null) this.#see(receipt);
        return;
      }
      const receipt = this.#acknowledged.get(id);
      if (receipt === undefined || receipt.state.phase !== "running") return;
      const next =
        call === "end" ? done : ({ phase: "running", step: receipt.state.step + 1 } as const);
      this.#see(await store.advance(receipt, next));
    } catch (failure) {
      if (!(failure instanceof LemonError)) throw failure;
      expect(failure.code).to.be.oneOf([
        "receipt_store_unavailable",
        "durability_unproven",
        "timeout",
      ]);
    }
  }

  /** No acknowledged receipt is gone or went back; no id was admitted twice or can be again. */
  async check(store: WorkStore): Promise<void> {
    for (const [id, acknowledged] of this.#acknowledged) {
      const receipt = await store.read(id);
      expect(receipt, `${id} reads as absent`).not.to.equal(null);
      expect(receipt?.revision).to.be.at.least(acknowledged.revision);
      expect((await store.admit(id, intent, running)).outcome).to.equal("existing");
      expect(this.#admitted.get(id) ?? 0, `${id} was admitted twice`).to.be.at.most(1);
    }
  }

  #see(receipt: Receipt<WorkState>): void {
    const before = this.#acknowledged.get(receipt.id);
    if (before !== undefined && before.revision > receipt.revision) return;
    this.#acknowledged.set(receipt.id, receipt);
  }
}
