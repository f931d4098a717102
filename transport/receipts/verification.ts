/**
 * Owns the comparison of the stream with what was ever acknowledged: done at open, and again for each
 * new life of the server before it is trusted.
 *
 * 1. An acknowledged revision that the stream lacks, or holds with other bytes, is lost: marked so in
 *    the witness, for good. More of them than one crash can explain is damage.
 * 2. A revision that the witness lacks was never acknowledged; it is witnessed now. More of them than
 *    can have been under way is damage: then the witness lost its tail.
 * 3. What is acknowledged while the stream is read is not judged by that reading: it may be older.
 * 4. A record that was announced in an earlier life, and neither confirmed nor withdrawn, may have been
 *    acknowledged: it is witnessed now, or missing for good. More of them than can have been under way
 *    is damage: this store did not write that.
 */
import type { StreamInfo } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { decode, encode } from "../rpc/codec.ts";
import type { Bucket, StoredMessage } from "./bucket.ts";
import { provesDurability } from "./durability.ts";
import { damaged } from "./health.ts";
import type { Ledger, LedgerEntry } from "./ledger.ts";
import type { Link } from "./link.ts";
import { decodeRevision, digestOf, hashOf, idOf, type StoredRevision } from "./record.ts";
import type { Witness } from "./witness.ts";

/** Puts that may be under way, not acknowledged yet, at a time; the store holds itself to it. */
export const PUTS_IN_FLIGHT = 64;
/** Acknowledged revisions that may be lost before the store as a whole is not trusted any more. */
const LOSSES_BORNE = PUTS_IN_FLIGHT;

/** The key of the store's own record: no key of an id holds a dot. */
export const IDENTITY_KEY = "store.identity";

export interface FoundRevision {
  readonly id: string;
  readonly hash: string;
  readonly sequence: number;
  readonly digest: string;
  readonly revision: StoredRevision;
}

export interface Verified {
  readonly proven: boolean;
  /** The last revision of every id that is not lost. */
  readonly found: readonly FoundRevision[];
  readonly newlyLost: number;
  readonly newlyWitnessed: number;
  readonly newlyMissing: number;
}

export interface VerifiedParts {
  readonly bucket: Bucket;
  readonly link: Link;
  readonly sys: NatsConnection | null;
  /** What is known of the system account's connection. */
  readonly prover: Link | null;
  readonly ledger: Ledger;
  readonly witness: Witness;
  readonly serverId: string;
  /** Aborted when the connection to that server is cut. */
  readonly signal: AbortSignal;
}

/** Errors: `receipt_store_damaged`, `receipt_store_unavailable` (nothing was found out), `no_space`. */
export async function verifyStore(parts: VerifiedParts): Promise<Verified> {
  const { bucket, ledger, witness, signal } = parts;
  const info = await bucket.info(signal);
  if (info === null) throw damaged("stream_missing");
  if (!bucket.keepsEverything(info.config)) throw damaged("stream_settings");
  const known = new Map(ledger.entries());
  const [messages, proven] = await Promise.all([bucket.lastOfEach(signal), prove(parts, info)]);
  requireIdentity(messages, witness.storeId);
  const { found, unwitnessed, lost, missing } = compare(
    ledger,
    known,
    messages.filter(({ key }) => key !== IDENTITY_KEY),
  );
  if (ledger.losses + lost.length > LOSSES_BORNE) throw damaged("revisions_lost");
  if (ledger.open.size > PUTS_IN_FLIGHT) throw damaged("witness_damaged");
  const unknown = unwitnessed.filter(({ hash, digest }) => ledger.open.get(hash) !== digest);
  if (unknown.length > PUTS_IN_FLIGHT) throw damaged("witness_behind");
  if (lost.length + unwitnessed.length + missing.length > 0) await witness.reserve();
  await Promise.all([
    ...lost.map(async (id) => {
      const { sequence = 0, digest = "" } = ledger.get(id) ?? {};
      await witness.append({ kind: "loss", id, sequence, digest });
      ledger.lose(id);
    }),
    ...unwitnessed.map(async ({ hash, sequence, digest, revision }) => {
      await witness.append({ kind: "revision", id: hash, sequence, digest });
      ledger.note(hash, sequence, digest, revision);
    }),
    // Behind the revisions: an id of which the stream holds another record is not spent by this one.
    ...missing.map(async ([id, digest]) => {
      await witness.append({ kind: "missing", id, sequence: 0, digest });
      ledger.miss(id, digest);
    }),
  ]);
  return {
    proven,
    found,
    newlyLost: lost.length,
    newlyWitnessed: unwitnessed.length,
    newlyMissing: missing.length,
  };
}

