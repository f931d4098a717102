/**
 * Owns the master key in a file of this account: `secrets_master_key` in lemon's state folder, 0600 in 0700, and
 * beside it `secrets_master_key.previous` with the earlier ones.
 */
import { join } from "node:path";
import { Secret } from "../../protocol/secret.ts";
import { ensurePrivateDirectory, readSecureFile, writeSecureFile } from "../secure-file.ts";
import type { KeyPlace } from "./master-keys.ts";

export const MASTER_KEY_FILE = "secrets_master_key";

/** `home` is the state folder. Errors: those of private files. */
export function keyFile(home: string): KeyPlace {
  const current = join(home, MASTER_KEY_FILE);
  const previous = `${current}.previous`;
  return {
    async read() {
      return { current: await textAt(current), previous: await textAt(previous) };
    },
    writeCurrent: (text) => put(home, current, text),
    writePrevious: (text) => put(home, previous, text),
  };
}

async function textAt(path: string): Promise<Secret | null> {
  const bytes = await readSecureFile(path);
  return bytes === null ? null : Secret.take(bytes);
}

async function put(home: string, path: string, text: Secret): Promise<void> {
  await ensurePrivateDirectory(home);
  await text.use((bytes) => writeSecureFile(path, bytes));
}
