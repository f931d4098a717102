/**
 * Owns what a preview binds: the target and every entry below it as they were, and the bytes in which
 * that travels to whoever keeps it until the delete.
 *
 * 1. An entry is the same as long as its device, inode, mode, size, modification and change time are. The
 *    change time tells what was touched or chmodded and had its modification time put back.
 * 2. The bytes are read back whole or not at all: a version, a count, a digest over all of it.
 *
 * Layout, little endian: version u8, count u32, entries in pre-order, SHA-256 of all before it. An entry:
 * level u8 (0 the target), mode u32, device u64, inode u64, size u64, mtime, ctime, length of the name u8,
 * name. A time: seconds i64, nanoseconds u32 (as one number it would end in the year 2262). The target's name
 * is left out: the caller names it.
 */
import { createHash } from "node:crypto";
import { LemonError } from "../../protocol/errors.ts";
import type { Entry } from "../native/entry.ts";

export type Revision = Pick<Entry, "dev" | "ino" | "mode" | "size" | "mtimeNs" | "ctimeNs">;

export interface Candidate {
  /** Empty for the target. */
  readonly name: Buffer;
  readonly revision: Revision;
  /** By name, as bytes. */
  readonly children: readonly Candidate[];
}

/** The same object, unchanged but for its change time, which our own rename of it advances. */
export function isSameBesideChangeTime(one: Revision, other: Revision): boolean {
  return (
    one.ino === other.ino &&
    one.dev === other.dev &&
    one.mode === other.mode &&
    one.size === other.size &&
    one.mtimeNs === other.mtimeNs
  );
}

export function isUnchanged(one: Revision, other: Revision): boolean {
  return isSameBesideChangeTime(one, other) && one.ctimeNs === other.ctimeNs;
}

const VERSION = 2;
const HEAD_BYTES = 5;
const DIGEST_BYTES = 32;
const ENTRY_BYTES = 54;
const NS_IN_S = 1_000_000_000n;

/** What an entry takes, its name included. */
export function candidateBytes(name: Buffer): number {
  return ENTRY_BYTES + name.length;
}

/** What the bytes of a preview take besides its entries. */
export const FRAME_BYTES = HEAD_BYTES + DIGEST_BYTES;

export function encodeCandidates(target: Candidate): Uint8Array {
  const parts: Buffer[] = [];
  write(target, 0, parts);
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(VERSION, 0);
  head.writeUInt32LE(parts.length, 1);
  const body = Buffer.concat([head, ...parts]);
  return Buffer.concat([body, sha256(body)]);
}

function write({ name, revision, children }: Candidate, level: number, into: Buffer[]): void {
  const bytes = Buffer.alloc(candidateBytes(name));
  bytes.writeUInt8(level, 0);
  bytes.writeUInt32LE(revision.mode, 1);
  bytes.writeBigUInt64LE(revision.dev, 5);
  bytes.writeBigUInt64LE(revision.ino, 13);
  bytes.writeBigUInt64LE(revision.size, 21);
  writeTime(bytes, revision.mtimeNs, 29);
  writeTime(bytes, revision.ctimeNs, 41);
  bytes.writeUInt8(name.length, 53);
  name.copy(bytes, ENTRY_BYTES);
  into.push(bytes);
  for (const child of children) write(child, level + 1, into);
}

function writeTime(bytes: Buffer, ns: bigint, offset: number): void {
  const rest = ((ns % NS_IN_S) + NS_IN_S) % NS_IN_S;
  bytes.writeBigInt64LE((ns - rest) / NS_IN_S, offset);
  bytes.writeUInt32LE(Number(rest), offset + 8);
}

function readTime(bytes: Buffer, offset: number): bigint {
  return bytes.readBigInt64LE(offset) * NS_IN_S + BigInt(bytes.readUInt32LE(offset + 8));
}

interface Growing extends Candidate {
  readonly children: Candidate[];
}

/** Errors: `invalid_confirmation_token`, unless these are bytes that `encodeCandidates` made. */
export function decodeCandidates(candidates: Uint8Array): Candidate {
  const bytes = Buffer.from(candidates.buffer, candidates.byteOffset, candidates.byteLength);
  const end = bytes.length - DIGEST_BYTES;
  if (
    end < HEAD_BYTES ||
    bytes.readUInt8(0) !== VERSION ||
    !sha256(bytes.subarray(0, end)).equals(bytes.subarray(end))
  )
    throw new LemonError("invalid_confirmation_token");
  const count = bytes.readUInt32LE(1);
  /** From the target down to the entry read last. */
  const way: Growing[] = [];
  let offset = HEAD_BYTES;
  for (let left = count; left > 0; left -= 1) {
    const level = bytes.readUInt8(offset);
    const named = offset + ENTRY_BYTES;
    const next = named + bytes.readUInt8(offset + 53);
    const candidate: Growing = {
      name: Buffer.from(bytes.subarray(named, next)),
      revision: {
        mode: bytes.readUInt32LE(offset + 1),
        dev: bytes.readBigUInt64LE(offset + 5),
        ino: bytes.readBigUInt64LE(offset + 13),
        size: bytes.readBigUInt64LE(offset + 21),
        mtimeNs: readTime(bytes, offset + 29),
        ctimeNs: readTime(bytes, offset + 41),
      },
      children: [],
    };
    way.splice(level);
    way.at(-1)?.children.push(candidate);
    way.push(candidate);
    offset = next;
  }
  const [target] = way;
  if (target === undefined || offset !== end) throw new LemonError("invalid_confirmation_token");
  return target;
}

/** Tells one set of children, all below them included, from every other; without a word about what they are. */
export function childrenDigest(candidates: Uint8Array): string {
  const children = candidates.subarray(HEAD_BYTES + ENTRY_BYTES, -DIGEST_BYTES);
  return sha256(children).toString("base64url");
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}
