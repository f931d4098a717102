import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { expect } from "chai";
import { quote } from "../../../transport/nats-server/config.ts";
import { digestOf, hashOf } from "../../../transport/receipts/record.ts";
import {
  encodeGroup,
  LONGEST_GROUP,
  parseWitness,
  SLOT_BYTES,
  type WitnessEntry,
} from "../../../transport/receipts/witness-format.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { startServer } from "../../support/nats.ts";
import {
  type Bench,
  bench,
  done,
  running,
  type WorkStore,
  type WorkStoreOptions,
  work,
} from "../../support/receipts.ts";
import { refusalOf } from "../../support/refusal.ts";

const intent = Buffer.from("do it");

describe("the opening of a receipt store", () => {
  let ground: Bench;
  let manager: JetStreamManager;
  let note: string;
  let witness: string;
  let key: string;

  before(async () => {
    ground = await bench();
    manager = await jetstreamManager(ground.connection);
    note = join(ground.files, "identity.json");
    witness = join(ground.files, "witness");
    key = join(ground.files, "fingerprint.key");
  });
  afterEach(() => ground.clear());
  after(() => ground[Symbol.asyncDispose]());

  /** Makes a store, with ids admitted or none, and closes it. */
  async function made(ids: readonly string[]): Promise<void> {
    const store = await ground.open();
    await Promise.all(ids.map((id) => store.admit(id, intent, running)));
    await store.close();
  }

  function editNote(change: (note: Record<string, unknown>) => unknown): void {
    writeFileSync(note, JSON.stringify(change(JSON.parse(readFileSync(note, "utf8")))));
  }

  /** The reason for which the store is damaged. */
  async function damageAtOpen(options: WorkStoreOptions = {}): Promise<unknown> {
    const refusal = await refusalOf(() => ground.open(options));
    expect(refusal.code).to.equal("receipt_store_damaged");
    // What refused once must refuse again: nothing was made or mended on the way.
    const again = await refusalOf(() => ground.open(options));
    expect(again.details).to.deep.equal(refusal.details);
    return refusal.details["reason"];
  }

  async function expectServing(store: WorkStore): Promise<void> {
    expect(store.condition).to.equal("serving");
    expect((await store.admit("new", intent, running)).outcome).to.equal("admitted");
  }

  describe("after a crash in its making", () => {
    const undo: Readonly<Record<string, () => unknown>> = {
      "the note": async () => {
        rmSync(witness);
        rmSync(key);
        await manager.streams.delete("KV_work");
      },
      "the witness": () => manager.streams.delete("KV_work"),
      "the stream": async () => {
        const { config } = await manager.streams.info("KV_work");
        await manager.streams.delete("KV_work");
        await manager.streams.add({ ...config, name: "KV_work" });
      },
      "the stream's own record": () => {},
    };
    for (const [step, undoRest] of Object.entries(undo)) {
      it(`goes on behind ${step}`, async () => {
        await made([]);
        const { storeId } = JSON.parse(readFileSync(note, "utf8"));
        await undoRest();
        editNote((ready) => ({ ...ready, phase: "creating" }));
        const store = await ground.open();
        expect(store.storeId).to.equal(storeId);
        await expectServing(store);
        await store.close();
        expect((await (await ground.open()).read("new"))?.state).to.deep.equal(running);
      });
    }

    it("goes on after the server was killed in the midst of it, at any moment", async () => {
      let failures = 0;
      for (let round = 0; round < 6; round += 1) {
        rmSync(ground.files, { recursive: true, force: true });
        await manager.streams.delete("KV_work").catch(() => {});
        const opening = ground.open({ timeouts: { putMs: 300, readMs: 300 } });
        const opened = opening.then(
          (store) => store.close(),
          () => {
            failures += 1;
          },
        );
        for (let turn = 0; turn < round * 14; turn += 1) {
          await new Promise((resolve) => setImmediate(resolve));
        }
        await ground.server.kill();
        await opened;
        const reconnected = (async () => {
          for await (const status of ground.connection.status()) {
            if (status.type === "reconnect") return;
          }
        })();
        await ground.server.restart();
        await reconnected;
        const store = await ground.open();
        expect(await store.read("new")).to.equal(null);
        await store.close();
      }
      expect(failures).to.be.greaterThan(0);
    });

    it("refuses a note that claims so although ids were admitted", async () => {
      await made(["run:1"]);
      editNote((ready) => ({ ...ready, phase: "creating" }));
      expect(await damageAtOpen()).to.equal("identity_damaged");
    });

    it("refuses a stream that holds more than the store's own record", async () => {
      await made(["run:1"]);
      editNote((ready) => ({ ...ready, phase: "creating" }));
      rmSync(witness);
      expect(await damageAtOpen()).to.equal("stream_not_empty");
    });
  });

  describe("with its note harmed", () => {
    const harms: Readonly<Record<string, () => void>> = {
      emptied: () => truncateSync(note),
      cut: () => truncateSync(note, 20),
      "of another bucket": () => editNote((ready) => ({ ...ready, bucket: "other" })),
      "of another version": () => editNote((ready) => ({ ...ready, version: 2 })),
      "in an unknown phase": () => editNote((ready) => ({ ...ready, phase: "raedy" })),
    };
    for (const [harm, inflict] of Object.entries(harms)) {
      it(`(${harm}) it is damaged`, async () => {
        await made(["run:1"]);
        inflict();
        expect(await damageAtOpen()).to.equal("identity_damaged");
      });
    }

    it("(removed) it is damaged, whatever of the rest is there", async () => {
      await made(["run:1"]);
      rmSync(note);
      expect(await damageAtOpen()).to.equal("identity_missing");
      rmSync(witness);
      expect(await damageAtOpen()).to.equal("identity_missing");
      expect(existsSync(note)).to.equal(false);
    });

    it("(another store's id) it is damaged", async () => {
      await made(["run:1"]);
      editNote((ready) => ({ ...ready, storeId: crypto.randomUUID() }));
      expect(await damageAtOpen()).to.equal("witness_foreign");
    });
  });

  describe("with its witness harmed", () => {
    const many = Array.from({ length: 70 }, (_, n) => `run:${n}`);

    it("(removed, emptied, cut in its head) it is damaged", async () => {
      await made(["run:1"]);
      truncateSync(witness, 63);
      expect(await damageAtOpen()).to.equal("witness_damaged");
      truncateSync(witness);
      expect(await damageAtOpen()).to.equal("witness_damaged");
      rmSync(witness);
      expect(await damageAtOpen()).to.equal("witness_missing");
    });

    it("(a bit flipped in front of its last group) it is damaged", async () => {
      const store = await ground.open();
      for (const id of ["run:1", "run:2", "run:3"]) await store.admit(id, intent, running);
      await store.close();
      const bytes = readFileSync(witness);
      bytes.writeUInt8(bytes.readUInt8(100) ^ 1, 100);
      writeFileSync(witness, bytes);
      expect(await damageAtOpen()).to.equal("witness_damaged");
    });

    it("(cut by as much as may have been under way) it is made good from the stream", async () => {
      await made(many.slice(0, 64));
      truncateSync(witness, 64);
      const store = await ground.open();
      expect(store.retained).to.equal(64);
      expect(store.lastWitnessedSequence).to.equal(64);
      await store.close();
      // And it is made good on disk: the same again finds a whole witness.
      const again = await ground.open({
        expected: { storeId: store.storeId, witnessedSequence: 64 },
      });
      expect((await again.read("run:63"))?.state).to.deep.equal(running);
    });

    it("(cut by more than that) it is damaged", async () => {
      await made(many.slice(0, 65));
      truncateSync(witness, 64);
      expect(await damageAtOpen()).to.equal("witness_behind");
    });

    it("(exchanged for an older copy) it is damaged, or made good when little is missing", async () => {
      await made(["run:a"]);
      copyFileSync(witness, `${witness}.old`);
      await made(["run:b"]);
      copyFileSync(`${witness}.old`, witness);
      const store = await ground.open();
      expect((await store.read("run:b"))?.state).to.deep.equal(running);
      await store.close();
      await made(many);
      copyFileSync(`${witness}.old`, witness);
      expect(await damageAtOpen()).to.equal("witness_behind");
    });

    it("(exchanged for another store's) it is damaged", async () => {
      await made(["run:1"]);
      await using other = await bench();
      const theirs = await other.open();
      await theirs.admit("run:1", intent, running);
      await theirs.close();
      copyFileSync(join(other.files, "witness"), witness);
      expect(await damageAtOpen()).to.equal("witness_foreign");
    });
  });

  describe("with announcements that nothing followed", () => {
    /** Writes behind what stands in the closed witness. */
    function witnessed(entries: readonly Omit<WitnessEntry, "sequence" | "digest">[]): void {
      const bytes = readFileSync(witness);
      const found = parseWitness(bytes, "work");
      if (found === null) throw new Error("no witness");
      let count = found.entries.length;
      for (let at = 0; at < entries.length; at += LONGEST_GROUP) {
        const group = entries.slice(at, at + LONGEST_GROUP).map((entry) => {
          return { ...entry, sequence: 0, digest: digestOf(Buffer.from(`record of ${entry.id}`)) };
        });
        encodeGroup(found.storeId, count, group).copy(bytes, (count + 1) * SLOT_BYTES);
        count += group.length;
      }
      writeFileSync(witness, bytes);
    }
    const ids = (count: number, prefix = "open") =>
      Array.from({ length: count }, (_, n) => `${prefix}:${n}`);
    const announced = (id: string) => ({ kind: "announced" as const, id: hashOf(id) });

    it("has every such id spent for good, also more in all than may be lost", async () => {
      await made(["run:1"]);
      const all: string[] = [];
      for (const life of [2, 3, 4]) {
        const open = ids(64, `life ${life}`);
        witnessed(open.map(announced));
        all.push(...open);
        const store = await ground.open({ generation: life });
        expect(store.condition).to.equal("serving");
        expect(store.retained).to.equal(1 + all.length);
        expect(store.lastWitnessedSequence).to.be.at.least(1 + all.length);
        for (const id of all) expect((await store.read(id))?.state.phase).to.equal("lost");
        const again = await store.admit(all[0] ?? "", intent, running);
        expect(again.outcome).to.equal("existing");
        await store.close();
      }
    });

    it("is damaged by more of them than can have been under way", async () => {
      await made(["run:1"]);
      witnessed(ids(65).map(announced));
      expect(await damageAtOpen()).to.equal("witness_damaged");
    });

    it("knows nothing of an id whose announcement was withdrawn", async () => {
      await made(["run:1"]);
      witnessed([announced("run:2"), { ...announced("run:2"), kind: "withdrawn" }]);
      const store = await ground.open();
      expect(await store.read("run:2")).to.equal(null);
      expect((await store.admit("run:2", intent, running)).outcome).to.equal("admitted");
    });

    it("keeps what stands of an id of which more was announced", async () => {
      await made(["run:1"]);
      witnessed([announced("run:1")]);
      const store = await ground.open();
      expect((await store.read("run:1"))?.state).to.deep.equal(running);
      expect(store.lastWitnessedSequence).to.equal(2);
      await store.close();
      witnessed([announced("run:1")]);
      const later = await ground.open({ generation: 2 });
      expect((await later.read("run:1"))?.state).to.deep.equal({ phase: "unknown", step: 0 });
    });

    for (const [more, finding] of [
      [64, "made good"],
      [65, "damaged"],
    ] as const) {
      it(`(64 that the stream holds, and ${more} revisions more) it is ${finding}`, async () => {
        const store = await ground.open();
        await Promise.all(ids(64).map((id) => store.admit(id, intent, running)));
        // As the process would leave it now: all are answered, and none is confirmed.
        copyFileSync(witness, `${witness}.killed`);
        await Promise.all(ids(more, "more").map((id) => store.admit(id, intent, running)));
        await store.close();
        copyFileSync(`${witness}.killed`, witness);
        if (finding === "damaged") {
          expect(await damageAtOpen()).to.equal("witness_behind");
          return;
        }
        const later = await ground.open();
        expect(later.lastWitnessedSequence).to.equal(128);
        for (const id of [...ids(64), ...ids(64, "more")]) {
          expect((await later.read(id))?.state).to.deep.equal(running);
        }
      });
    }
  });

  describe("with its stream harmed", () => {
    it("(deleted) it is damaged, and the stream is not made anew", async () => {
      await made(["run:1"]);
      await manager.streams.delete("KV_work");
      expect(await damageAtOpen()).to.equal("stream_missing");
    });

    it("(deleted and made anew, or another store's) it is damaged", async () => {
      await made(["run:1"]);
      const { config } = await manager.streams.info("KV_work");
      await manager.streams.delete("KV_work");
      await manager.streams.add({ ...config, name: "KV_work" });
      expect(await damageAtOpen()).to.equal("stream_foreign");
      cpSync(ground.files, `${ground.files}.ours`, { recursive: true });
      rmSync(ground.files, { recursive: true });
      await manager.streams.delete("KV_work");
      await made(["run:1"]);
      rmSync(ground.files, { recursive: true });
      cpSync(`${ground.files}.ours`, ground.files, { recursive: true });
      expect(await damageAtOpen()).to.equal("stream_foreign");
    });

    const changes = {
      "fewer revisions a key": { max_msgs_per_subject: 1 },
      "old ones given up for new ones": { discard: "old", discard_new_per_subject: false },
      "an age": { max_age: 3_600_000_000_000 },
      "a size": { max_bytes: 10_000_000 },
      "reads from anywhere": { allow_direct: true },
      "room for all": { subjects: ["$KV.work.>", "elsewhere"] },
    } as const;
    for (const [change, update] of Object.entries(changes)) {
      it(`(set to ${change}) it is damaged`, async () => {
        await made(["run:1"]);
        const { config } = await manager.streams.info("KV_work");
        await manager.streams.update("KV_work", { ...config, ...structuredClone(update) } as never);
        expect(await damageAtOpen()).to.equal("stream_settings");
      });
    }

    it("(described or moved) it is as good as before", async () => {
      await made(["run:1"]);
      const { config } = await manager.streams.info("KV_work");
      await manager.streams.update("KV_work", { ...config, description: "receipts" });
      await expectServing(await ground.open());
    });

    it("(a record in it that is none of ours) it is damaged", async () => {
      await made(["run:1"]);
      ground.connection.publish("$KV.work.x", "nonsense");
      await ground.connection.flush();
      expect(await damageAtOpen()).to.equal("foreign_record");
    });
  });

  describe("with its fingerprint key harmed", () => {
    const harms: Readonly<Record<string, () => void>> = {
      removed: () => rmSync(key),
      emptied: () => truncateSync(key),
      "flipped in a bit": () => {
        const bytes = readFileSync(key);
        bytes.writeUInt8(bytes.readUInt8(5) ^ 4, 5);
        writeFileSync(key, bytes);
      },
    };
    for (const [harm, inflict] of Object.entries(harms)) {
      it(`(${harm}) ids stay spent and intents from before are taken for the same`, async () => {
        await made(["run:1"]);
        inflict();
        const store = await ground.open();
        const other = Buffer.from("something else");
        const old = await store.admit("run:1", other, running);
        expect(old).to.include({ outcome: "existing", sameIntent: true });
        await store.admit("run:2", intent, running);
        const fresh = await store.admit("run:2", other, running);
        expect(fresh).to.include({ outcome: "existing", sameIntent: false });
      });
    }
  });

  describe("beside what the registry knows", () => {
    it("refuses to make a store where one is expected", async () => {
      const expected = { storeId: crypto.randomUUID() };
      expect(await damageAtOpen({ expected })).to.equal("not_the_expected_store");
      expect(existsSync(note)).to.equal(false);
    });

    it("refuses another store than the expected one", async () => {
      await made(["run:1"]);
      const expected = { storeId: crypto.randomUUID() };
      expect(await damageAtOpen({ expected })).to.equal("not_the_expected_store");
    });

    it("refuses an older copy of everything, and nothing that is as far as was told", async () => {
      const store = await ground.open();
      const { storeId } = store;
      await store.admit("run:1", intent, running);
      await store.admit("run:2", intent, running);
      const { lastWitnessedSequence } = store;
      await store.close();
      const told = (witnessedSequence: number) => ({ expected: { storeId, witnessedSequence } });
      expect(await damageAtOpen(told(lastWitnessedSequence + 1))).to.equal("older_copy");
      await expectServing(await ground.open(told(lastWitnessedSequence)));
    });
  });

  describe("without a proof that the server syncs", () => {
    it("admits nothing, reads, and lets what runs come to its end", async () => {
      const proven = await ground.open();
      const { receipt } = await proven.admit("run:1", intent, running);
      await proven.close();
      const store = await ground.open({ sys: null });
      expect(store.condition).to.equal("unproven");
      const refusal = await refusalOf(() => store.admit("run:2", intent, running));
      expect(refusal).to.include({ code: "durability_unproven", mutationMayHaveApplied: false });
      expect(await store.read("run:2")).to.equal(null);
      expect(await store.read("run:1")).to.deep.equal(receipt);
      expect((await store.advance(receipt, done)).state).to.deep.equal(done);
    });

    it("takes no end for lost that was stored while it compared the stream", async () => {
      const ids = Array.from({ length: 200 }, (_, n) => `run:${n}`);
      const proven = await ground.open();
      const receipts = await Promise.all(
        ids.map(async (id) => (await proven.admit(id, intent, running)).receipt),
      );
      await proven.close();
      const clock = new FakeClock();
      const store = await ground.open({ sys: null, clock });
      expect(store.condition).to.equal("unproven");
      // Without a proof it compares again and again; ends are taken all the while.
      const compared = new Promise<void>((resolve) => {
        const unwatch = store.watch(() => {
          unwatch();
          resolve();
        });
      });
      await clock.advance(100);
      for (const [n, receipt] of receipts.entries()) {
        if (n % 20 === 0) await ground.connection.flush();
        void store.advance(receipt, done);
      }
      await compared;
      for (const id of ids) expect((await store.read(id))?.state, id).to.deep.equal(done);
    });

    it("is not convinced by another server that syncs", async () => {
      await using other = await bench();
      const store = await ground.open({ sys: other.sys });
      expect(store.condition).to.equal("unproven");
    });

    it("is not convinced by a connection that may not ask", async () => {
      const store = await ground.open({ sys: ground.connection });
      expect(store.condition).to.equal("unproven");
    });

    it("is not convinced by a server that syncs now and then", async () => {
      await using lazy = await startServer(
        ({ ports, portsDirectory, logFile, storeDirectory }) =>
          `listen: "127.0.0.1:${ports.client}"
           ports_file_dir: ${quote(portsDirectory)}
           log_file: ${quote(logFile)}
           accounts {
             STORE: { jetstream: enabled, users: [ { user: store, password: s } ] }
             SYS: { users: [ { user: sys, password: s } ] }
           }
           system_account: SYS
           jetstream { store_dir: ${quote(storeDirectory)}, sync_interval: "2m" }`,
      );
      const connection = await lazy.connect({ user: "store", pass: "s" });
      const sys = await lazy.connect({ user: "sys", pass: "s" });
      const store = await ground.open({ connection, sys });
      expect(store.condition).to.equal("unproven");
      await store.close();
    });
  });

  it("is refused while a private file has become readable by others", async () => {
    await made(["run:1"]);
    for (const file of [note, key]) {
      chmodSync(file, 0o644);
      const refusal = await refusalOf(() => ground.open());
      expect(refusal).to.deep.include({ code: "permission_denied", details: { reason: "mode" } });
      chmodSync(file, 0o600);
    }
    expect((await (await ground.open()).read("run:1"))?.state).to.deep.equal(running);
  });

  it("refuses a kind whose name is no bucket's", async () => {
    for (const bucket of ["", "a.b", "a/b", "..", "A", "x".repeat(65)]) {
      const refusal = await refusalOf(() => ground.open({ kind: work(bucket) }));
      expect(refusal.code).to.equal("internal_error");
    }
    await ground.open({ kind: work("x".repeat(64)) });
  });

  it("refuses a kind for which what is lost could still go on", async () => {
    const kind = { ...work(), lost: running };
    expect((await refusalOf(() => ground.open({ kind }))).code).to.equal("internal_error");
  });

  it("fails clearly while no server answers, and lets go of the folder", async () => {
    await made(["run:1"]);
    await ground.server.freeze();
    const refusal = await refusalOf(() => ground.open({ timeouts: { readMs: 50 } }));
    expect(refusal.code).to.equal("receipt_store_unavailable");
    ground.server.thaw();
    await expectServing(await ground.open());
  });
});
