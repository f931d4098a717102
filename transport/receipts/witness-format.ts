/**
 * Owns the bytes of the witness: a header slot, then slots of what may be acknowledged and what became
 * of it, then zeros written ahead. Pure; `witness.ts` owns the file.
 *
 * 1. Every slot is 64 bytes and checks itself (CRC-32 over the store's id, the slot's number and its
 *    content): a slot that was flipped, moved or taken from another store is not a slot.
 * 2. Slots of one group commit know their place in it. Only the last group can be torn by a crash,
 *    and nothing was told on the strength of it then; an invalid slot before it is damage.
 */
import { crc32 } from "node:zlib";
import { digestOf, HASH_BYTES } from "./record.ts";

export const SLOT_BYTES = 64;
/** Most slots of one group commit, so also the longest tail that a crash can tear. */
export const LONGEST_GROUP = 64;

/**
 * `revision`: what the stream holds, and may be acknowledged; it confirms what was announced.
 * `loss`: an acknowledged revision is lost for good.
 * `announced`: a record that is on its way to the stream; it may be acknowledged without a further slot.
 * `withdrawn`: nobody was told of an announced record, and nobody will be on the strength of that.
 * `missing`: an announcement that nothing followed, whose record the stream lacked at the next opening.
 * `removed`, `erased`: of a store that forgets (`transport/records`): a record stands no more; the bytes under this
 * sequence, replaced or removed, are overwritten. No store of receipts has them.
 */
export type WitnessKind = (typeof KINDS)[number];

export interface WitnessEntry {
  readonly kind: WitnessKind;
  /** Stream sequence of the revision, for a loss that of the one that was lost; else 0. */
  readonly sequence: number;
  /** Hash of the id (`hashOf`). */
  readonly id: string;
  /** Digest of the record (`digestOf`); for a loss that of the lost one. */
  readonly digest: string;
}

export interface ParsedWitness {
  readonly storeId: string;
  readonly entries: readonly WitnessEntry[];
  /** True when bytes of a torn group stand behind the entries; they are to be zeroed. */
  readonly torn: boolean;
}

const MAGIC = Buffer.from("lemon-witness-1\n", "latin1");
const STORE_ID_BYTES = 16;
/** The code of a kind is its place here, from 1. */
const KINDS = [
  "revision",
  "loss",
  "announced",
  "withdrawn",
  "missing",
  "removed",
  "erased",
] as const;

// Slot: check u32 at 0, kind u8 at 4, zero u8 at 5, place in its group u16 at 6, sequence u64 at 8,
// id 24 bytes at 16, digest 24 bytes at 40; all little-endian.
const CONTENT_AT = 4;
const PLACE_AT = 6;
const SEQUENCE_AT = 8;
const ID_AT = 16;
const DIGEST_AT = ID_AT + HASH_BYTES;

// Header: magic at 0, store id at 16, hash of the bucket's name at 32, check u32 at 60.
const HEADER_ID_AT = 16;
const HEADER_BUCKET_AT = 32;
const HEADER_CHECK_AT = 60;

/** A store id is a UUID, here in its 16 bytes. */
function storeIdBytes(storeId: string): Buffer {
  return Buffer.from(storeId.replaceAll("-", ""), "hex");
}

