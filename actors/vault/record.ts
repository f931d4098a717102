/**
 * Owns what stands in the store under a name: the sealed value with its metadata, and the receipts of the name.
 * All in one record, so that a secret and its receipt become durable together or not at all.
 *
 * 1. A record names its owner and its name; under another one's key it is foreign.
 * 2. A name whose secret was deleted has a record as long as it has receipts, with no value in it.
 *
 * Bytes: the length of a header (32 bits, most significant byte first), the header in JSON, the ciphertext.
 */
import { z } from "zod";
import type { Sealed } from "./crypto.ts";

const count = z.int().min(0);
const base64 = (bytes: number) =>
  z
    .base64()
    .transform((text): Uint8Array => new Uint8Array(Buffer.from(text, "base64")))
    .refine(({ length }) => length === bytes);

const receipt = z.strictObject({
  /** The durable identity of the node that applied it. */
  scope: z.string(),
  operationId: z.string(),
  /** Under the master key of that time. */
  fingerprint: base64(32),
  /** Of the value that it installed. */
  revision: count,
});
export type StoredReceipt = z.infer<typeof receipt>;

const secret = z.strictObject({
  revision: count,
  /** Of the master key. */
  keyId: z.string(),
  salt: base64(32),
  nonce: base64(12),
  provider: z.string(),
  expiresAtMs: count.nullable(),
  createdAtMs: count,
  updatedAtMs: count,
});
export type StoredSecret = z.infer<typeof secret>;

const header = z.strictObject({
  v: z.literal(1),
  owner: z.string(),
  name: z.string(),
  secret: secret.nullable(),
  receipts: z.array(receipt),
});

const usage = z.strictObject({
  v: z.literal(1),
  usageOf: z.string(),
  /** When what was used was first set: a later secret of that name begins at none. */
  createdAtMs: count,
  count,
  lastUsedAtMs: count,
});
export type StoredUsage = z.infer<typeof usage>;

export interface SecretRecord {
  readonly owner: string;
  readonly name: string;
  readonly secret: StoredSecret | null;
  readonly receipts: readonly StoredReceipt[];
}

const LENGTH_BYTES = 4;

export function encodeRecord(record: SecretRecord, ciphertext: Uint8Array | null): Buffer {
  const { owner, name, secret: kept, receipts } = record;
  const sealed = kept && { ...kept, salt: text(kept.salt), nonce: text(kept.nonce) };
  const told = receipts.map((one) => ({ ...one, fingerprint: text(one.fingerprint) }));
  return withHeader({ v: 1, owner, name, secret: sealed, receipts: told }, ciphertext);
}

export function encodeUsage(kept: Omit<StoredUsage, "v">): Buffer {
  return withHeader({ v: 1, ...kept }, null);
}

/** What stands under some key; null when that is nothing of ours. */
export function decodeStored(bytes: Uint8Array): SecretRecord | StoredUsage | null {
  try {
    const stored: unknown = JSON.parse(headerOf(bytes).toString());
    const isUsage = typeof stored === "object" && stored !== null && "usageOf" in stored;
    return isUsage ? usage.parse(stored) : header.parse(stored);
  } catch {
    return null;
  }
}

/** The sealed value of a record that has one. */
export function sealedOf(bytes: Uint8Array, { salt, nonce }: StoredSecret): Sealed {
  return { salt, nonce, ciphertext: bytes.subarray(LENGTH_BYTES + headerOf(bytes).length) };
}

function withHeader(stored: object, ciphertext: Uint8Array | null): Buffer {
  const json = Buffer.from(JSON.stringify(stored));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(json.length);
  return Buffer.concat([length, json, ciphertext ?? Buffer.alloc(0)]);
}

function headerOf(bytes: Uint8Array): Buffer {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const length = view.readUInt32BE();
  return view.subarray(LENGTH_BYTES, LENGTH_BYTES + length);
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
