/**
 * Owns the way of one file of a node to us: whole and of one revision, or nothing under its name here.
 *
 * 1. It grows beside its place under a name that holds what it is a part of (node, path, size, modification
 *    time); so another `get` goes on with it after whatever cut this one off, and never with another's.
 * 2. It takes its place when it is complete and synced.
 */
import { createHash } from "node:crypto";
import { constants as files } from "node:fs";
import { type FileHandle, open, realpath, rename, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { LemonError } from "../../protocol/errors.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { type RemoteStat, readChunks } from "./chunks.ts";
import type { Link } from "./link.ts";
import { localFailure } from "./local.ts";
import { Progress } from "./progress.ts";

/** Grows at its end. In a folder of many, nobody else's link leads it elsewhere, and no FIFO holds it up. */
const PART_FLAGS =
  files.O_WRONLY | files.O_CREAT | files.O_APPEND | files.O_NOFOLLOW | files.O_NONBLOCK;

/** Answers at which offset it went on. */
export async function fetchFile(
  shell: Shell,
  report: Report,
  link: Link,
  nodeId: string,
  file: RemoteStat,
  local: string,
): Promise<number> {
  const target = await replaceable(local);
  const part = join(dirname(target), `.lemon-get-${digestOf(nodeId, file, local)}`);
  const handle = await localFailure(() => open(part, PART_FLAGS));
  let isVoid = false;
  const progress = new Progress(shell, report, local, file.size);
  try {
    const resumedAt = await begin(handle, file.size);
    let offset = resumedAt;
    await progress.at(offset);
    for await (const chunk of readChunks(link, nodeId, file, offset)) {
      await localFailure(() => handle.writeFile(chunk));
      offset += chunk.length;
      await progress.at(offset);
    }
    await localFailure(() => handle.sync());
    await localFailure(() => rename(part, target));
    return resumedAt;
  } catch (error) {
    // Nobody goes on with a part of what is no more, nor with nothing.
    isVoid = (await isEmpty(handle)) || isConflict(error);
    throw error;
  } finally {
    await progress.end();
    await handle.close();
    if (isVoid) await unlink(part).catch(() => undefined);
  }
}

/**
 * What takes the place of `local` when it is renamed over: a file, also one that a link leads to; or nothing.
 * A device, a FIFO, a directory is never replaced. Errors: `not_regular`, `is_directory`.
 */
async function replaceable(local: string): Promise<string> {
  const found = await stat(local).catch(() => null);
  if (found === null) return local;
  if (found.isFile()) return await localFailure(() => realpath(local));
  throw new LemonError(found.isDirectory() ? "is_directory" : "not_regular", {
    message: "What is at that place on this machine is no regular file; it is not replaced",
    mutationMayHaveApplied: false,
  });
}

function isConflict(error: unknown): boolean {
  return error instanceof LemonError && error.code === "revision_conflict";
}

async function isEmpty(handle: FileHandle): Promise<boolean> {
  const stats = await handle.stat().catch(() => null);
  return stats?.size === 0;
}

/** Where to go on: what is there is a prefix, since it was written in order. */
async function begin(handle: FileHandle, size: number): Promise<number> {
  const stats = await localFailure(() => handle.stat());
  const { size: there, uid } = stats;
  if (uid !== process.geteuid?.() || !stats.isFile()) {
    throw new LemonError("permission_denied", {
      message: "The part of an earlier copy is somebody else's",
    });
  }
  if (there <= size) return there;
  await localFailure(() => handle.truncate(0));
  return 0;
}

function digestOf(nodeId: string, { path, size, mtimeMs }: RemoteStat, local: string): string {
  const what = JSON.stringify([nodeId, path, size, mtimeMs, local]);
  return createHash("sha256").update(what).digest("hex").slice(0, 24);
}
