/**
 * Owns what must stay where it is: the allowed roots and the state folder, by their open descriptors, so
 * that no other name of theirs (a bind mount, a rename) hides them.
 */
import { closeSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import { openDirectoryAt } from "../native/directory.ts";
import { type Entry, entryAt } from "../native/entry.ts";
import { errnoOf } from "../system-error.ts";

/** What tells one object of this machine from every other, as long as it lives. */
export type ObjectId = Pick<Entry, "dev" | "ino">;

export function isSameObject(one: ObjectId, other: ObjectId): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

export function keyOf({ dev, ino }: ObjectId): string {
  return `${dev}:${ino}`;
}

/** The refusal of what would move or remove one of them. */
export function rootStays(): LemonError {
  return new LemonError("path_not_allowed", {
    message:
      "An allowed root, the state folder and what holds one of them can not be moved or deleted",
  });
}

export class Anchors {
  readonly #folders: readonly number[];
  readonly #keys: ReadonlySet<string>;

  /** Borrows the descriptors: whoever opened them closes them. */
  constructor(folders: readonly number[]) {
    this.#folders = folders;
    this.#keys = new Set(folders.map((folder) => keyOf(entryAt(folder))));
  }

  /** Whether it is one of them. */
  includes(object: ObjectId): boolean {
    return this.#keys.has(keyOf(object));
  }

  /** Whether it is one of them or has one of them below it. */
  standsOn(object: ObjectId): boolean {
    return this.#folders.some((folder) => isAtOrBelow(folder, object));
  }
}

/** Whether an open directory is `object` or lies below it at this moment. */
export function isAtOrBelow(folder: number, object: ObjectId): boolean {
  let here = openDirectoryAt(folder, ".");
  try {
    for (let entry = entryAt(here); ; ) {
      if (isSameObject(entry, object)) return true;
      const above = openDirectoryAt(here, "..");
      closeSync(here);
      here = above;
      const next = entryAt(here);
      if (isSameObject(next, entry)) return false;
      entry = next;
    }
  } catch (failure) {
    // No way further up for this account, nor can it move what is there; or the directory is removed.
    const errno = errnoOf(failure);
    if (errno === "EACCES" || errno === "ENOENT") return false;
    throw failure;
  } finally {
    closeSync(here);
  }
}
