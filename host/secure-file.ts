/**
 * Owns small private files (tokens, keys): written whole or not at all, read only when nobody else
 * could have written or read them.
 *
 * 1. A reader sees the old bytes or the new ones, also after a power cut: the bytes are synced under a
 *    temporary name in the same folder, renamed, and the folder is synced.
 * 2. What is read is a regular file of this account, with one name and mode 0600; else the read is refused.
 * 3. No error holds a path or a byte.
 */
import { randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, mkdir, open, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { LemonError } from "../protocol/errors.ts";
import { errnoOf, systemFailure } from "./system-error.ts";

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const PERMISSION_BITS = 0o777;
/** A private file is a token or a key; one that is larger is something else. */
const LARGEST_BYTES = 65_536;

/** Why a file or folder is refused, in `details.reason` of `permission_denied`. */
type Refusal = "not_regular" | "not_directory" | "owner" | "mode" | "links" | "size";

function refuse(reason: Refusal): never {
  throw new LemonError("permission_denied", {
    message: "A private file or folder is not as this account left it",
    details: { reason },
  });
}

/**
 * Puts `bytes` at `path` with mode 0600, in place of any file there. Errors: `too_large`, `permission_denied`,
 * `not_found` (no folder), `no_space`, `unavailable`.
 */
export async function writeSecureFile(
  path: string,
  bytes: Uint8Array | string,
  largestBytes = LARGEST_BYTES,
): Promise<void> {
  if (Buffer.byteLength(bytes) > largestBytes) throw new LemonError("too_large");
  const folder = dirname(path);
  const temporary = join(folder, `.${basename(path)}.${randomBytes(8).toString("hex")}.tmp`);
  try {
    await writeSynced(temporary, bytes);
    await rename(temporary, path).catch(async (failure: unknown) => {
      await unlink(temporary);
      throw failure;
    });
    await syncDirectory(folder);
  } catch (failure) {
    throw systemFailure(failure);
  }
}

async function writeSynced(path: string, bytes: Uint8Array | string): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await open(path, flags, FILE_MODE);
  try {
    // The mode at creation is subject to the umask.
    await file.chmod(FILE_MODE);
    await file.writeFile(bytes);
    await file.sync();
  } catch (failure) {
    await unlink(path);
    throw failure;
  } finally {
    await file.close();
  }
}

/** Makes the names in a folder durable (fsync(2)). */
export async function syncDirectory(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** The bytes at `path`; null when nothing stands there. Refuses (`permission_denied`) what invariant 2 excludes. */
export async function readSecureFile(
  path: string,
  largestBytes = LARGEST_BYTES,
): Promise<Buffer | null> {
  let file: FileHandle;
  try {
    // O_NONBLOCK: a FIFO in its place must not hang the reader.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (failure) {
    const errno = errnoOf(failure);
    if (errno === "ENOENT") return null;
    // A symbolic link (ELOOP; EMLINK on some), or a socket in its place (ENXIO).
    if (errno === "ELOOP" || errno === "EMLINK" || errno === "ENXIO") refuse("not_regular");
    throw systemFailure(failure);
  }
  try {
    const stats = await file.stat();
    if (!stats.isFile()) refuse("not_regular");
    // None: it was replaced since it was opened, and is whole all the same.
    if (stats.nlink > 1) refuse("links");
    if (stats.size > largestBytes) refuse("size");
    refuseOthers(stats, FILE_MODE);
    return await file.readFile();
  } catch (failure) {
    throw systemFailure(failure);
  } finally {
    await file.close();
  }
}

/**
 * Makes sure that a folder stands at `path` which only this account may enter: missing ones on the way
 * are created with 0700. An existing one is never changed: with other rights it is refused.
 */
export async function ensurePrivateDirectory(path: string): Promise<void> {
  try {
    await makeDirectories(path);
    const stats = await stat(path);
    if (!stats.isDirectory()) refuse("not_directory");
    refuseOthers(stats, FOLDER_MODE);
  } catch (failure) {
    throw systemFailure(failure);
  }
}

/**
 * Node's own `recursive` asks for ever where the system says ENOENT of a folder whose parent stands:
 * below `/proc`, or below an automounter's root.
 */
async function makeDirectories(path: string, parentsMade = false): Promise<void> {
  try {
    await mkdir(path, { mode: FOLDER_MODE });
  } catch (failure) {
    const errno = errnoOf(failure);
    if (errno === "EEXIST") return;
    if (errno !== "ENOENT" || parentsMade) throw failure;
    await makeDirectories(dirname(path));
    await makeDirectories(path, true);
  }
}

function refuseOthers(stats: Stats, mode: number): void {
  if (stats.uid !== process.geteuid?.()) refuse("owner");
  if ((stats.mode & PERMISSION_BITS) !== mode) refuse("mode");
}
