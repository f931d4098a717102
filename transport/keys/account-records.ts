/**
 * Owns what the controller keeps of each account it made on its hub: one private file an account, with
 * the seed of its scoped signing key and its revocations.
 *
 * 1. The file is written before the hub hears of the account, of a revocation or of a removal: what
 *    was decided survives a crash, and is told to the hub again.
 * 2. The account's own seed is never kept: the operator signs its claims, the scoped key its users.
 */
import { readdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { createAccount, fromPublic, type KeyPair } from "@nats-io/nkeys";
import {
  ensurePrivateDirectory,
  readSecureFile,
  syncDirectory,
  writeSecureFile,
} from "../../host/secure-file.ts";
import { systemFailure } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import { ACCOUNT_KINDS, type AccountKind } from "./claims.ts";
import { newSigningKey, signingKey } from "./signing-key.ts";

const VERSION = 1;
const ACCOUNT_KEY = /^A[A-Z2-7]{55}$/;
const USER_KEY = /^U[A-Z2-7]{55}$/;

/** A public user nkey in its exact form: what a worker life shows of itself. */
export function isUserKey(key: string): boolean {
  if (!USER_KEY.test(key)) return false;
  try {
    // The checksum.
    fromPublic(key);
    return true;
  } catch {
    return false;
  }
}

export interface AccountRecord {
  readonly key: NodeKey;
  readonly kind: AccountKind;
  readonly signing: KeyPair;
  /** Public user nkey → when it was revoked for good, in Unix seconds; in that order. */
  readonly revocations: Readonly<Record<string, number>>;
  /** Decided to be deleted; the hub may not know yet. */
  readonly removed: boolean;
}

export class AccountRecords {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Opens the folder (made with 0700 when missing) and reads every record. Errors: `controller_keys_lost`, those of private files. */
  static async open(
    folder: string,
  ): Promise<{ readonly store: AccountRecords; readonly records: readonly AccountRecord[] }> {
    await ensurePrivateDirectory(folder);
    const store = new AccountRecords(folder);
    const records: AccountRecord[] = [];
    for (const name of await readdir(folder)) {
      if (name.endsWith(".tmp")) await unlink(join(folder, name));
      else if (name.endsWith(".json")) records.push(await store.#read(name));
    }
    return { store, records };
  }

  /** A record for a new account; nothing is written. */
  static make(kind: AccountKind): AccountRecord {
    return {
      key: createAccount().getPublicKey() as NodeKey,
      kind,
      signing: AccountRecords.newSigning(),
      revocations: {},
      removed: false,
    };
  }

  /** A key to sign an account's users with. */
  static newSigning(): KeyPair {
    return newSigningKey(createAccount);
  }

  async write(record: AccountRecord): Promise<void> {
    const { key, kind, signing, revocations, removed } = record;
    const seed = new TextDecoder().decode(signing.getSeed());
    const content = JSON.stringify({ version: VERSION, key, kind, seed, revocations, removed });
    await writeSecureFile(this.#path(key), `${content}\n`);
  }

  async delete(key: NodeKey): Promise<void> {
    try {
      await unlink(this.#path(key));
      await syncDirectory(this.#folder);
    } catch (failure) {
      const error = systemFailure(failure);
      if (error.code !== "not_found") throw error;
    }
  }

  #path(key: NodeKey): string {
    return join(this.#folder, `${key}.json`);
  }

  async #read(name: string): Promise<AccountRecord> {
    const bytes = await readSecureFile(join(this.#folder, name));
    try {
      const record = parse(JSON.parse(bytes?.toString("utf8") ?? "null"));
      if (`${record.key}.json` !== name) throw damaged();
      return record;
    } catch {
      throw damaged();
    } finally {
      bytes?.fill(0);
    }
  }
}

function parse(stored: unknown): AccountRecord {
  if (typeof stored !== "object" || stored === null) throw damaged();
  const { version, key, kind, seed, revocations, removed } = stored as Readonly<
    Record<string, unknown>
  >;
  const known = ACCOUNT_KINDS.find((candidate) => candidate === kind);
  if (
    version !== VERSION ||
    typeof key !== "string" ||
    !ACCOUNT_KEY.test(key) ||
    known === undefined ||
    typeof seed !== "string" ||
    !isRevocations(revocations) ||
    typeof removed !== "boolean"
  ) {
    throw damaged();
  }
  const signing = signingKey(new TextEncoder().encode(seed));
  if (!ACCOUNT_KEY.test(signing.getPublicKey())) throw damaged();
  return { key: key as NodeKey, kind: known, signing, revocations, removed };
}

function isRevocations(value: unknown): value is Readonly<Record<string, number>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([key, seconds]) => USER_KEY.test(key) && Number.isSafeInteger(seconds),
  );
}

function damaged(): LemonError {
  return new LemonError("controller_keys_lost", {
    message: "The record of a node's account is damaged; restore it from a copy",
    details: { reason: "damaged" },
  });
}
