/**
 * Owns the list of the vaults that live under the master key of one state folder, whichever process they are in, and
 * which key each of them is whole under: a file each below `run/vaults`.
 *
 * 1. A vault counts as long as its process lives (pid and start time); what a killed one left says nothing.
 * 2. No key is told by it, only the id of one.
 */
import { watch } from "node:fs";
import { readdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import { isAlive, ownIdentity, processIdentity } from "../process-identity.ts";
import { ensurePrivateDirectory, readSecureFile, writeSecureFile } from "../secure-file.ts";
import { errnoOf, systemFailure } from "../system-error.ts";

const FILE = /^[\w-]{1,128}\.json$/;
const noted = processIdentity.extend({
  /** Null while it is not whole under any one key. */
  keyId: z.string().nullable(),
});

export class Followers {
  readonly #directory: string;
  readonly #clock: Clock;

  /** `home` is the state folder. */
  constructor(home: string, clock: Clock) {
    this.#directory = join(home, "run", "vaults");
    this.#clock = clock;
  }

  /** Says of a vault of this process that all its secrets are under that key. Errors: those of private files. */
  async note(scope: string, keyId: string | null): Promise<void> {
    await ensurePrivateDirectory(this.#directory);
    await writeSecureFile(this.#file(scope), JSON.stringify({ ...ownIdentity(), keyId }));
  }

  /** It ended, or is under a key that is not the folder's. */
  async withdraw(scope: string): Promise<void> {
    try {
      await unlink(this.#file(scope));
    } catch (failure) {
      if (errnoOf(failure) !== "ENOENT") throw systemFailure(failure);
    }
  }

  /** Waits until every vault is under that key, at the longest so many ms; resolves with those that are not. */
  async behind(keyId: string, waitMs: number): Promise<string[]> {
    await ensurePrivateDirectory(this.#directory);
    let isOver = false;
    let seen = Promise.withResolvers<void>();
    const look = (): void => {
      seen.resolve();
      seen = Promise.withResolvers();
    };
    const unwatch = this.#watch(look);
    isOver = unwatch === null;
    const cancel = this.#clock.after(waitMs, () => {
      isOver = true;
      look();
    });
    try {
      for (;;) {
        const changed = seen.promise;
        const others = await this.#others(keyId);
        if (others.length === 0 || isOver) return others;
        await changed;
      }
    } finally {
      cancel();
      unwatch?.();
    }
  }

  /** Null where that can not be: what is seen at once has to do then. */
  #watch(look: () => void): (() => void) | null {
    try {
      const watcher = watch(this.#directory, { persistent: false }, look);
      watcher.on("error", () => watcher.close());
      return () => watcher.close();
    } catch {
      return null;
    }
  }

  #file(scope: string): string {
    return join(this.#directory, `${scope}.json`);
  }

  async #others(keyId: string): Promise<string[]> {
    const others: string[] = [];
    for (const name of (await readdir(this.#directory)).sort()) {
      if (!FILE.test(name)) continue;
      const bytes = await readSecureFile(join(this.#directory, name));
      const parsed = bytes === null ? null : notedIn(bytes);
      if (parsed === null || parsed.keyId === keyId) continue;
      const { pid, startTime } = parsed;
      if (isAlive({ pid, startTime })) others.push(name.replace(/\.json$/, ""));
    }
    return others;
  }
}

function notedIn(bytes: Uint8Array): z.infer<typeof noted> | null {
  try {
    return noted.parse(JSON.parse(Buffer.from(bytes).toString()));
  } catch {
    return null;
  }
}
