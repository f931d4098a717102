/**
 * Owns what a successful change has put on the disk: the file's bytes, size and times (fsync(2)), and every
 * new name, by syncing the directory that holds it. Where a file system knows no sync of a directory
 * (EINVAL), the system offers nothing more.
 */
import { closeSync } from "node:fs";
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
