/**
 * Owns one walk down from an open directory, one component at a time, and what it arrives at.
 *
 * 1. The kernel never follows a link for us. Each component is opened as a handle, then looked at; a link is
 *    read from its own handle and walked the same way. So nothing exchanged meanwhile leads elsewhere than
 *    the walk knows of.
 * 2. Every directory on the way, and what it ends at, is shown to the guard, by path and by descriptor, before
 *    anything in it is asked for. That is why openat2(2), where it is there, also gets single components only.
 * 3. A walk that fails or goes elsewhere leaves no descriptor open; one that arrives leaves those of its place.
 */
import { isUtf8 } from "node:buffer";
import { closeSync, fstatSync } from "node:fs";
import { LemonError } from "../protocol/errors.ts";
import { type OpenAt, openDirectoryAt, openHandleAt, readLink } from "./native/directory.ts";
import { absolute, components } from "./path-names.ts";
import { errnoOf } from "./system-error.ts";

/**
 * Where a path leads, links followed to their end. The descriptors are handles (`O_PATH`), close-on-exec,
 * and good until `close`.
 */
export interface Place {
  /** Canonical: no links, no idle parts. */
  readonly path: string;
  /** What stands there, never a link; null when nothing does. */
  readonly object: number | null;
  /** The nearest directory above that exists; null for the directory that the walk began at. */
  readonly parent: number | null;
  /** From `parent` to it: one name, or more of which the first is missing already; none without a parent. */
  readonly names: readonly string[];
  /** The path was written so that only a directory may be there. */
  readonly mustBeDirectory: boolean;
  /** Idempotent. */
  close(): void;
}

/** Keeps a walk out of what is never allowed; both throw. */
export interface WalkGuard {
  refusePath(path: readonly string[]): void;
  /** Of a handle of a directory or of a file. */
  refuse(object: number): void;
}

export interface WalkGround {
  readonly start: number;
  /** Canonical. */
  readonly startPath: readonly string[];
  readonly guard: WalkGuard;
  readonly links: LinkBudget;
  readonly openAt: OpenAt;
}

export type Outcome =
  | { readonly outcome: "arrived"; readonly place: Place }
  /** The walk goes on at this absolute path. */
  | { readonly outcome: "elsewhere"; readonly target: readonly string[] };

/** As Linux has it (path_resolution(7)). */
const MOST_LINKS = 40;

/** The links that one path may lead through, over all its walks. */
export class LinkBudget {
  #left = MOST_LINKS;

  spend(): void {
    this.#left -= 1;
    if (this.#left < 0) throw new LemonError("path_not_allowed");
  }
}

interface Step {
  readonly fd: number;
  readonly name: string;
}

/**
 * Walks to the end of `names`, or until `isElsewhere` says so of where it stands. `..` stands only in links.
 * Throws `LemonError` and `SystemError`.
 */
export function walk(
  ground: WalkGround,
  names: readonly string[],
  isElsewhere: (here: readonly string[]) => boolean = () => false,
): Outcome {
  const way: Step[] = [];
  try {
    return new Walk(ground, way).follow([...names], isElsewhere);
  } finally {
    for (const { fd } of way) closeSync(fd);
  }
}

class Walk {
  readonly #ground: WalkGround;
  /** The directories below the start that lead to where the walk is. What is taken from it is the taker's to close. */
  readonly #way: Step[];

  constructor(ground: WalkGround, way: Step[]) {
    this.#ground = ground;
    this.#way = way;
  }

  follow(ahead: string[], isElsewhere: (here: readonly string[]) => boolean): Outcome {
    const { guard, start, startPath } = this.#ground;
    guard.refusePath(startPath);
    guard.refuse(start);
    for (let name = ahead.shift(); name !== undefined; name = ahead.shift()) {
      if (name === ".") continue;
      if (name === "..") {
        const left = this.#way.pop();
        if (left === undefined) return elsewhere([...startPath.slice(0, -1), ...ahead]);
        closeSync(left.fd);
        continue;
      }
      const met = this.#meet(name);
      if (met === null) return this.#arriveAtNothing([name, ...ahead]);
      if (met.is === "link") {
        if (met.target.startsWith("/")) return elsewhere([...components(met.target), ...ahead]);
        ahead.unshift(...components(met.target));
      } else if (met.is === "other") {
        if (ahead.length === 0) return this.#arriveAt({ fd: met.fd, name });
        closeSync(met.fd);
        throw new LemonError("not_directory");
      } else {
        const here = this.#path();
        if (isElsewhere(here)) return elsewhere([...here, ...ahead]);
      }
    }
    return this.#arriveHere();
  }

