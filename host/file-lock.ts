/**
 * Owns exclusive locks between processes: flock(2) on an open file or folder.
 *
 * 1. The lock lives as long as any descriptor of it does, here or in a child that inherited it. So
 *    `release` only closes: unlocking would take it from the child as well.
 * 2. A holder that dies loses it, kill -9 included; nothing is left to clean up.
 * 3. What is locked is what stands at the path: a file replaced meanwhile is tried anew.
 */
import { closeSync, constants, fstatSync, openSync, statSync } from "node:fs";
import { LemonError } from "../protocol/errors.ts";
import { checked, native } from "./native/library.ts";
import { errnoOf, systemFailure } from "./system-error.ts";

export interface FileLock {
  /** Close-on-exec. Handed down in a child's `stdio` it makes the child a holder too. */
  readonly fd: number;
  /** Closes this process's descriptor. Idempotent. */
  release(): void;
}

const flock = native("int flock(int fd, int operation)");
/** The flags of flock(2), the same on Linux and macOS. */
const LOCK_EXCLUSIVE = 2;
const LOCK_NON_BLOCKING = 4;
/** How often a file that was replaced meanwhile is tried anew. */
const ATTEMPTS = 8;

/**
 * Locks a file, which is created (0600) when missing. Null when another process holds it. Errors: `unavailable` when
 * the file is replaced again and again; those of the system, by `systemFailure`.
 */
export function lockFile(path: string): FileLock | null {
  return lock(path, constants.O_RDWR | constants.O_CREAT);
}

/** Locks an existing folder itself, which has to be there. Otherwise as `lockFile`. */
export function lockDirectory(path: string): FileLock | null {
  return lock(path, constants.O_RDONLY | constants.O_DIRECTORY);
}

function lock(path: string, flags: number): FileLock | null {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const outcome = tryLock(path, flags);
    if (outcome !== "replaced") return outcome;
  }
  throw new LemonError("unavailable", { message: "The lock file keeps being replaced" });
}

function tryLock(path: string, flags: number): FileLock | null | "replaced" {
  let fd: number;
  try {
    // O_NONBLOCK: a FIFO in its place must not hang the opener.
    fd = openSync(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600);
  } catch (failure) {
    throw systemFailure(failure);
  }
  let held = false;
  try {
    checked("flock", flock(fd, LOCK_EXCLUSIVE | LOCK_NON_BLOCKING));
    held = standsAt(path, fd);
    return held ? holder(fd) : "replaced";
  } catch (failure) {
    const errno = errnoOf(failure);
    if (errno === "EAGAIN" || errno === "EWOULDBLOCK") return null;
    throw systemFailure(failure);
  } finally {
    if (!held) closeSync(fd);
  }
}

function standsAt(path: string, fd: number): boolean {
  const there = statSync(path, { bigint: true, throwIfNoEntry: false });
  const here = fstatSync(fd, { bigint: true });
  return there?.ino === here.ino && there.dev === here.dev;
}

function holder(fd: number): FileLock {
  let open = true;
  return {
    fd,
    release() {
      if (open) closeSync(fd);
      open = false;
    },
  };
}
