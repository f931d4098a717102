import { randomUUID } from "node:crypto";
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { digestOf } from "../../../transport/receipts/record.ts";
import {
  createWitness,
  type OpenedWitness,
  openWitness,
  type Witness,
} from "../../../transport/receipts/witness.ts";
import {
  parseWitness,
  SLOT_BYTES,
  type WitnessEntry,
} from "../../../transport/receipts/witness-format.ts";
import { takeHold } from "../../support/placed-writes.ts";
import { refusalOf } from "../../support/refusal.ts";
import { smallDisk } from "../../support/small-disk.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

function entry(n: number): WitnessEntry {
  const id = digestOf(Buffer.from(`id ${n}`));
  return { kind: "revision", sequence: n + 1, id, digest: digestOf(Buffer.from(`record ${n}`)) };
}

async function opened(path: string): Promise<OpenedWitness> {
  const found = await openWitness(path, "work");
  if (found === null || found === "damaged") throw new Error(`no witness: ${found}`);
  return found;
}

describe("a witness", () => {
  let folder: TempFolder;
  let path: string;
  let witness: Witness;

  beforeEach(async () => {
    folder = tempFolder();
    path = join(folder.path, "witness");
    await createWitness(path, randomUUID(), "work");
    ({ witness } = await opened(path));
  });
  afterEach(async () => {
    await witness.close();
    folder[Symbol.dispose]();
  });

  it("holds on disk what was appended by the time that is said", async () => {
    await witness.append(entry(0));
    expect(parseWitness(readFileSync(path), "work")?.entries).to.deep.equal([entry(0)]);
    expect(witness.count).to.equal(1);
  });

  it("shares syncs between those who append at once, in their order", async () => {
    const appended: number[] = [];
    await Promise.all(
      Array.from({ length: 200 }, async (_, n) => {
        await witness.append(entry(n));
        appended.push(n);
      }),
    );
    expect(appended).to.deep.equal(Array.from({ length: 200 }, (_, n) => n));
    const bytes = readFileSync(path);
    expect(parseWitness(bytes, "work")?.entries).to.deep.equal(appended.map(entry));
    // The place in its group stands at byte 6 of a slot. The first goes alone; the others find a sync to share.
    const firsts = appended.filter((n) => bytes.readUInt16LE((n + 1) * SLOT_BYTES + 6) === 0);
    expect(firsts).to.deep.equal([0, 1, 65, 129, 193]);
  });

  it("writes what nobody waits for with the next group, in its place", async () => {
    const onDisk = () => parseWitness(readFileSync(path), "work")?.entries;
    witness.appendLater(entry(0));
    expect(onDisk()).to.deep.equal([]);
    await witness.append(entry(1));
    expect(onDisk()).to.deep.equal([entry(0), entry(1)]);
    // One group: the second slot knows that it is the second (byte 6).
    expect(readFileSync(path).readUInt16LE(2 * SLOT_BYTES + 6)).to.equal(1);
  });

  it("writes what nobody waits for at the latest when it is closed", async () => {
    for (let n = 0; n < 70; n += 1) witness.appendLater(entry(n));
    await witness.close();
    const again = await opened(path);
    witness = again.witness;
    expect(again.entries).to.deep.equal(Array.from({ length: 70 }, (_, n) => entry(n)));
  });

  it("goes on where it was when it is opened anew", async () => {
    for (let n = 0; n < 5; n += 1) await witness.append(entry(n));
    await witness.close();
    const again = await opened(path);
    witness = again.witness;
    expect(again.entries).to.have.length(5);
    await witness.append(entry(5));
    expect(parseWitness(readFileSync(path), "work")?.entries).to.have.length(6);
  });

  it("has room written ahead before it is needed", async () => {
    for (let n = 0; n < 900; n += 1) {
      await witness.reserve();
      void witness.append(entry(n));
    }
    await witness.append(entry(900));
    await witness.reserve();
    const { length } = readFileSync(path);
    expect(length / SLOT_BYTES - 1 - witness.count).to.be.at.least(256);
    await witness.close();
    const again = await opened(path);
    witness = again.witness;
    expect(again.entries).to.have.length(901);
  });

  it("writes room ahead behind what was appended, however much came meanwhile", async () => {
    const appended: Promise<void>[] = [];
    for (let n = 0; n < 3_000; n += 1) {
      appended.push(witness.append(entry(n)));
      // Several at a time ask for room while more is appended than there was room for.
      if (n % 100 === 0) appended.push(witness.reserve());
    }
    await Promise.all(appended);
    await witness.close();
    const again = await opened(path);
    witness = again.witness;
    expect(again.entries).to.deep.equal(Array.from({ length: 3_000 }, (_, n) => entry(n)));
  });

  it("appends no more once a full disk has taken a part of a group", async () => {
    let writes = 0;
    const letGo = takeHold(async (write) => {
      writes += 1;
      // One slot of the second group fits.
      if (writes === 3) throw Object.assign(new Error("full"), { code: "ENOSPC" });
      return write(writes === 2 ? SLOT_BYTES : undefined);
    });
    try {
      await witness.append(entry(0));
      const refusals = [1, 2].map((n) => refusalOf(() => witness.append(entry(n))));
      for (const { code } of await Promise.all(refusals)) expect(code).to.equal("no_space");
    } finally {
      letGo();
    }
    expect(witness.failed).to.equal(true);
    const refusal = await refusalOf(() => witness.append(entry(3)));
    expect(refusal.code).to.equal("receipt_store_unavailable");
  });

  it("drops a torn tail for good: what is appended next is not followed by its remains", async () => {
    for (let n = 0; n < 3; n += 1) await witness.append(entry(n));
    await witness.close();
    truncateSync(path, 4 * SLOT_BYTES);
    appendFileSync(path, Buffer.alloc(SLOT_BYTES, 0xff));
    appendFileSync(path, Buffer.alloc(17, 0xff));
    const again = await opened(path);
    witness = again.witness;
    expect(again.entries).to.have.length(3);
    expect(readFileSync(path)).to.have.length(4 * SLOT_BYTES);
    await witness.reserve();
    await witness.append(entry(3));
    expect(parseWitness(readFileSync(path), "work")).to.include({ torn: false });
  });

  it("is null where there is none, and damaged where something else stands", async () => {
    expect(await openWitness(join(folder.path, "none"), "work")).to.equal(null);
    writeFileSync(join(folder.path, "empty"), "");
    mkdirSync(join(folder.path, "folder"));
    symlinkSync(path, join(folder.path, "link"));
    for (const name of ["empty", "folder", "link"]) {
      expect(await openWitness(join(folder.path, name), "work"), name).to.equal("damaged");
    }
    expect(await openWitness(path, "other")).to.equal("damaged");
  });

  it("refuses what is to come when a full disk gives no room ahead, and keeps what it has", async () => {
    const disk = await smallDisk(512 * 1024);
    // Only an account that may not have a disk of its own goes without this proof.
    if (disk === null) return;
    await using _ = disk;
    const there = join(disk.path, "witness");
    await createWitness(there, randomUUID(), "work");
    const { witness: full } = await opened(there);
    try {
      disk.fill();
      let n = 0;
      const refusal = await refusalOf(async () => {
        for (;;) {
          await full.reserve();
          await full.append(entry(n));
          n += 1;
        }
      });
      expect(refusal.code).to.equal("no_space");
      expect(n).to.be.greaterThan(500);
      expect(full.count).to.equal(n);
      // Room that was written ahead is still there for what was already under way.
      await full.append(entry(n));
      disk.free();
      await full.reserve();
      await full.append(entry(n + 1));
      expect(parseWitness(readFileSync(there), "work")?.entries).to.have.length(n + 2);
    } finally {
      await full.close();
    }
  });

  it("refuses on a full disk whoever waits, and keeps what nobody waits for until there is space", async () => {
    const disk = await smallDisk(512 * 1024);
    if (disk === null) return;
    await using _ = disk;
    const there = join(disk.path, "witness");
    await createWitness(there, randomUUID(), "work");
    const { witness: full } = await opened(there);
    try {
      // As many as there is room for.
      const room = readFileSync(there).length / SLOT_BYTES - 1;
      await Promise.all(Array.from({ length: room }, (_, n) => full.append(entry(n))));
      disk.fill();
      full.appendLater(entry(room));
      for (const refused of [
        refusalOf(() => full.append(entry(room + 1))),
        refusalOf(() => full.append(entry(room + 2))),
      ]) {
        expect((await refused).code).to.equal("no_space");
      }
      expect(full.failed).to.equal(false);
      expect(full.count).to.equal(room);
      disk.free();
      await full.append(entry(room + 3));
      const written = parseWitness(readFileSync(there), "work")?.entries.slice(room);
      expect(written).to.deep.equal([entry(room), entry(room + 3)]);
    } finally {
      await full.close();
    }
  });
});
