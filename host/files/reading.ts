/**
 * Owns the reading of a chunk of an open regular file.
 *
 * 1. Nothing beyond the size that the system tells is asked for: what can be read is what `stat` says, and a
 *    file of the system that says 0 is never waited for.
 */
import { type BigIntStats, readSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import type { Met } from "../native/file.ts";
import type { Place } from "../path-walk.ts";
import { tellable } from "./revisions.ts";

/** The bytes from `offset` on, at most `length`; fewer only when the file ends before. */
export function readRange(fd: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  let done = 0;
  while (done < length) {
    const read = readSync(fd, bytes, done, length - done, offset + done);
    if (read === 0) break;
    done += read;
  }
  return bytes.subarray(0, done);
}

/** `stats` are of the open file. */
export function readChunk(
  fd: number,
  stats: BigIntStats,
  offset: number,
  length: number,
): { bytes: Buffer; size: number; eof: boolean } {
  const size = tellable(stats.size);
  const wanted = Math.max(0, Math.min(length, size - offset));
  const bytes = readRange(fd, offset, wanted);
  // A file that ended earlier than it said (cut meanwhile, or one of the system's) has ended all the same.
  const eof = bytes.length < wanted || offset + bytes.length >= size;
  return { bytes, size, eof };
}

/** The object of a place, and how it was met; null when nothing is there. */
export function metAt({ object, parent, names }: Place): Met | null {
  if (object === null) return null;
  return { handle: object, directory: parent ?? object, name: names.at(-1) ?? "." };
}

/** Errors: `is_directory`, `not_regular`. */
export function demandRegular(stats: BigIntStats): void {
  if (stats.isDirectory()) throw new LemonError("is_directory");
  if (!stats.isFile()) throw new LemonError("not_regular");
}