  /** What stands in this directory under that name; into a directory it goes. Null: nothing. */
  #meet(name: string): Met | null {
    const { guard } = this.#ground;
    guard.refusePath([...this.#path(), name]);
    let fd: number;
    try {
      fd = this.#open(name);
    } catch (failure) {
      if (errnoOf(failure) === "ENOENT") return null;
      throw failure;
    }
    let keeps = false;
    try {
      const stats = fstatSync(fd);
      if (stats.isSymbolicLink()) return { is: "link", target: this.#readLink(fd, name) };
      if (!stats.isDirectory()) {
        guard.refuse(fd);
        keeps = true;
        return { is: "other", fd };
      }
      keeps = true;
      this.#way.push({ fd, name });
      guard.refuse(fd);
      return { is: "directory" };
    } finally {
      if (!keeps) closeSync(fd);
    }
  }

  /** As a directory first: only that has an automounter mount what belongs there. */
  #open(name: string): number {
    const { openAt } = this.#ground;
    try {
      return openDirectoryAt(this.#here(), name, openAt);
    } catch (failure) {
      const errno = errnoOf(failure);
      if (errno !== "ENOTDIR" && errno !== "ELOOP") throw failure;
      return openHandleAt(this.#here(), name, openAt);
    }
  }

  #readLink(fd: number, name: string): string {
    this.#ground.links.spend();
    const target = readLink(fd, this.#here(), name);
    // No path could say where it leads.
    if (!isUtf8(target)) throw new LemonError("path_not_allowed");
    return target.toString("utf8");
  }

  #arriveAtNothing(rest: readonly string[]): Outcome {
    if (rest.includes("..")) throw new LemonError("not_found");
    const names = rest.filter((name) => name !== ".");
    const path = [...this.#path(), ...names];
    this.#ground.guard.refusePath(path);
    const parent = this.#way.pop()?.fd ?? this.#ground.start;
    return this.#arrived({
      path: absolute(path),
      object: null,
      parent,
      names,
      mustBeDirectory: rest.at(-1) === ".",
    });
  }

  #arriveAt({ fd, name }: Step): Outcome {
    const path = absolute([...this.#path(), name]);
    const parent = this.#way.pop()?.fd ?? this.#ground.start;
    return this.#arrived({ path, object: fd, parent, names: [name], mustBeDirectory: false });
  }

  #arriveHere(): Outcome {
    const { start, openAt } = this.#ground;
    const path = absolute(this.#path());
    const directory = this.#way.pop();
    if (directory === undefined) {
      const object = openDirectoryAt(start, ".", openAt);
      return this.#arrived({ path, object, parent: null, names: [], mustBeDirectory: true });
    }
    const parent = this.#way.pop()?.fd ?? start;
    const { fd: object, name } = directory;
    return this.#arrived({ path, object, parent, names: [name], mustBeDirectory: true });
  }

  #arrived(where: Omit<Place, "close">): Outcome {
    const { object, parent } = where;
    const own = [object, parent === this.#ground.start ? null : parent];
    const close = () => {
      for (const fd of own.splice(0)) if (fd !== null) closeSync(fd);
    };
    return { outcome: "arrived", place: { ...where, close } };
  }

  #here(): number {
    return this.#way.at(-1)?.fd ?? this.#ground.start;
  }

  #path(): string[] {
    return [...this.#ground.startPath, ...this.#way.map(({ name }) => name)];
  }
}

type Met =
  | { readonly is: "link"; readonly target: string }
  /** The walk stands in it. */
  | { readonly is: "directory" }
  | { readonly is: "other"; readonly fd: number };

function elsewhere(target: readonly string[]): Outcome {
  return { outcome: "elsewhere", target };
}
