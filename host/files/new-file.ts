/**
 * Owns a file that is not there yet: it appears whole or not at all.
 *
 * 1. Where the file system can (O_TMPFILE), it has no name until all of it is written and synced, and then
 *    takes one that nothing bears, in one step. What fails before leaves nothing.
 * 2. Elsewhere it is created under its name, which nothing may bear, and that name is taken back when
 *    something fails; a reader may see it unfinished.
 */
import { closeSync, fstatSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import { entryAt, unlinkAt } from "../native/entry.ts";
import { createAt, createUnnamed, nameUnnamed } from "../native/file.ts";
import { errnoOf } from "../system-error.ts";
import { isSameObject } from "./anchors.ts";

export interface NewFile {
  /** To be written. */
  readonly fd: number;
  /** It bears its name from now on. Throws EEXIST when something else does. */
  appear(): void;
  /** Closes; what did not appear is gone. Throws `filesystem_outcome_unknown` when that is not sure. */
  close(): void;
}

/** Before the umask. */
const MODE = 0o666;

const NO_UNNAMED: ReadonlySet<string> = new Set([
  "EOPNOTSUPP",
  "ENOTSUP",
  "EISDIR",
  "EINVAL",
  "ENOENT",
]);

/** A new file in the directory of a handle. Throws `SystemError`: EEXIST among them. */
export function newFile(directory: number, name: string): NewFile {
  try {
    return unnamedFile(directory, name);
  } catch (failure) {
    if (!NO_UNNAMED.has(errnoOf(failure) ?? "")) throw failure;
    return namedFile(directory, name);
  }
}

export function unnamedFile(directory: number, name: string): NewFile {
  const fd = createUnnamed(directory, MODE);
  return { fd, appear: () => nameUnnamed(fd, directory, name), close: () => closeSync(fd) };
}

export function namedFile(directory: number, name: string): NewFile {
  const fd = createAt(directory, name, MODE);
  let appeared = false;
  return {
    fd,
    appear() {
      appeared = true;
    },
    close() {
      try {
        if (!appeared) takeBack(fd, directory, name);
      } finally {
        closeSync(fd);
      }
    },
  };
}

function takeBack(fd: number, directory: number, name: string): void {
  try {
    const bytes = Buffer.from(name);
    if (isSameObject(entryAt(directory, bytes), fstatSync(fd, { bigint: true })))
      unlinkAt(directory, bytes);
  } catch (cause) {
    if (errnoOf(cause) !== "ENOENT") throw new LemonError("filesystem_outcome_unknown", { cause });
  }
}
