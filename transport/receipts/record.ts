/**
 * Owns what one revision of a receipt is in the stream: its subject, its bytes, its digest.
 *
 * 1. The bytes name the id, so that a record under another id's subject is foreign.
 * 2. An id appears in the subject (base64url) and in the record, in the witness as a hash only.
 * 3. Of the intent nothing is kept but a fingerprint under a key of this host.
 */
import { hash } from "node:crypto";
import { z } from "zod";
import { decode, encode } from "../rpc/codec.ts";
import type { Fingerprint } from "./fingerprint.ts";

/** Long enough for every kind's ids (the contract's are at most 128 bytes), short enough for a subject. */
export const LONGEST_ID_BYTES = 256;
/** Revisions of one id that the stream keeps; it refuses the next. */
export const MAX_REVISIONS = 64;

const FORMAT = 1;
/** Bytes of SHA-256 kept of an id and of a record: 192 bits. */
export const HASH_BYTES = 24;

/** One revision as it is stored. */
export interface StoredRevision {
  readonly id: string;
  readonly generation: number;
  readonly invocation: string;
  readonly fingerprint: Fingerprint;
  /** 1 for the admission. */
  readonly ordinal: number;
  /** As the kind of work gave it; not parsed yet. */
  readonly state: unknown;
}

const storedRevision = z.tuple([
  z.literal(FORMAT),
  z.string(),
  z.number(),
  z.string(),
  z.instanceof(Uint8Array),
  z.instanceof(Uint8Array),
  z.int().min(1).max(MAX_REVISIONS),
  z.unknown(),
]);

export function encodeRevision(revision: StoredRevision): Uint8Array {
  const { id, generation, invocation, fingerprint, ordinal, state } = revision;
  return encode([
    FORMAT,
    id,
    generation,
    invocation,
    fingerprint.key,
    fingerprint.mac,
    ordinal,
    state,
  ]);
}

/** Null for anything that is not a revision of this id. */
export function decodeRevision(id: string, bytes: Uint8Array): StoredRevision | null {
  let decoded: unknown;
  try {
    decoded = decode(bytes);
  } catch {
    return null;
  }
  const parsed = storedRevision.safeParse(decoded);
  if (!parsed.success || parsed.data[1] !== id) return null;
  const [, , generation, invocation, key, mac, ordinal, state] = parsed.data;
  // Decoded bytes are views on the message; these outlive it.
  const fingerprint = { key: Buffer.from(key), mac: Buffer.from(mac) };
  return { id, generation, invocation, fingerprint, ordinal, state };
}

/** The last token of the id's subject: ids hold `:`, which a KV key may not. */
export function keyOf(id: string): string {
  return Buffer.from(id, "utf8").toString("base64url");
}

/** The id under a key; null when the key is not one that `keyOf` makes. */
export function idOf(key: string): string | null {
  const id = Buffer.from(key, "base64url").toString("utf8");
  return keyOf(id) === key ? id : null;
}

/** An id in its three forms: the caller's, the subject's, the witness's. */
export interface Target {
  readonly id: string;
  readonly key: string;
  readonly hash: string;
}

export function targetOf(id: string): Target {
  return { id, key: keyOf(id), hash: hashOf(id) };
}

/** What the witness knows an id by, as a string of `HASH_BYTES` latin1 characters (compact as a map's key). */
export function hashOf(id: string): string {
  return digestOf(Buffer.from(id, "utf8"));
}

/** What the witness knows a record by, in the same form. */
export function digestOf(bytes: Uint8Array): string {
  return hash("sha256", bytes, "buffer").toString("latin1", 0, HASH_BYTES);
}
