/**
 * Owns the place of the host-agent's socket in the file system (rulings, "Host-agent").
 *
 * 1. One process serves a path: it holds the lock beside it as long as it serves. A socket that is there is removed
 *    only by the holder of that lock, and only when nobody answers on it.
 * 2. At no moment may anybody connect who may not in the end: it is made for its owner alone, then given to its
 *    group, then opened to it; a folder that is made for it is closed to others (0750).
 * 3. Whatever is in the way is one clear error; nothing that is not a socket is ever removed.
 * 4. It has its name only when it is as it should be, and only its own name is taken away: Node.js removes the one
 *    that it listened on, whatever has that by then, so that one is another.
 */
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
} from "node:fs";
import { createConnection } from "node:net";
import { basename, dirname } from "node:path";
import { type FileLock, lockFile } from "../../host/file-lock.ts";
import { errnoOf } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";

/** What is listened on: a path, or a socket that somebody else opened. */
export type ListenTarget = { readonly path: string } | { readonly fd: number };

export interface SocketPlace {
  /** Absolute. */
  readonly path: string;
  /** Null leaves it with the owner's group. */
  readonly gid: number | null;
  /** Demands that others may not even enter the folder. */
  readonly closedFolder: boolean;
}

/** Behind the name, while the socket is made. */
const UNFINISHED = ".new";
/** `sun_path` of unix(7), without its NUL, less the above. */
const LONGEST_PATH_BYTES = 107 - UNFINISHED.length;
const FOLDER_MODE = 0o750;
const SOCKET_MODE = 0o660;
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;
const OTHERS = 0o007;

export interface OpenSocketPlace extends Disposable {
  /** Takes the socket's name away, if it still has it. To be called before it is closed: its inode may serve anew. */
  withdraw(): void;
}

/** Has `listen` listen at the place; withdraws it and gives it up when disposed of. */
export async function openSocketPlace(
  place: SocketPlace,
  listen: (target: ListenTarget) => Promise<void>,
): Promise<OpenSocketPlace> {
  const { path, gid } = place;
  if (Buffer.byteLength(path) > LONGEST_PATH_BYTES) {
    throw refused(`the path is longer than ${LONGEST_PATH_BYTES} bytes`);
  }
  makeFolder(place);
  const lock = lockBeside(path);
  try {
    const unfinished = `${path}${UNFINISHED}`;
    for (const name of [unfinished, path]) await removeStale(name);
    await listenClosed(unfinished, listen);
    if (gid !== null) give(unfinished, gid);
    chmodSync(unfinished, SOCKET_MODE);
    const inode = lstatSync(unfinished).ino;
    renameSync(unfinished, path);
    let isThere = true;
    const withdraw = (): void => {
      if (isThere && found(path)?.ino === inode) unlinkSync(path);
      isThere = false;
    };
    return {
      withdraw,
      [Symbol.dispose]() {
        withdraw();
        lock.release();
      },
    };
  } catch (failure) {
    lock.release();
    throw placeFailure(failure);
  }
}

function makeFolder({ path, gid, closedFolder }: SocketPlace): void {
  const folder = dirname(path);
  try {
    try {
      mkdirSync(folder, { mode: FOLDER_MODE });
      if (gid !== null) give(folder, gid);
      return;
    } catch (failure) {
      if (errnoOf(failure) !== "EEXIST") throw failure;
    }
    const { mode } = statSync(folder);
    if ((mode & OTHERS_WRITE) !== 0 && (mode & STICKY) === 0) {
      throw refused("others may write in its folder, so they could put their own in its place");
    }
    if (closedFolder && (mode & OTHERS) !== 0) {
      throw refused("others may enter its folder; give that mode 0750 (chmod 750)");
    }
  } catch (failure) {
    throw placeFailure(failure);
  }
}

function lockBeside(path: string): FileLock {
  let lock: FileLock | null;
  try {
    lock = lockFile(`${path}.lock`);
  } catch (failure) {
    throw placeFailure(failure);
  }
  if (lock === null) throw inUse();
  return lock;
}

async function removeStale(path: string): Promise<void> {
  const stats = found(path);
  if (stats === null) return;
  if (!stats.isSocket()) {
    throw refused(`something that is no socket has the name ${basename(path)}; remove it`);
  }
  if (await isAnswered(path)) throw inUse();
  unlinkSync(path);
}

function found(path: string): Stats | null {
  return lstatSync(path, { throwIfNoEntry: false }) ?? null;
}

/** Only a refused connection proves that nobody listens. */
async function isAnswered(path: string): Promise<boolean> {
  const probe = createConnection(path);
  try {
    await once(probe, "connect");
    return true;
  } catch (failure) {
    const errno = errnoOf(failure);
    if (errno === "ECONNREFUSED" || errno === "ENOENT") return false;
    // Its queue is full: somebody is there, and busy.
    if (errno === "EAGAIN") return true;
    throw failure;
  } finally {
    probe.destroy();
  }
}

/** bind(2) makes the socket with what the mask leaves of all rights; it happens at once, before the first pause. */
async function listenClosed(
  path: string,
  listen: (target: ListenTarget) => Promise<void>,
): Promise<void> {
  const mask = process.umask(0o177);
  let listening: Promise<void>;
  try {
    listening = listen({ path });
  } finally {
    process.umask(mask);
  }
  await listening;
}

function give(path: string, gid: number): void {
  try {
    chownSync(path, -1, gid);
  } catch (failure) {
    if (errnoOf(failure) !== "EPERM") throw failure;
    throw new LemonError("group_unusable", {
      message: "This account may not give the socket to its group: it is no member of it",
      cause: failure,
    });
  }
}

function inUse(): LemonError {
  return new LemonError("socket_in_use", {
    message: "Another live process serves this socket; stop it, or choose another with --socket",
  });
}

function refused(why: string, cause?: unknown): LemonError {
  return new LemonError("socket_refused", {
    message: `The socket can not be made: ${why}, or choose another place with --socket`,
    ...(cause === undefined ? {} : { cause }),
  });
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: "this account may not write in its folder",
  EPERM: "this account may not write in its folder",
  EROFS: "its file system is read-only",
  ENOENT: "the folder above its own is missing",
  ENOTDIR: "something on its way is no folder",
  ENOSPC: "no space is left on its disk",
};

function placeFailure(failure: unknown): unknown {
  if (failure instanceof LemonError && failure.code !== "permission_denied") return failure;
  const errno = errnoOf(failure instanceof LemonError ? failure.cause : failure) ?? "";
  const why = REASONS[errno];
  return why === undefined ? failure : refused(why, failure);
}
