/**
 * Owns the beginning of a store and its recognition ever after.
 *
 * A new store is made in an order in which a crash after any step leaves something that the next open
 * finishes: the node's note (`creating`), the witness, the stream, the stream's own record, the note
 * again (`ready`). Ids are admitted after the last step only; from then on whatever is missing is
 * damage and is never made anew.
 */
import { randomUUID } from "node:crypto";
import { LemonError } from "../../protocol/errors.ts";
import type { Bucket } from "./bucket.ts";
import { damaged } from "./health.ts";
import { type IdentityNote, readIdentityNote, writeIdentityNote } from "./identity-file.ts";
import { encodeIdentity, IDENTITY_KEY, namesStore } from "./verification.ts";
import { createWitness, type OpenedWitness, openWitness } from "./witness.ts";

export interface StoreFiles {
  readonly note: string;
  readonly witness: string;
}

/**
 * Opens the witness of the bucket's store, making the store when there never was one and none is
 * expected. Errors: `receipt_store_damaged`, `receipt_store_unavailable`, those of private files.
 */
export async function foundOrRecognise(
  files: StoreFiles,
  name: string,
  bucket: Bucket,
  expectedStoreId: string | null,
): Promise<OpenedWitness> {
  const note = await readIdentityNote(files.note, name);
  if (note === "damaged") throw damaged("identity_damaged");
  if (note === null && expectedStoreId !== null) throw damaged("not_the_expected_store");
  const known = note ?? (await begin(files, name, bucket));
  if (expectedStoreId !== null && known.storeId !== expectedStoreId) {
    throw damaged("not_the_expected_store");
  }
  if (known.phase === "creating") await finish(files, name, bucket, known);
  const opened = await openWitness(files.witness, name);
  if (opened === null) throw damaged("witness_missing");
  if (opened === "damaged") throw damaged("witness_damaged");
  if (opened.witness.storeId !== known.storeId) {
    await opened.witness.close();
    throw damaged("witness_foreign");
  }
  return opened;
}

/** The first step: where nothing is, and nothing else may be. */
async function begin(files: StoreFiles, name: string, bucket: Bucket): Promise<IdentityNote> {
  const witness = await openWitness(files.witness, name);
  if (witness !== null) {
    if (witness !== "damaged") await witness.witness.close();
    throw damaged("identity_missing");
  }
  if ((await bucket.info()) !== null) throw damaged("identity_missing");
  const note: IdentityNote = { version: 1, bucket: name, storeId: randomUUID(), phase: "creating" };
  await writeIdentityNote(files.note, note);
  return note;
}

/** The other steps, each made unless it was. */
async function finish(
  files: StoreFiles,
  name: string,
  bucket: Bucket,
  note: IdentityNote,
): Promise<void> {
  const { storeId } = note;
  const witness = await openWitness(files.witness, name);
  if (witness === null) {
    await createWitness(files.witness, storeId, name);
  } else {
    if (witness === "damaged") throw damaged("witness_damaged");
    await witness.witness.close();
    if (witness.witness.storeId !== storeId) throw damaged("witness_foreign");
    // The note is older than what it speaks of.
    if (witness.entries.length > 0) throw damaged("identity_damaged");
  }
  const info = await bucket.info();
  if (info === null) await bucket.create();
  else if (!bucket.keepsEverything(info.config)) throw damaged("stream_settings");
  if ((info?.state.last_seq ?? 0) === 0) {
    const put = await bucket.put(IDENTITY_KEY, encodeIdentity(storeId), 0);
    if (put.outcome === "no_space") throw new LemonError("no_space");
    if (put.outcome !== "stored") throw new LemonError("receipt_store_unavailable");
  } else {
    const record = await bucket.get(IDENTITY_KEY);
    const ours = record !== null && namesStore(record.bytes, storeId);
    if (!ours || info?.state.last_seq !== 1) throw damaged("stream_not_empty");
  }
  await writeIdentityNote(files.note, { ...note, phase: "ready" });
}
