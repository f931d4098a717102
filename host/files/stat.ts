/** Owns what is told of one object: from its own handle, so that all of it is of the same object. */
import { type BigIntStats, constants } from "node:fs";
import { type Met, mayAccess } from "../native/file.ts";
import { mimeOf } from "./mime.ts";
import type { FileStat, FileType } from "./operations.ts";
import { modifiedMs, tellable } from "./revisions.ts";

const TYPES: ReadonlyMap<number, FileType> = new Map([
  [constants.S_IFREG, "regular"],
  [constants.S_IFDIR, "directory"],
  [constants.S_IFLNK, "symlink"],
  [constants.S_IFIFO, "fifo"],
  [constants.S_IFSOCK, "socket"],
  [constants.S_IFCHR, "character_device"],
  [constants.S_IFBLK, "block_device"],
]);

/** `name` says what it is called; `met` where it was met. */
export function describe(stats: BigIntStats, name: string, met: Met): FileStat {
  const mode = Number(stats.mode);
  return {
    type: TYPES.get(mode & constants.S_IFMT) ?? "unknown",
    size: tellable(stats.size),
    mtimeMs: modifiedMs(stats),
    mode,
    mime: mimeOf(name),
    readable: mayAccess(met, "read"),
    writable: mayAccess(met, "write"),
  };
}
