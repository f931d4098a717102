/**
 * Owns which of two streams a store of records lives in, and its move from one to the other.
 *
 * A server that is killed while it overwrites a message has forgotten the message but may have left its bytes, and
 * nothing makes it overwrite them later. So the standing records are then copied to the other stream, and the first
 * one is deleted with its files. The store's own note says which stream counts; writing it anew is the move.
 * Before that, the other stream is nothing and is made anew; after it, the first one is. A witness that grew too
 * long is left behind in the same way.
 */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { Bucket, type BucketTimeouts, type Retention } from "../receipts/bucket.ts";
import { foundOrRecognise } from "../receipts/founding.ts";
import { damaged } from "../receipts/health.ts";
import { readIdentityNote, writeIdentityNote } from "../receipts/identity-file.ts";
import { digestOf } from "../receipts/record.ts";
import { encodeIdentity, IDENTITY_KEY } from "../receipts/verification.ts";
import { createWitness, openWitness, type Witness } from "../receipts/witness.ts";
import { RecordLedger } from "./ledger.ts";

export interface Place {
  readonly connection: NatsConnection;
  /** The folder of the store's own files. */
  readonly folder: string;
  /** What the names of both streams begin with. */
  readonly bucket: string;
  readonly replicas: number;
  readonly timeouts: BucketTimeouts;
  readonly clock: Clock;
}

/** The stream that counts, and our own account of it. */
export interface Home {
  readonly name: string;
  readonly bucket: Bucket;
  readonly witness: Witness;
  readonly ledger: RecordLedger;
}

/** One stands and one replaces it, until that one is overwritten. */
const RETENTION: Retention = { revisions: 2, erasable: true };
const SIDES = ["a", "b"] as const;

const noteOf = ({ folder }: Place): string => join(folder, "identity.json");
const witnessOf = ({ folder }: Place, name: string): string => join(folder, `witness-${name}`);

/** Opens the store, or makes it. Errors: `receipt_store_damaged`, `receipt_store_unavailable`, `no_space`. */
export async function openHome(place: Place): Promise<Home> {
  const [first, second] = SIDES.map((side) => `${place.bucket}-${side}`) as [string, string];
  const isSecond = await isNoteOf(place, second);
  const [name, other] = isSecond ? [second, first] : [first, second];
  const bucket = await bucketOf(place, name);
  const files = { note: noteOf(place), witness: witnessOf(place, name) };
  const { witness, entries } = await foundOrRecognise(files, name, bucket, null);
  try {
    await discard(place, other);
  } catch (failure) {
    await witness.close();
    throw failure;
  }
  return { name, bucket, witness, ledger: new RecordLedger(entries) };
}

/** Moves every standing record to the other stream. Errors: as `openHome`; then it stays where it was. */
export async function moveHome(place: Place, from: Home, signal: AbortSignal): Promise<Home> {
  const side = from.name.endsWith(SIDES[0]) ? SIDES[1] : SIDES[0];
  const name = `${place.bucket}-${side}`;
  await discard(place, name);
  const bucket = await bucketOf(place, name);
  const storeId = randomUUID();
  await bucket.create();
  await stored(bucket, IDENTITY_KEY, encodeIdentity(storeId));
  await createWitness(witnessOf(place, name), storeId, name);
  const opened = await openWitness(witnessOf(place, name), name);
  if (opened === null || opened === "damaged") throw damaged("witness_damaged");
  const { witness } = opened;
  try {
    const ledger = new RecordLedger([]);
    for (const [hash, { digest }] of from.ledger.standing) {
      const key = Buffer.from(hash, "latin1").toString("base64url");
      const message = await from.bucket.get(key, signal);
      if (message === null || digestOf(message.bytes) !== digest) throw damaged("revisions_lost");
      await witness.reserve();
      const sequence = await stored(bucket, key, message.bytes);
      await witness.append({ kind: "revision", id: hash, sequence, digest });
      ledger.note(hash, { sequence, digest });
    }
    await writeIdentityNote(noteOf(place), { version: 1, bucket: name, storeId, phase: "ready" });
    from.bucket.close();
    await from.witness.close();
    return { name, bucket, witness, ledger };
  } catch (failure) {
    bucket.close();
    await witness.close();
    throw failure;
  }
}

/** Deletes a stream that does not count, with its witness. Errors: `receipt_store_unavailable`. */
export async function discard(place: Place, name: string): Promise<void> {
  await (await bucketOf(place, name)).drop();
  await rm(witnessOf(place, name), { force: true });
}

function bucketOf({ connection, replicas, timeouts, clock }: Place, name: string): Promise<Bucket> {
  return Bucket.open(connection, name, replicas, timeouts, clock, RETENTION);
}

async function isNoteOf(place: Place, name: string): Promise<boolean> {
  const note = await readIdentityNote(noteOf(place), name);
  return note !== null && note !== "damaged";
}

async function stored(bucket: Bucket, key: string, bytes: Uint8Array): Promise<number> {
  const put = await bucket.put(key, bytes, 0);
  if (put.outcome === "stored") return put.sequence;
  throw new LemonError(put.outcome === "no_space" ? "no_space" : "receipt_store_unavailable");
}
