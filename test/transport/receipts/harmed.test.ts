/** Proves that a store whose files or stream were harmed is refused, or made good where that is certain. */
import {
  copyFileSync,
  cpSync,
  existsSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { digestOf, hashOf } from "../../../transport/receipts/record.ts";
import {
  encodeGroup,
  LONGEST_GROUP,
  parseWitness,
  SLOT_BYTES,
  type WitnessEntry,
} from "../../../transport/receipts/witness-format.ts";
import { expectServing, intent, OpenedReceipts } from "../../support/opened-receipts.ts";
import { bench, running } from "../../support/receipts.ts";

describe("the opening of a receipt store", () => {
  let opened: OpenedReceipts;

  before(async () => {
    opened = await OpenedReceipts.begin();
  });
  afterEach(() => opened.ground.clear());
  after(() => opened[Symbol.asyncDispose]());

  describe("with its note harmed", () => {
    const harms: Readonly<Record<string, () => void>> = {
      emptied: () => truncateSync(opened.note),
      cut: () => truncateSync(opened.note, 20),
      "of another bucket": () => opened.editNote((ready) => ({ ...ready, bucket: "other" })),
      "of another version": () => opened.editNote((ready) => ({ ...ready, version: 2 })),
      "in an unknown phase": () => opened.editNote((ready) => ({ ...ready, phase: "raedy" })),
    };
    for (const [harm, inflict] of Object.entries(harms)) {
      it(`(${harm}) it is damaged`, async () => {
        await opened.made(["run:1"]);
        inflict();
        expect(await opened.damage()).to.equal("identity_damaged");
      });
    }

    it("(removed) it is damaged, whatever of the rest is there", async () => {
      await opened.made(["run:1"]);
      rmSync(opened.note);
      expect(await opened.damage()).to.equal("identity_missing");
      rmSync(opened.witness);
      expect(await opened.damage()).to.equal("identity_missing");
      expect(existsSync(opened.note)).to.equal(false);
    });

    it("(another store's id) it is damaged", async () => {
      await opened.made(["run:1"]);
      opened.editNote((ready) => ({ ...ready, storeId: crypto.randomUUID() }));
      expect(await opened.damage()).to.equal("witness_foreign");
    });
  });

  describe("with its witness harmed", () => {
    const many = Array.from({ length: 70 }, (_, n) => `run:${n}`);

    it("(removed, emptied, cut in its head) it is damaged", async () => {
      await opened.made(["run:1"]);
      truncateSync(opened.witness, 63);
      expect(await opened.damage()).to.equal("witness_damaged");
      truncateSync(opened.witness);
      expect(await opened.damage()).to.equal("witness_damaged");
      rmSync(opened.witness);
      expect(await opened.damage()).to.equal("witness_missing");
    });

    it("(a bit flipped in front of its last group) it is damaged", async () => {
      const store = await opened.ground.open();
      for (const id of ["run:1", "run:2", "run:3"]) await store.admit(id, intent, running);
      await store.close();
      const bytes = readFileSync(opened.witness);
      bytes.writeUInt8(bytes.readUInt8(100) ^ 1, 100);
      writeFileSync(opened.witness, bytes);
      expect(await opened.damage()).to.equal("witness_damaged");
    });

    it("(cut by as much as may have been under way) it is made good from the stream", async () => {
      await opened.made(many.slice(0, 64));
      truncateSync(opened.witness, 64);
      const store = await opened.ground.open();
      expect(store.retained).to.equal(64);
      expect(store.lastWitnessedSequence).to.equal(64);
      await store.close();
      // And it is made good on disk: the same again finds a whole witness.
      const again = await opened.ground.open({
        expected: { storeId: store.storeId, witnessedSequence: 64 },
      });
      expect((await again.read("run:63"))?.state).to.deep.equal(running);
    });

    it("(cut by more than that) it is damaged", async () => {
      await opened.made(many.slice(0, 65));
      truncateSync(opened.witness, 64);
      expect(await opened.damage()).to.equal("witness_behind");
    });

    it("(exchanged for an older copy) it is damaged, or made good when little is missing", async () => {
      await opened.made(["run:a"]);
      copyFileSync(opened.witness, `${opened.witness}.old`);
      await opened.made(["run:b"]);
      copyFileSync(`${opened.witness}.old`, opened.witness);
      const store = await opened.ground.open();
      expect((await store.read("run:b"))?.state).to.deep.equal(running);
      await store.close();
      await opened.made(many);
      copyFileSync(`${opened.witness}.old`, opened.witness);
      expect(await opened.damage()).to.equal("witness_behind");
    });

    it("(exchanged for another store's) it is damaged", async () => {
      await opened.made(["run:1"]);
      await using other = await bench();
      const theirs = await other.open();
      await theirs.admit("run:1", intent, running);
      await theirs.close();
      copyFileSync(join(other.files, "witness"), opened.witness);
      expect(await opened.damage()).to.equal("witness_foreign");
    });
  });

  describe("with announcements that nothing followed", () => {
    /** Writes behind what stands in the closed witness. */
    function witnessed(entries: readonly Omit<WitnessEntry, "sequence" | "digest">[]): void {
      const bytes = readFileSync(opened.witness);
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
      writeFileSync(opened.witness, bytes);
    }
    const ids = (count: number, prefix = "open") =>
      Array.from({ length: count }, (_, n) => `${prefix}:${n}`);
    const announced = (id: string) => ({ kind: "announced" as const, id: hashOf(id) });

    it("has every such id spent for good, also more in all than may be lost", async () => {
      await opened.made(["run:1"]);
      const all: string[] = [];
      for (const life of [2, 3, 4]) {
        const open = ids(64, `life ${life}`);
        witnessed(open.map(announced));
        all.push(...open);
        const store = await opened.ground.open({ generation: life });
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
      await opened.made(["run:1"]);
      witnessed(ids(65).map(announced));
      expect(await opened.damage()).to.equal("witness_damaged");
    });

    it("knows nothing of an id whose announcement was withdrawn", async () => {
      await opened.made(["run:1"]);
      witnessed([announced("run:2"), { ...announced("run:2"), kind: "withdrawn" }]);
      const store = await opened.ground.open();
      expect(await store.read("run:2")).to.equal(null);
      expect((await store.admit("run:2", intent, running)).outcome).to.equal("admitted");
    });

    it("keeps what stands of an id of which more was announced", async () => {
      await opened.made(["run:1"]);
      witnessed([announced("run:1")]);
      const store = await opened.ground.open();
      expect((await store.read("run:1"))?.state).to.deep.equal(running);
      expect(store.lastWitnessedSequence).to.equal(2);
      await store.close();
      witnessed([announced("run:1")]);
      const later = await opened.ground.open({ generation: 2 });
      expect((await later.read("run:1"))?.state).to.deep.equal({ phase: "unknown", step: 0 });
    });

    for (const [more, finding] of [
      [64, "made good"],
      [65, "damaged"],
    ] as const) {
      it(`(64 that the stream holds, and ${more} revisions more) it is ${finding}`, async () => {
        const store = await opened.ground.open();
        await Promise.all(ids(64).map((id) => store.admit(id, intent, running)));
        // As the process would leave it now: all are answered, and none is confirmed.
        copyFileSync(opened.witness, `${opened.witness}.killed`);
        await Promise.all(ids(more, "more").map((id) => store.admit(id, intent, running)));
        await store.close();
        copyFileSync(`${opened.witness}.killed`, opened.witness);
        if (finding === "damaged") {
          expect(await opened.damage()).to.equal("witness_behind");
          return;
        }
        const later = await opened.ground.open();
        expect(later.lastWitnessedSequence).to.equal(128);
        for (const id of [...ids(64), ...ids(64, "more")]) {
          expect((await later.read(id))?.state).to.deep.equal(running);
        }
      });
    }
  });

  describe("with its stream harmed", () => {
    it("(deleted) it is damaged, and the stream is not made anew", async () => {
      await opened.made(["run:1"]);
      await opened.manager.streams.delete("KV_work");
      expect(await opened.damage()).to.equal("stream_missing");
    });

    it("(deleted and made anew, or another store's) it is damaged", async () => {
      await opened.made(["run:1"]);
      const { config } = await opened.manager.streams.info("KV_work");
      await opened.manager.streams.delete("KV_work");
      await opened.manager.streams.add({ ...config, name: "KV_work" });
      expect(await opened.damage()).to.equal("stream_foreign");
      cpSync(opened.ground.files, `${opened.ground.files}.ours`, { recursive: true });
      rmSync(opened.ground.files, { recursive: true });
      await opened.manager.streams.delete("KV_work");
      await opened.made(["run:1"]);
      rmSync(opened.ground.files, { recursive: true });
      cpSync(`${opened.ground.files}.ours`, opened.ground.files, { recursive: true });
      expect(await opened.damage()).to.equal("stream_foreign");
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
        await opened.made(["run:1"]);
        const { config } = await opened.manager.streams.info("KV_work");
        await opened.manager.streams.update("KV_work", {
          ...config,
          ...structuredClone(update),
        } as never);
        expect(await opened.damage()).to.equal("stream_settings");
      });
    }

    it("(described or moved) it is as good as before", async () => {
      await opened.made(["run:1"]);
      const { config } = await opened.manager.streams.info("KV_work");
      await opened.manager.streams.update("KV_work", { ...config, description: "receipts" });
      await expectServing(await opened.ground.open());
    });

    it("(a record in it that is none of ours) it is damaged", async () => {
      await opened.made(["run:1"]);
      opened.ground.connection.publish("$KV.work.x", "nonsense");
      await opened.ground.connection.flush();
      expect(await opened.damage()).to.equal("foreign_record");
    });
  });

  describe("with its fingerprint key harmed", () => {
    const harms: Readonly<Record<string, () => void>> = {
      removed: () => rmSync(opened.key),
      emptied: () => truncateSync(opened.key),
      "flipped in a bit": () => {
        const bytes = readFileSync(opened.key);
        bytes.writeUInt8(bytes.readUInt8(5) ^ 4, 5);
        writeFileSync(opened.key, bytes);
      },
    };
    for (const [harm, inflict] of Object.entries(harms)) {
      it(`(${harm}) ids stay spent and intents from before are taken for the same`, async () => {
        await opened.made(["run:1"]);
        inflict();
        const store = await opened.ground.open();
        const other = Buffer.from("something else");
        const old = await store.admit("run:1", other, running);
        expect(old).to.include({ outcome: "existing", sameIntent: true });
        await store.admit("run:2", intent, running);
        const fresh = await store.admit("run:2", other, running);
        expect(fresh).to.include({ outcome: "existing", sameIntent: false });
      });
    }
  });
});
