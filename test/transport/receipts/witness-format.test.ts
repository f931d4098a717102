import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import fc from "fast-check";
import { digestOf } from "../../../transport/receipts/record.ts";
import {
  encodeGroup,
  encodeHeader,
  LONGEST_GROUP,
  parseWitness,
  SLOT_BYTES,
  type WitnessEntry,
} from "../../../transport/receipts/witness-format.ts";

const STORE = randomUUID();

const KINDS = ["announced", "revision", "withdrawn", "loss", "missing"] as const;

function entries(count: number): WitnessEntry[] {
  return Array.from({ length: count }, (_, n) => ({
    kind: KINDS[n % KINDS.length] ?? "revision",
    sequence: n * 3 + 2,
    id: digestOf(Buffer.from(`id ${n % 5}`)),
    digest: digestOf(Buffer.from(`record ${n}`)),
  }));
}

interface Written {
  readonly bytes: Buffer;
  readonly all: readonly WitnessEntry[];
  /** Number of the first slot of the last group. */
  readonly lastGroup: number;
}

/** A witness of these groups, with zeros ahead. */
function written(groups: readonly number[], ahead = 80): Written {
  const all = entries(groups.reduce((sum, size) => sum + size, 0));
  const parts = [encodeHeader(STORE, "work")];
  let first = 0;
  let lastGroup = 0;
  for (const size of groups) {
    parts.push(encodeGroup(STORE, first, all.slice(first, first + size)));
    lastGroup = first;
    first += size;
  }
  return { bytes: Buffer.concat([...parts, Buffer.alloc(ahead * SLOT_BYTES)]), all, lastGroup };
}

const someGroups = fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 1, maxLength: 8 });

/**
 * What may be read of a witness that was damaged from the byte `from` on: nothing, or what was
 * written, short of nothing before the damage but a part of the last group.
 */
function expectNoLie(damaged: Buffer, { all, lastGroup }: Written, from: number): void {
  const parsed = parseWitness(damaged, "work");
  if (parsed === null) return;
  expect(parsed.storeId).to.equal(STORE);
  expect(parsed.entries).to.deep.equal(all.slice(0, parsed.entries.length));
  const firstHit = Math.floor(from / SLOT_BYTES) - 1;
  expect(parsed.entries.length).to.be.at.least(Math.min(lastGroup, firstHit));
}

