/**
 * Owns the refusal of the state folder (`LEMON_HOME`) and of all below it, whatever it is called.
 *
 * 1. The folder itself is known by its path and by its inode.
 * 2. A mount of a folder or file below it is known by what the mount shows. That is asked where a walk
 *    enters a mount, of the open object; a mount that can not be told is refused.
 * 3. A hard link to a file below it is known by its inode: a file of several names is looked for in there.
 *    What is no longer found there is no longer below it.
 */
import { closeSync } from "node:fs";
import { LemonError } from "../protocol/errors.ts";
import { type Ground, liesIn, Mounts } from "./mounts.ts";
import {
  type Entry,
  entryAt,
  ITSELF,
  isDirectory,
  isRegular,
  namesOf,
  openFolderAt,
} from "./native/entry.ts";
import { directoryComponents, startsWith } from "./path-names.ts";
import type { WalkGuard } from "./path-walk.ts";
import { errnoOf } from "./system-error.ts";

type Identity = Pick<Entry, "dev" | "ino">;

/** Far more than it ever holds. */
const MOST_ENTRIES = 100_000;
/** macOS has no mounts of folders. */
const HAS_MOUNTINFO = process.platform === "linux";

export class StateFolder {
  readonly #fd: number;
  readonly #path: readonly string[];
  readonly #identity: Identity;
  /** Roots that lie in it. */
  readonly #closed: readonly Identity[];
  /** Mounts that a root pins, so that their ids remain theirs, and that do not lie in it. */
  readonly #open: ReadonlySet<bigint>;

  /** Borrows the descriptors, its own and those of the roots. `path`: its canonical one. */
  constructor(fd: number, path: string, roots: readonly number[]) {
    this.#fd = fd;
    this.#path = directoryComponents(path);
    this.#identity = entryAt(fd, ITSELF);
    const mounts = HAS_MOUNTINFO ? Mounts.now() : null;
    const grounds = mounts === null ? [] : this.#grounds(mounts);
    const isIn = (ground: Ground | null) =>
      ground !== null && grounds.some((own) => liesIn(ground, own));
    const entries = roots.map((root) => entryAt(root, ITSELF));
    this.#closed = entries.filter((_, index) => {
      const root = roots[index];
      return root !== undefined && isIn(mounts?.groundOf(root) ?? null);
    });
    const ids = entries.map(({ mountId }) => mountId);
    this.#open = new Set(ids.filter((id) => !isIn(mounts?.rootOf(id) ?? null)));
  }

  /** For one request: what it has to look for in the folder is looked for once. */
  guard(): WalkGuard {
    let within: ReadonlySet<string> | null = null;
    const holds = (entry: Entry) => {
      within ??= this.#files();
      return within.has(keyOf(entry));
    };
    return {
      refusePath: (path) => {
        if (startsWith(path, this.#path)) throw refused();
      },
      refuse: (handle) => {
        const entry = entryAt(handle, ITSELF);
        const isOwn = [this.#identity, ...this.#closed].some((own) => isSame(own, entry));
        if (isOwn || this.#isMountOfIt(entry)) throw refused();
        if (isRegular(entry) && entry.links > 1 && holds(entry)) throw refused();
      },
    };
  }

  #isMountOfIt({ mounted, mountId }: Entry): boolean {
    if (!mounted || this.#open.has(mountId)) return false;
    const mounts = Mounts.now();
    const shown = mounts.rootOf(mountId);
    return shown === null || this.#grounds(mounts).some((own) => liesIn(shown, own));
  }

  /** Where it lies, and what is mounted inside. */
  #grounds(mounts: Mounts): Ground[] {
    const own = mounts.groundOf(this.#fd);
    return own === null ? [] : [own, ...mounts.below(this.#fd)];
  }

  /** Every file in it. Throws `path_not_allowed` when that can not be told. */
  #files(): ReadonlySet<string> {
    const files = new Set<string>();
    let left = MOST_ENTRIES;
    const read = (folder: number): void => {
      try {
        for (const name of namesOf(folder, left + 1)) {
          left -= 1;
          if (left < 0) throw refused();
          const entry = unlessGone(() => entryAt(folder, name));
          if (entry === null) continue;
          const below = isDirectory(entry) ? unlessGone(() => openFolderAt(folder, name)) : null;
          if (below === null) files.add(keyOf(entry));
          else read(below);
        }
      } finally {
        closeSync(folder);
      }
    };
    read(openFolderAt(this.#fd));
    return files;
  }
}

function refused(): LemonError {
  return new LemonError("path_not_allowed");
}

function isSame(one: Identity, other: Identity): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

function keyOf({ dev, ino }: Identity): string {
  return `${dev}:${ino}`;
}

function unlessGone<T>(look: () => T): T | null {
  try {
    return look();
  } catch (failure) {
    if (errnoOf(failure) === "ENOENT" || errnoOf(failure) === "ENOTDIR") return null;
    throw failure;
  }
}
