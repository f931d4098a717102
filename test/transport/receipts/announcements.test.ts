import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import { LemonError } from "../../../protocol/errors.ts";
import { Ledger } from "../../../transport/receipts/ledger.ts";
import { digestOf, hashOf } from "../../../transport/receipts/record.ts";
import { parseWitness, type WitnessEntry } from "../../../transport/receipts/witness-format.ts";
import { takeHold } from "../../support/placed-writes.ts";
import {
  type Bench,
  bench,
  done,
  reopened,
  running,
  type WorkStore,
} from "../../support/receipts.ts";
import { refusalOf } from "../../support/refusal.ts";

const intent = Buffer.from("do it");

describe("a receipt store that acknowledges what is announced", () => {
  let ground: Bench;
  let store: WorkStore;

  beforeEach(async () => {
    ground = await bench();
    store = await ground.open();
  });
  afterEach(() => ground[Symbol.asyncDispose]());

  function onDisk(): readonly WitnessEntry[] {
    const parsed = parseWitness(readFileSync(join(ground.files, "witness")), "work");
    if (parsed === null) throw new Error("the witness is damaged");
    return parsed.entries;
  }

  /** Whether a process that opened the store now would know of the id. */
  function isKnown(ledger: Ledger, id: string): boolean {
    return ledger.get(hashOf(id)) !== undefined || ledger.open.has(hashOf(id));
  }

  /** Asks for it, and holds the answer against what would be left if the process were killed with it. */
  async function proven(id: string, ask: () => Promise<unknown>): Promise<void> {
    let known = true;
    try {
      await ask();
    } catch (failure) {
      if (!(failure instanceof LemonError)) throw failure;
      if (failure.code === "timeout") return;
      known = false;
    }
    const told = store.lastWitnessedSequence;
    const left = new Ledger(onDisk());
    expect(isKnown(left, id), id).to.equal(known);
    expect(left.open.size).to.be.at.most(64);
    expect(left.witnessed + left.open.size).to.be.at.least(told);
  }

  it("has on disk, with each answer, what keeps it true, whenever the server dies", async () => {
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 150 }), fc.nat(60), async (count, turns) => {
        round += 1;
        const answers = Array.from({ length: count }, (_, n) => {
          const id = `run:${round}:${n}`;
          return proven(id, () => store.admit(id, intent, running));
        });
        for (let turn = 0; turn < turns; turn += 1) {
          await new Promise((resolve) => setImmediate(resolve));
        }
        await ground.server.kill();
        await ground.server.restart();
        await Promise.all(answers);
        await store.close();
        // In order, nothing is left open; and never was more than may be under way.
        const entries = onDisk();
        expect(new Ledger(entries).open.size).to.equal(0);
        const open = new Set<string>();
        for (const { kind, id } of entries) {
          if (kind === "announced") open.add(id);
          else open.delete(id);
          expect(open.size).to.be.at.most(64);
        }
        store = await reopened(ground, 1);
      }),
      { numRuns: 6, endOnFailure: true },
    );
  });

  /** Until the returned function is called, this comes before every write to a file. */
  function beforeWrites(wait: () => Promise<void>): () => void {
    return takeHold(async (write) => {
      await wait();
      return write();
    });
  }

  function failWrites(code: string): () => void {
    return beforeWrites(() => Promise.reject(Object.assign(new Error(code), { code })));
  }

  it("answers no admission that the stream has stored before the witness has it too", async () => {
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const mend = beforeWrites(() => {
      begun.resolve();
      return gate.promise;
    });
    let answered = false;
    const admission = store.admit("run:1", intent, running).finally(() => {
      answered = true;
    });
    try {
      await begun.promise;
      const info = () => ground.connection.request("$JS.API.STREAM.INFO.KV_work");
      while ((await info()).json<{ state: { messages: number } }>().state.messages < 2);
      // What is asked for on the same connection now is answered after the put.
      expect(await store.read("run:2")).to.equal(null);
      expect(answered).to.equal(false);
    } finally {
      mend();
      gate.resolve();
    }
    expect((await admission).outcome).to.equal("admitted");
  });

  it("is uncertain of what the stream stored when the announcement failed for good", async () => {
    const mend = failWrites("EIO");
    try {
      const refusal = await refusalOf(() => store.admit("run:1", intent, running));
      expect(refusal).to.include({ code: "timeout", mutationMayHaveApplied: true });
      expect(store.condition).to.equal("failed");
    } finally {
      mend();
    }
    await store.close();
    store = await ground.open({ generation: 2 });
    expect((await store.read("run:1"))?.state.phase).to.equal("unknown");
  });

  it("is uncertain of what the stream stored while the announcement found no room, then settles it", async () => {
    const { receipt } = await store.admit("run:0", intent, running);
    const mend = failWrites("ENOSPC");
    try {
      const refusal = await refusalOf(() => store.admit("run:1", intent, running));
      expect(refusal).to.include({ code: "timeout", mutationMayHaveApplied: true });
      expect(store.condition).to.equal("full");
    } finally {
      mend();
    }
    await new Promise<void>((resolve) => {
      const unwatch = store.watch(() => {
        if (store.condition !== "serving") return;
        unwatch();
        resolve();
      });
    });
    expect((await store.read("run:1"))?.state.phase).to.equal("unknown");
    expect(await store.read("run:0")).to.deep.equal(receipt);
    await store.close();
    expect(new Ledger(onDisk()).open.size).to.equal(0);
  });

  it("costs no sync of its own for what it confirms", async () => {
    for (let n = 0; n < 3; n += 1) await store.admit(`run:${n}`, intent, running);
    const pair = ["announced", "revision"];
    expect(onDisk().map(({ kind }) => kind)).to.deep.equal([...pair, ...pair, "announced"]);
    await store.close();
    expect(onDisk().map(({ kind }) => kind)).to.deep.equal([...pair, ...pair, ...pair]);
  });

  it("tells no more than was acknowledged before, and no less when it is opened anew", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    expect(store.lastWitnessedSequence).to.equal(1);
    await store.advance(receipt, done);
    expect(store.lastWitnessedSequence).to.equal(2);
    expect(onDisk()).to.have.length(3);
    await store.close();
    expect((await ground.open()).lastWitnessedSequence).to.equal(2);
  });
});

