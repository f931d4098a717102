/**
 * Owns the words of a store of records that forgets: current facts under keys, where what was replaced or removed
 * is not on the disk any more.
 *
 * 1. A put or a removal is durable when it resolves: synced in the stream, witnessed beside it.
 * 2. What it replaced is overwritten by then, or, when that failed, before anything else is done.
 * 3. A record that is missing, changed or older than what was acknowledged is damage, and told as such: never
 *    an absence.
 * 4. Proofs hold for one life of the server: after another the store is verified again before it is used.
 */
import { hashOf } from "../receipts/record.ts";

/** The key of a name: what stands in the subject. Of any text. */
export function recordKey(name: string): string {
  return Buffer.from(hashOf(name), "latin1").toString("base64url");
}

/** Told of every record of a verification, in no order; the bytes are only lent. */
export interface RecordSink {
  /** Whatever was told before is void. */
  begin(): void;
  record(key: string, bytes: Uint8Array): void;
}

/**
 * One caller at a time. Errors of every operation: `secret_store_unavailable` (nothing was done),
 * `secret_store_damaged`.
 */
export interface RecordStore {
  /** Whether everything was compared with the server that answers now; else `verify` is to be called first. */
  readonly isVerified: boolean;
  /** Why the store is damaged, once it was found so; only `get` works then. */
  readonly damage: string | null;
  /** Replaced or removed records that are not overwritten yet. */
  readonly unerased: number;
  /** Compares all, finishes what an earlier life began, and tells the sink of every record. */
  verify(): Promise<void>;
  get(key: string): Promise<Uint8Array>;
  /**
   * Resolves with whether what it replaced is overwritten. Errors also: `no_space`, `durability_unproven` (nothing
   * was done), `secret_outcome_unknown`.
   */
  put(key: string, bytes: Uint8Array): Promise<boolean>;
  /** Errors also: `secret_outcome_unknown` (it may stand or be gone, or its bytes may be on the disk). */
  remove(key: string): Promise<void>;
  close(): Promise<void>;
}
