/**
 * Owns what a successful change has put on the disk: the file's bytes, size and times (fsync(2)), and every
 * new name, by syncing the directory that holds it. Where a file system knows no sync of a directory
 * (EINVAL), the system offers nothing more.
 */
import { closeSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import { openFolderAt } from "../native/entry.ts";
import { syncFileSystem } from "../native/file.ts";
import { errnoOf } from "../system-error.ts";
import { syncFolder } from "./capture.ts";

/**
 * Syncs the names in the directory of a handle. A directory that may be written but not read can not be
 * opened to be synced: then the whole file system is, through `opened` of the same one.
 */
export function syncNames(directory: number, opened: number): void {
  let folder: number;
  try {
    folder = openFolderAt(directory);
  } catch (failure) {
    if (errnoOf(failure) !== "EACCES") throw failure;
    syncFileSystem(opened);
    return;
  }
  try {
    syncFolder(folder);
  } finally {
    closeSync(folder);
  }
}

/** Opens what is moved or removed, for the sake of its file system; throws when that can not be done without an effect. */
export type OpenObject = () => number;

/**
 * What will sync the names in the directories of handles. It opens all it needs into `opened` at once, the
 * caller's to close: so what can not be synced is known before anything happens. For a directory that may be
 * written but not read the whole file system is synced, through what of it can be opened.
 */
export function syncOf(
  directories: readonly number[],
  opened: number[],
  openObject?: OpenObject,
): () => void {
  let refused: unknown = null;
  for (const directory of directories) {
    try {
      opened.push(openFolderAt(directory));
    } catch (failure) {
      if (errnoOf(failure) !== "EACCES") throw failure;
      refused = failure;
    }
  }
  if (refused === null) return () => opened.forEach(syncFolder);
  const onSameDisk = opened[0] ?? openObject?.();
  if (onSameDisk === undefined) throw refused;
  if (opened.length === 0) opened.push(onSameDisk);
  return () => syncWhole(onSameDisk);
}

function syncWhole(fd: number): void {
  try {
    syncFileSystem(fd);
  } catch (cause) {
    throw new LemonError("filesystem_outcome_unknown", { cause });
  }
}
