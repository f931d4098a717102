/**
 * Owns a file system of a few megabytes that a test can really fill: a tmpfs in a mount namespace of
 * its own (user namespaces make that an ordinary user's right), reached through the keeper's
 * `/proc/<pid>/root`. It is gone with its keeper, and its keeper with the test's process.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../host/system-error.ts";
import { tempFolder } from "./temp-folder.ts";

export interface SmallDisk extends AsyncDisposable {
  readonly path: string;
  /** Leaves no block free. */
  fill(): void;
  free(): void;
}

/** Keeps the file system at the folder `$0` with `$1` bytes until its input ends. */
const KEEPER = `exec unshare --user --map-root-user --mount sh -c '
  mount -t tmpfs -o size="$1",mode=700 lemon-test "$0" && echo ready && read -r end' "$0" "$1"`;

/** Null where this account may not have one. */
export async function smallDisk(bytes: number): Promise<SmallDisk | null> {
  const folder = tempFolder();
  const keeper = spawn("sh", ["-c", KEEPER, folder.path, String(bytes)], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const exited = once(keeper, "exit").catch(() => []);
  const ready = await Promise.race([
    once(keeper.stdout, "data").then(() => true),
    exited.then(() => false),
  ]);
  if (!ready) {
    folder[Symbol.dispose]();
    return null;
  }
  const path = `/proc/${keeper.pid}/root${folder.path}`;
  const filler = openSync(join(path, "filler"), "w", 0o600);
  return {
    path,
    fill() {
      const block = Buffer.alloc(4_096, 1);
      try {
        while (writeSync(filler, block) === block.length);
      } catch (failure) {
        if (errnoOf(failure) !== "ENOSPC") throw failure;
      }
    },
    free: () => ftruncateSync(filler, 0),
    async [Symbol.asyncDispose]() {
      closeSync(filler);
      keeper.stdin.end("end\n");
      await exited;
      folder[Symbol.dispose]();
    },
  };
}