describe("the bytes of a witness", () => {
  it("read as what was written", () => {
    fc.assert(
      fc.property(someGroups, (groups) => {
        const { bytes, all } = written(groups);
        expect(parseWitness(bytes, "work")).to.deep.equal({
          storeId: STORE,
          entries: all,
          torn: false,
        });
      }),
    );
  });

  it("read as ever when they hold revisions and losses alone, written before there was more", () => {
    const bytes = Buffer.from(
      "bGVtb24td2l0bmVzcy0xCn0fPFKQq0zejwEjRWeJq80A4T7Xr1WydiLx1uq1vsAUfmjv4o3CsSQAAAAAW0ARESEH" +
        "aeIBAAAAAgAAAAAAAAAyf7yvyRbhh9HdRUFKYTfqyNeKq85cUxvgDUYWBRzOWfUAkPr6uw2bUXLlC3IDenqiAxGy" +
        "AQABAAMAAAAAAAAAzT1OtIX9aV9H5WKvbGksEhVE7vJNavdAPbo3uwhx7e+5W2ZVEo2+GSJSLxe+DNEItaIXrAIA" +
        "AAACAAAAAAAAADJ/vK/JFuGH0d1FQUphN+rI14qrzlxTG+ANRhYFHM5Z9QCQ+vq7DZtRcuULcgN6eg==",
      "base64",
    );
    const one = {
      sequence: 2,
      id: digestOf(Buffer.from("id 0")),
      digest: digestOf(Buffer.from("record 0")),
    };
    const other = {
      sequence: 3,
      id: digestOf(Buffer.from("id 1")),
      digest: digestOf(Buffer.from("record 1")),
    };
    expect(parseWitness(bytes, "work")).to.deep.equal({
      storeId: "7d1f3c52-90ab-4cde-8f01-23456789abcd",
      entries: [
        { kind: "revision", ...one },
        { kind: "revision", ...other },
        { kind: "loss", ...one },
      ],
      torn: false,
    });
  });

  it("hold sequences as large as a number can be exact", () => {
    const [entry] = entries(1);
    if (entry === undefined) throw new Error("no entry");
    const large = { ...entry, sequence: Number.MAX_SAFE_INTEGER };
    const bytes = Buffer.concat([encodeHeader(STORE, "work"), encodeGroup(STORE, 0, [large])]);
    expect(parseWitness(bytes, "work")?.entries).to.deep.equal([large]);
  });

  it("never lie after a single flipped bit", () => {
    fc.assert(
      fc.property(someGroups, fc.nat(), (groups, at) => {
        const witness = written(groups, 4);
        const damaged = Buffer.from(witness.bytes);
        const bit = at % (damaged.length * 8);
        const byte = bit >> 3;
        damaged.writeUInt8(damaged.readUInt8(byte) ^ (1 << (bit & 7)), byte);
        expectNoLie(damaged, witness, byte);
        const slot = Math.floor(byte / SLOT_BYTES) - 1;
        const parsed = parseWitness(damaged, "work");
        if (slot < witness.lastGroup) expect(parsed).to.equal(null);
        else if (slot < witness.all.length) expect(parsed?.entries).to.have.length(slot);
        else expect(parsed?.entries).to.have.length(witness.all.length);
        if (parsed !== null) expect(parsed.torn).to.equal(true);
      }),
      { numRuns: 300 },
    );
  });

  it("never lie after a stretch of them was overwritten", () => {
    const stretch = fc.uint8Array({ minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(someGroups, fc.nat(), stretch, (groups, from, bytes) => {
        const witness = written(groups, 4);
        const damaged = Buffer.from(witness.bytes);
        const start = from % damaged.length;
        Buffer.from(bytes).copy(damaged, start);
        expectNoLie(damaged, witness, start);
      }),
      { numRuns: 300 },
    );
  });

  it("read, when cut, as the whole slots that are left", () => {
    fc.assert(
      fc.property(someGroups, fc.nat(), (groups, at) => {
        const witness = written(groups, 0);
        const length = at % witness.bytes.length;
        const parsed = parseWitness(witness.bytes.subarray(0, length), "work");
        if (length < SLOT_BYTES) {
          expect(parsed).to.equal(null);
        } else {
          const slots = Math.floor(length / SLOT_BYTES) - 1;
          expect(parsed?.entries).to.deep.equal(witness.all.slice(0, slots));
          expect(parsed?.torn).to.equal(length % SLOT_BYTES !== 0);
        }
      }),
    );
  });

  it("read, after the last group was torn in any way, without anything behind the first hole", () => {
    fc.assert(
      fc.property(
        someGroups,
        fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
        (groups, reached) => {
          const witness = written(groups);
          const torn = Buffer.from(witness.bytes);
          const size = witness.all.length - witness.lastGroup;
          for (let place = 0; place < size; place += 1) {
            const at = (witness.lastGroup + place + 1) * SLOT_BYTES;
            if (reached[place] !== true) torn.fill(0, at, at + SLOT_BYTES);
          }
          const whole = reached.slice(0, size).indexOf(false);
          const expected = witness.lastGroup + (whole < 0 ? size : whole);
          expect(parseWitness(torn, "work")?.entries).to.deep.equal(witness.all.slice(0, expected));
        },
      ),
    );
  });

  it("are no witness when a slot before the last group is missing", () => {
    const { bytes } = written([2, 3, 1]);
    for (let slot = 0; slot < 5; slot += 1) {
      const damaged = Buffer.from(bytes);
      damaged.fill(0, (slot + 1) * SLOT_BYTES, (slot + 2) * SLOT_BYTES);
      expect(parseWitness(damaged, "work")).to.equal(null);
    }
  });

  it("are no witness when slots have changed places", () => {
    const { bytes } = written([1, 1, 1, 1]);
    const damaged = Buffer.from(bytes);
    bytes.copy(damaged, SLOT_BYTES, 2 * SLOT_BYTES, 3 * SLOT_BYTES);
    bytes.copy(damaged, 2 * SLOT_BYTES, SLOT_BYTES, 2 * SLOT_BYTES);
    expect(parseWitness(damaged, "work")).to.equal(null);
  });

  it("are no witness for another bucket, nor with slots of another store", () => {
    const { bytes } = written([1, 1, 1]);
    expect(parseWitness(bytes, "works")).to.equal(null);
    const other = randomUUID();
    const foreign = Buffer.from(bytes);
    encodeGroup(other, 0, entries(1)).copy(foreign, SLOT_BYTES);
    expect(parseWitness(foreign, "work")).to.equal(null);
  });

  it("bear a torn tail as long as a group and none that is longer", () => {
    for (const [garbage, borne] of [
      [LONGEST_GROUP, true],
      [LONGEST_GROUP + 1, false],
    ] as const) {
      const { bytes, all } = written([2, 2], garbage + 4);
      bytes.fill(0xa5, 5 * SLOT_BYTES, (5 + garbage) * SLOT_BYTES);
      const parsed = parseWitness(bytes, "work");
      if (borne) expect(parsed).to.deep.include({ entries: all, torn: true });
      else expect(parsed).to.equal(null);
    }
  });

  it("are no witness when they are empty or something else", () => {
    for (const bytes of [Buffer.alloc(0), Buffer.alloc(4_096), randomBytes(4_096)]) {
      expect(parseWitness(bytes, "work")).to.equal(null);
    }
  });
});