describe("the ledger", () => {
  const entry = (kind: WitnessEntry["kind"], name: string, sequence = 0): WitnessEntry => ({
    kind,
    sequence,
    id: hashOf(name),
    digest: digestOf(Buffer.from(`record of ${name}`)),
  });

  it("holds an announcement open until a word of the same record follows", () => {
    const other = { ...entry("revision", "a", 5), digest: digestOf(Buffer.from("another")) };
    expect(new Ledger([entry("announced", "a")]).open.size).to.equal(1);
    expect(new Ledger([entry("announced", "a"), other]).open.size).to.equal(1);
    for (const kind of ["revision", "withdrawn", "missing"] as const) {
      expect(new Ledger([entry("announced", "a"), entry(kind, "a", 5)]).open.size).to.equal(0);
    }
  });

  it("knows what is announced or withdrawn as nothing that was acknowledged", () => {
    const ledger = new Ledger([entry("announced", "a"), entry("withdrawn", "a")]);
    expect([ledger.size, ledger.losses, ledger.witnessed]).to.deep.equal([0, 0, 0]);
  });

  it("spends an id of which only a missing record is known, and counts it as no loss", () => {
    const ledger = new Ledger([entry("announced", "a"), entry("missing", "a")]);
    expect(ledger.get(hashOf("a"))?.lost).to.equal(true);
    expect([ledger.size, ledger.losses, ledger.witnessed]).to.deep.equal([1, 0, 1]);
    // A record that turns up later does not bring it back.
    ledger.note(hashOf("a"), 7, entry("missing", "a").digest, null);
    expect(ledger.get(hashOf("a"))?.lost).to.equal(true);
  });

  it("keeps the revision that stands of an id of which a further one is missing", () => {
    const ledger = new Ledger([
      entry("revision", "a", 5),
      { ...entry("announced", "a"), digest: "another" },
      { ...entry("missing", "a"), digest: "another" },
    ]);
    expect(ledger.get(hashOf("a"))).to.include({ sequence: 5, lost: false });
    expect([ledger.size, ledger.losses, ledger.witnessed]).to.deep.equal([1, 0, 2]);
  });

  it("counts what it is told once, however often", () => {
    const ledger = new Ledger([entry("revision", "a", 5)]);
    const { id, digest } = entry("revision", "a");
    for (const sequence of [5, 6, 6, 5]) ledger.note(id, sequence, digest, null);
    expect(ledger.witnessed).to.equal(2);
    for (const _ of ["once", "again"]) ledger.lose(id);
    expect(ledger.witnessed).to.equal(3);
  });
});