function storeIdText(bytes: Buffer): string {
  const hex = bytes.toString("hex");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export function encodeHeader(storeId: string, bucket: string): Buffer {
  const header = Buffer.alloc(SLOT_BYTES);
  MAGIC.copy(header);
  storeIdBytes(storeId).copy(header, HEADER_ID_AT);
  header.write(digestOf(Buffer.from(bucket)), HEADER_BUCKET_AT, "latin1");
  header.writeUInt32LE(crc32(header.subarray(0, HEADER_CHECK_AT)), HEADER_CHECK_AT);
  return header;
}

/** Encodes one group whose first slot is number `first` (0 is the one after the header). */
export function encodeGroup(
  storeId: string,
  first: number,
  entries: readonly WitnessEntry[],
): Buffer {
  const bytes = Buffer.alloc(entries.length * SLOT_BYTES);
  const seeds = new Seeds(storeId);
  for (const [place, entry] of entries.entries()) {
    const slot = bytes.subarray(place * SLOT_BYTES, (place + 1) * SLOT_BYTES);
    slot.writeUInt8(KINDS.indexOf(entry.kind) + 1, CONTENT_AT);
    slot.writeUInt16LE(place, PLACE_AT);
    slot.writeBigUInt64LE(BigInt(entry.sequence), SEQUENCE_AT);
    slot.write(entry.id, ID_AT, HASH_BYTES, "latin1");
    slot.write(entry.digest, DIGEST_AT, HASH_BYTES, "latin1");
    slot.writeUInt32LE(seeds.check(slot, first + place), 0);
  }
  return bytes;
}

/** Reads a whole witness of this bucket; null when it is damaged or not one. */
export function parseWitness(bytes: Buffer, bucket: string): ParsedWitness | null {
  const header = bytes.subarray(0, SLOT_BYTES);
  if (header.length < SLOT_BYTES) return null;
  const storeId = storeIdText(header.subarray(HEADER_ID_AT, HEADER_ID_AT + STORE_ID_BYTES));
  if (!header.equals(encodeHeader(storeId, bucket))) return null;

  const seeds = new Seeds(storeId);
  const slots = Math.floor(bytes.length / SLOT_BYTES) - 1;
  const read: (Slot | null)[] = [];
  let last = -1;
  let lastWritten = -1;
  for (let number = 0; number < slots; number += 1) {
    const slot = bytes.subarray((number + 1) * SLOT_BYTES, (number + 2) * SLOT_BYTES);
    const parsed = parseSlot(slot, number, seeds);
    read.push(parsed);
    if (parsed !== null) last = number;
    if (parsed !== null || !isZero(slot)) lastWritten = number;
  }
  const lastGroup = last - (read[last]?.place ?? 0);
  // A torn group ends at most one group's length behind the last whole one.
  if (lastWritten - last > LONGEST_GROUP) return null;
  const entries: WitnessEntry[] = [];
  for (let number = 0; number <= last; number += 1) {
    const slot = read[number];
    if (slot === null || slot === undefined) {
      return number < lastGroup ? null : { storeId, entries, torn: true };
    }
    entries.push(slot.entry);
  }
  // Less than a slot behind the last whole one: the file was cut.
  const cut = bytes.length % SLOT_BYTES !== 0;
  return { storeId, entries, torn: lastWritten > last || cut };
}

interface Slot {
  readonly entry: WitnessEntry;
  readonly place: number;
}

function parseSlot(slot: Buffer, number: number, seeds: Seeds): Slot | null {
  const kind = KINDS[slot.readUInt8(CONTENT_AT) - 1];
  if (kind === undefined || slot.readUInt32LE(0) !== seeds.check(slot, number)) return null;
  const place = slot.readUInt16LE(PLACE_AT);
  const sequence = Number(slot.readBigUInt64LE(SEQUENCE_AT));
  if (place > number || place >= LONGEST_GROUP || !Number.isSafeInteger(sequence)) return null;
  const id = slot.toString("latin1", ID_AT, DIGEST_AT);
  const digest = slot.toString("latin1", DIGEST_AT, SLOT_BYTES);
  return { entry: { kind, sequence, id, digest }, place };
}

function isZero(slot: Buffer): boolean {
  return slot.every((byte) => byte === 0);
}

/** Checks of slots: bound to the store and to the slot's number. */
class Seeds {
  readonly #prefix = Buffer.alloc(STORE_ID_BYTES + 8);

  constructor(storeId: string) {
    storeIdBytes(storeId).copy(this.#prefix);
  }

  check(slot: Buffer, number: number): number {
    this.#prefix.writeBigUInt64LE(BigInt(number), STORE_ID_BYTES);
    return crc32(slot.subarray(CONTENT_AT), crc32(this.#prefix));
  }
}
