/**
 * Owns the capture of an entry: it gets a name in its own directory that nobody knows, so that what is
 * then examined is what is then moved or removed, whoever exchanges names meanwhile.
 *
 * 1. Both ways are one atomic rename that replaces nothing. What came under the old name meanwhile stays,
 *    and the captured entry stays under its temporary name: the caller is told, nothing is guessed.
 * 2. A name that a crash leaves behind says what left it (`leftovers.ts` finds it); it is never removed.
 */
import { randomBytes } from "node:crypto";
import { fsyncSync } from "node:fs";
import { type ErrorDetails, LemonError } from "../../protocol/errors.ts";
import { type Entry, entryAt, renameAt } from "../native/entry.ts";
import { errnoOf } from "../system-error.ts";
import { fileFailure } from "./failure.ts";

/** A name in a directory that was admitted. */
export interface NamedPlace {
  /** The open directory. */
  readonly parent: number;
  /** One component, without NUL. */
  readonly name: Buffer;
}

export const CAPTURE_PREFIXES = { move: ".lemon-move-", delete: ".lemon-delete-" } as const;
/** Nobody guesses it, nobody meets it by chance. */
const RANDOM_BYTES = 16;

const NO_ATOMIC_RENAME: ReadonlySet<string> = new Set([
  "EINVAL",
  "ENOSYS",
  "ENOTSUP",
  "EOPNOTSUPP",
]);

/** Whether a rename failed because the system or the file system has no atomic one that replaces nothing. */
export function isUnsupported(failure: unknown): boolean {
  if (failure instanceof LemonError) return failure.code === "not_implemented";
  return NO_ATOMIC_RENAME.has(errnoOf(failure) ?? "");
}

export class Capture {
  readonly folder: number;
  readonly name: Buffer;
  readonly #oldName: Buffer;

  private constructor(folder: number, name: Buffer, oldName: Buffer) {
    this.folder = folder;
    this.name = name;
    this.#oldName = oldName;
  }

  /** Errors: `atomic_move_unavailable`; a `SystemError` for all else. Nothing has happened then. */
  static take(folder: number, name: Buffer, purpose: keyof typeof CAPTURE_PREFIXES): Capture {
    const random = randomBytes(RANDOM_BYTES).toString("hex");
    const temporary = Buffer.from(`${CAPTURE_PREFIXES[purpose]}${random}`);
    try {
      renameAt(folder, name, folder, temporary);
    } catch (failure) {
      // EXDEV within one directory: a layered file system that can not rename this directory.
      if (isUnsupported(failure) || errnoOf(failure) === "EXDEV")
        throw new LemonError("atomic_move_unavailable", { cause: failure });
      throw failure;
    }
    return new Capture(folder, temporary, name);
  }

  /** What was captured, as it is now. */
  entry(): Entry {
    return entryAt(this.folder, this.name);
  }

  /** Gives it its old name back; false when that is taken, or the capture itself is gone: nothing was done then. */
  putBack(): boolean {
    try {
      renameAt(this.folder, this.name, this.folder, this.#oldName);
      return true;
    } catch {
      return false;
    }
  }
}

/** Adds to the failure of a mutation what it left behind; without anything left, the failure as it is. */
export function withRemains(
  failure: unknown,
  remains: { readonly removed?: number; readonly left: number },
): LemonError {
  const error = fileFailure(failure);
  const { removed = 0, left } = remains;
  if (removed === 0 && left === 0)
    return new LemonError(error.code, {
      message: error.message,
      details: error.details,
      mutationMayHaveApplied: false,
      cause: failure,
    });
  const details: ErrorDetails = { ...error.details, removed, leftUnderTemporaryName: left };
  const told = [
    removed === 0 ? "" : "part of the tree is removed",
    left === 0 ? "" : "what could not be put back stays beside it under a name that begins .lemon-",
  ].filter((part) => part !== "");
  // What the failure by itself says of nothing done is not so here.
  const why = error.message.replace(/; nothing was \w+$/, "");
  return new LemonError(error.code, {
    message: `${why}; ${told.join(", and ")}`,
    details,
    retrySafe: false,
    mutationMayHaveApplied: true,
    cause: failure,
  });
}

/** Makes names in a directory durable. A file system that can not sync a directory has nothing to sync. */
export function syncFolder(folder: number): void {
  try {
    fsyncSync(folder);
  } catch (failure) {
    const errno = errnoOf(failure);
    if (errno === "EINVAL" || errno === "ENOTSUP") return;
    throw new LemonError("filesystem_outcome_unknown", {
      message: "It was done, but the disk did not confirm it; inspect the destination",
      cause: failure,
    });
  }
}