/** No proof is waited for from a connection that is cut, or still with an earlier life of the server. */
async function prove(
  { sys, prover, link, serverId }: VerifiedParts,
  stream: StreamInfo,
): Promise<boolean> {
  const proverServer = prover?.serverId ?? null;
  if (sys === null || proverServer === null) return false;
  if (proverServer !== serverId && !link.clustered) return false;
  return provesDurability(sys, serverId, stream);
}

export function encodeIdentity(storeId: string): Uint8Array {
  return encode({ store: storeId });
}

/** Whether the stream's own record names this store. */
export function namesStore(bytes: Uint8Array, storeId: string): boolean {
  try {
    const decoded = decode(bytes);
    return (
      typeof decoded === "object" &&
      decoded !== null &&
      "store" in decoded &&
      decoded.store === storeId
    );
  } catch {
    return false;
  }
}

function requireIdentity(messages: readonly StoredMessage[], storeId: string): void {
  const identity = messages.find(({ key }) => key === IDENTITY_KEY);
  if (identity === undefined || !namesStore(identity.bytes, storeId)) {
    throw damaged("stream_foreign");
  }
}

interface Comparison {
  readonly found: readonly FoundRevision[];
  readonly unwitnessed: readonly FoundRevision[];
  /** Hashes of the ids. */
  readonly lost: readonly string[];
  /** Hashes of the ids and digests of the records. */
  readonly missing: readonly (readonly [string, string])[];
}

/** `known`: what the ledger held before the messages were read. */
function compare(
  ledger: Ledger,
  known: ReadonlyMap<string, LedgerEntry>,
  messages: readonly StoredMessage[],
): Comparison {
  const found: FoundRevision[] = [];
  const unwitnessed: FoundRevision[] = [];
  const lost: string[] = [];
  const met = new Set<string>();
  for (const { key, sequence, bytes } of messages) {
    const id = idOf(key);
    if (id === null) throw damaged("foreign_record");
    const hash = hashOf(id);
    met.add(hash);
    const standing = standingOf(ledger, hash, sequence, bytes);
    if (standing.kind === "lost") continue;
    if (standing.kind === "newly_lost") {
      if (ledger.get(hash) === known.get(hash)) lost.push(hash);
      continue;
    }
    const revision = decodeRevision(id, bytes);
    if (revision === null) throw damaged("foreign_record");
    const one = { id, hash, sequence, digest: standing.digest, revision };
    found.push(one);
    if (standing.kind === "unwitnessed") unwitnessed.push(one);
    else ledger.note(hash, sequence, standing.digest, revision);
  }
  for (const [hash, entry] of known) {
    if (!entry.lost && !met.has(hash) && ledger.get(hash) === entry) lost.push(hash);
  }
  const held = new Set(found.map(({ hash, digest }) => hash + digest));
  const missing = [...ledger.open].filter(([hash, digest]) => !held.has(hash + digest));
  return { found, unwitnessed, lost, missing };
}

type Standing =
  | { readonly kind: "lost" }
  | { readonly kind: "newly_lost" }
  | { readonly kind: "intact" | "unwitnessed"; readonly digest: string };

/** What the last revision that the stream holds of an id is beside what was acknowledged of it. */
export function standingOf(
  ledger: Ledger,
  hash: string,
  sequence: number,
  bytes: Uint8Array,
): Standing {
  const entry = ledger.get(hash);
  if (entry?.lost === true) return { kind: "lost" };
  const digest = digestOf(bytes);
  if (entry === undefined || sequence > entry.sequence) return { kind: "unwitnessed", digest };
  const intact = sequence === entry.sequence && digest === entry.digest;
  return intact ? { kind: "intact", digest } : { kind: "newly_lost" };
}
