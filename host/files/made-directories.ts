/**
 * Owns directories made one below the other, until they are there for good or taken back.
 *
 * 1. Each is entered by a handle, without following a link, and shown to the guard: what came into its place
 *    meanwhile is refused like anything else.
 * 2. Only what was made here is taken back: an empty directory, the very same, under its name.
 */
import { closeSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import type { AllowedRoots } from "../allowed-roots.ts";
import { openDirectoryAt } from "../native/directory.ts";
import { entryAt, openFolderAt, removeFolderAt } from "../native/entry.ts";
import { makeDirectoryAt } from "../native/file.ts";
import type { Place } from "../path-walk.ts";
import { errnoOf } from "../system-error.ts";
import { isSameObject } from "./anchors.ts";
import { syncFolder } from "./capture.ts";
import { syncNames } from "./syncing.ts";

/** Before the umask. */
const MODE = 0o777;

interface Level {
  readonly above: number;
  readonly name: string;
  readonly handle: number;
  readonly isOurs: boolean;
}

export class MadeDirectories implements Disposable {
  readonly #roots: Pick<AllowedRoots, "guard">;
  readonly #start: number;
  readonly #levels: Level[] = [];

  /** Begins in the directory of a handle, which stays its owner's. */
  constructor(roots: Pick<AllowedRoots, "guard">, start: number) {
    this.#roots = roots;
    this.#start = start;
  }

  /** The handle of the innermost one. */
  get innermost(): number {
    return this.#levels.at(-1)?.handle ?? this.#start;
  }

  /** Makes and enters each; what somebody else has made meanwhile is entered. Throws with those made so far. */
  make(names: readonly string[]): void {
    for (const name of names) this.#makeOne(name);
  }

  #makeOne(name: string): void {
    const above = this.innermost;
    const isOurs = makes(above, name);
    const handle = isOurs ? enterNew(above, name) : openDirectoryAt(above, name);
    this.#levels.push({ above, name, handle, isOurs });
    this.#roots.guard().refuse(handle);
  }

  /** Syncs each new name. `opened`: the innermost or a file in it. */
  sync(opened: number): void {
    for (const { above, isOurs } of this.#levels.toReversed()) {
      if (isOurs) syncNames(above, opened);
    }
  }

  /** Syncs the innermost itself, and each new name. */
  syncAll(): void {
    const folder = openFolderAt(this.innermost);
    try {
      syncFolder(folder);
      this.sync(folder);
    } finally {
      closeSync(folder);
    }
  }

  /** Removes what was made and is empty still. */
  takeBack(): void {
    for (const { above, name, handle, isOurs } of this.#levels.toReversed()) {
      if (!isOurs) continue;
      try {
        const bytes = Buffer.from(name);
        // No new descriptor: there may be none left, which is why this is taken back.
        if (!isSameObject(entryAt(above, bytes), entryAt(handle))) return;
        removeFolderAt(above, bytes);
      } catch {
        // Somebody put something into it, or removed it: it is theirs now.
        return;
      }
    }
  }

  [Symbol.dispose](): void {
    for (const { handle } of this.#levels.splice(0)) closeSync(handle);
  }
}

/** What can not even be entered (no descriptor left) is removed at once: nobody knew of it, and it is empty. */
function enterNew(above: number, name: string): number {
  try {
    return openDirectoryAt(above, name);
  } catch (failure) {
    try {
      removeFolderAt(above, Buffer.from(name));
    } catch {
      // It was exchanged: what is there is somebody else's.
    }
    throw failure;
  }
}

/** False when something is there already. */
function makes(above: number, name: string): boolean {
  try {
    makeDirectoryAt(above, name, MODE);
    return true;
  } catch (failure) {
    if (errnoOf(failure) === "EEXIST") return false;
    throw failure;
  }
}

/** Makes a missing directory and its missing parents, for good: all of them, or none. */
export function makeDirectories(roots: AllowedRoots, { parent, names }: Place): void {
  if (parent === null) return;
  using made = new MadeDirectories(roots, parent);
  let areMade = false;
  try {
    made.make(names);
    areMade = true;
    made.syncAll();
  } catch (cause) {
    if (areMade) throw new LemonError("filesystem_outcome_unknown", { cause });
    made.takeBack();
    throw cause;
  }
}
