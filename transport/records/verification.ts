/**
 * Owns the comparison of the stream with what was ever acknowledged, and the end of what an earlier life began.
 *
 * 1. A record that the witness knows and the stream lacks, or holds otherwise, is damage.
 * 2. One record that the witness lacks may be there: the put that was under way when the process died. It is
 *    witnessed now. More of them are damage: there is one put at a time.
 * 3. First a record of the store's own is written: whatever was sent before it has landed by then, or never will.
 *    When it is not taken, the store can be read alone.
 */
import { randomBytes } from "node:crypto";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Bucket, StoredMessage } from "../receipts/bucket.ts";
import { provesDurability } from "../receipts/durability.ts";
import { type Damage, damaged } from "../receipts/health.ts";
import { type Link, untilAborted } from "../receipts/link.ts";
import { digestOf, HASH_BYTES } from "../receipts/record.ts";
import { IDENTITY_KEY, namesStore } from "../receipts/verification.ts";
import type { Home } from "./founding.ts";
import type { RecordSink } from "./record-store.ts";

export interface Verified {
  /** Whether a put is synced before it is acknowledged. */
  readonly proven: boolean;
  /** Whether the stream took a record just now. */
  readonly writable: boolean;
  readonly damage: Damage | null;
  /** Something was to be overwritten that the server had forgotten before: its bytes may lie on the disk. */
  readonly mayHaveLeft: boolean;
}

/** A put whose connection was cut. */
const LOST = { outcome: "unanswered" } as const;
const FENCE_KEY = "store.fence";
const FENCE_TRIES = 4;
/** A record is up to 1 MiB: few at a time. */
const READS_IN_FLIGHT = 8;

export interface VerificationParts {
  readonly home: Home;
  readonly sys: NatsConnection | null;
  readonly prover: Link | null;
  readonly link: Link;
  readonly serverId: string;
  readonly signal: AbortSignal;
  readonly sink: RecordSink;
}

/** Errors: `receipt_store_damaged` (nothing can be trusted), `receipt_store_unavailable`, `no_space`. */
export async function verifyRecords(parts: VerificationParts): Promise<Verified> {
  const { home, sink, signal } = parts;
  const info = await home.bucket.info(signal);
  if (info === null) throw damaged("stream_missing");
  if (!home.bucket.keepsEverything(info.config)) throw damaged("stream_settings");
  const proven = await prove(parts, info);
  const writable = await fence(home.bucket, signal);
  sink.begin();
  const damage = await compare(home, sink, signal);
  if (damage !== null || !writable) return { proven, writable, damage, mayHaveLeft: false };
  return { proven, writable, damage, mayHaveLeft: !(await eraseRest(home, signal)) };
}

/** No proof is waited for from a connection that is cut, or still with an earlier life of the server. */
async function prove(
  { sys, prover, link, serverId }: VerificationParts,
  stream: Parameters<typeof provesDurability>[2],
): Promise<boolean> {
  const proverServer = prover?.serverId ?? null;
  if (sys === null || proverServer === null) return false;
  if (proverServer !== serverId && !link.clustered) return false;
  return provesDurability(sys, serverId, stream);
}

/** Whether a record was taken that everything sent before must have preceded. */
async function fence(bucket: Bucket, signal: AbortSignal): Promise<boolean> {
  for (let tries = 0; tries < FENCE_TRIES; tries += 1) {
    const before = (await bucket.get(FENCE_KEY, signal))?.sequence ?? 0;
    const put = bucket.put(FENCE_KEY, randomBytes(8), before);
    const { outcome } = await untilAborted(put, signal, LOST);
    if (outcome !== "conflict" && outcome !== "revision_limit" && outcome !== "stored")
      return false;
    if (outcome === "conflict") continue;
    // Two may stand: room for the next.
    if (before !== 0) await bucket.erase(before, signal);
    if (outcome === "stored") return true;
  }
  return false;
}

async function compare(
  { bucket, witness, ledger }: Home,
  sink: RecordSink,
  signal: AbortSignal,
): Promise<Damage | null> {
  const met = new Set<string>();
  const newer: StoredMessage[] = [];
  let damage: Damage | null = null;
  let hasIdentity = false;
  await bucket.eachLast(signal, READS_IN_FLIGHT, (message) => {
    const { key, sequence, bytes } = message;
    if (key === FENCE_KEY) return;
    if (key === IDENTITY_KEY) {
      hasIdentity = namesStore(bytes, witness.storeId);
      return;
    }
    const hash = hashOfKey(key);
    const standing = hash === null ? undefined : ledger.standing.get(hash);
    if (hash === null) {
      damage = "foreign_record";
    } else if (standing !== undefined && sequence === standing.sequence) {
      met.add(hash);
      if (digestOf(bytes) === standing.digest) sink.record(key, bytes);
      else damage ??= "revisions_lost";
    } else if (ledger.unerased.has(sequence)) {
      // Removed, or all that is left of a record whose successor is lost.
      if (standing !== undefined) damage ??= "revisions_lost";
    } else if (sequence > (standing?.sequence ?? 0)) {
      met.add(hash);
      newer.push(message);
    }
  });
  if (!hasIdentity) throw damaged("stream_foreign");
  if ([...ledger.standing.keys()].some((hash) => !met.has(hash))) damage ??= "revisions_lost";
  if (newer.length > 1) damage ??= "witness_behind";
  if (damage !== null) return damage;
  for (const { key, sequence, bytes } of newer) {
    const hash = hashOfKey(key) ?? "";
    const digest = digestOf(bytes);
    await witness.reserve();
    await witness.append({ kind: "revision", id: hash, sequence, digest });
    ledger.note(hash, { sequence, digest });
    sink.record(key, bytes);
  }
  return null;
}

/** Overwrites what still is to be. False when the server had forgotten some of it before it said that it did. */
async function eraseRest({ bucket, witness, ledger }: Home, signal: AbortSignal): Promise<boolean> {
  let certain = true;
  for (const [sequence, hash] of [...ledger.unerased]) {
    if (!(await bucket.erase(sequence, signal))) {
      certain = false;
      continue;
    }
    await witness.reserve();
    await witness.append({ kind: "erased", id: hash, sequence, digest: hash });
    ledger.erased(sequence);
  }
  return certain;
}

/** What the witness calls a key; null when no name has such a key. */
function hashOfKey(key: string): string | null {
  const bytes = Buffer.from(key, "base64url");
  return bytes.length === HASH_BYTES && bytes.toString("base64url") === key
    ? bytes.toString("latin1")
    : null;
}
