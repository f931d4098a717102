/**
 * Owns the master key in a file of this account: `secrets_master_key` in lemon's state folder, 0600 in 0700, and
 * beside it `secrets_master_key.previous` with the earlier ones.
 *
 * 1. Keys change while the state folder is locked (flock(2)): by one process at a time.
 * 2. What a write left that was cut off is removed before the next.
 * 3. Whoever watches is told of every change that was made here, also of one in the keychain, which tells nobody:
 *    `secrets_master_key.changed` is written anew after each.
 */
import { randomBytes } from "node:crypto";
import { watch } from "node:fs";
import { readdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { LemonError } from "../../protocol/errors.ts";
import { Secret } from "../../protocol/secret.ts";
import { lockDirectory } from "../file-lock.ts";
import { ensurePrivateDirectory, readSecureFile, writeSecureFile } from "../secure-file.ts";
import { systemFailure } from "../system-error.ts";
import type { KeyPlace } from "./master-keys.ts";

export const MASTER_KEY_FILE = "secrets_master_key";
/** Temporary names of `writeSecureFile`. */
const LEFT_BEHIND = /^\.secrets_master_key(?:\.previous|\.changed)?\.[0-9a-f]{16}\.tmp$/;
/** Random bytes, so that no write of it is like the one before. */
const CHANGED_FILE = `${MASTER_KEY_FILE}.changed`;

/** Runs a change of this machine's keys alone. `home` is made where it is missing. Errors: `secret_key_busy`, those of private files. */
export async function changingKeys<T>(home: string, change: () => Promise<T>): Promise<T> {
  await ensurePrivateDirectory(home);
  const lock = lockDirectory(home);
  if (lock === null) throw new LemonError("secret_key_busy");
  try {
    await removeLeftBehind(home);
    const made = await change();
    await writeSecureFile(join(home, CHANGED_FILE), randomBytes(16).toString("hex"));
    return made;
  } finally {
    lock.release();
  }
}

/**
 * Calls back after each change of this machine's keys, whichever process made it, an operator's editor included;
 * now and then without one. Returns what ends it. Errors: those
 * of the system (`home` is missing, too many watches).
 */
export function watchKeys(home: string, onChange: () => void): () => void {
  try {
    // The folder: a file that is replaced takes a watch of its own with it.
    const watcher = watch(home, { persistent: false }, (_event, name) => {
      if (name === null || name === MASTER_KEY_FILE || name === CHANGED_FILE) onChange();
    });
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch (failure) {
    throw systemFailure(failure);
  }
}

/** `home` is the state folder. Errors: those of private files. */
export function keyFile(home: string): KeyPlace {
  const current = join(home, MASTER_KEY_FILE);
  const previous = `${current}.previous`;
  return {
    async read() {
      return { current: await textAt(current), previous: await textAt(previous) };
    },
    writeCurrent: (text) => put(current, text),
    writePrevious: (text) => put(previous, text),
  };
}

async function textAt(path: string): Promise<Secret | null> {
  const bytes = await readSecureFile(path);
  return bytes === null ? null : Secret.take(bytes);
}

async function put(path: string, text: Secret): Promise<void> {
  await text.use((bytes) => writeSecureFile(path, bytes));
}

async function removeLeftBehind(home: string): Promise<void> {
  try {
    for (const name of await readdir(home)) {
      if (LEFT_BEHIND.test(name)) await unlink(join(home, name));
    }
  } catch (failure) {
    throw systemFailure(failure);
  }
}
