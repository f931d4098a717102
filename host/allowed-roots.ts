/**
 * Owns the question what a caller may name: what is below the node's allowed roots (node-host-io.md,
 * "Destination policy").
 *
 * 1. A root is the directory that was opened when the worker started, whatever its path names later: whoever
 *    serves requests for it in another process is handed the open directory, never its path alone.
 * 2. A path is walked (`path-walk.ts`) from an open root; what it leads to in the end was reached inside a
 *    root, and nothing exchanged meanwhile leads outside.
 * 3. The state folder (`LEMON_HOME`) and all below it is never allowed, under no name (`state-folder.ts`).
 * 4. Outside the roots nothing is told, not even whether something exists.
 */
import { closeSync, fstatSync, realpathSync } from "node:fs";
import { LemonError } from "../protocol/errors.ts";
import { bestOpenAt, type OpenAt, openDirectory } from "./native/directory.ts";
import { components, directoryComponents, isAcceptable, startsWith } from "./path-names.ts";
import {
  LinkBudget,
  type Outcome,
  type Place,
  type WalkGround,
  type WalkGuard,
  walk,
} from "./path-walk.ts";
import { StateFolder } from "./state-folder.ts";
import { errnoOf, systemFailure } from "./system-error.ts";

/** An open directory that was admitted. */
export interface PinnedDirectory {
  /** Close-on-exec; a handle only (`O_PATH`). */
  readonly fd: number;
  /** Canonical at the time of the walk. */
  readonly path: string;
  /** Idempotent. */
  close(): void;
}

export interface AllowedRoots {
  /** The roots and the state folder, open: what must stay where it is. Theirs to close. */
  readonly anchors: readonly number[];
  /** What the anchors are called, and where relative paths start: with them, all that `adoptRoots` needs. */
  readonly names: RootNames;
  /**
   * Where a path leads as a caller writes it, also when nothing is there; a relative path starts at the
   * default cwd. Errors: `invalid_path` (also when the canonical path could not be one of a request),
   * `path_not_allowed`, `not_found` (a missing directory that is left again by `..`), `not_directory`,
   * `permission_denied`, `filesystem_busy` (no descriptors left).
   */
  locate(path: string): Place;
  /** Opens a directory as a caller names it. Errors: those of `locate`. */
  openDirectory(path: string): PinnedDirectory;
  /** What keeps one request out of what is never allowed. */
  guard(): WalkGuard;
  /** Lets the roots go. */
  close(): void;
}

export interface RootsSpec {
  /** 1 to 64 absolute paths of existing directories. */
  readonly roots: readonly string[];
  /** Absolute; where relative paths start. It need not lie in a root. */
  readonly defaultCwd: string;
  /** Absolute path of the state folder, which exists. */
  readonly stateFolder: string;
}

/** Plain data; each root is an anchor, in this order, and the state folder is the last one. */
export interface RootNames {
  /** Its canonical path, and the one that was configured. */
  readonly roots: readonly { readonly path: string; readonly alias: string }[];
  readonly defaultCwd: string;
  /** Canonical. */
  readonly stateFolder: string;
}

const MOST_ROOTS = 64;

interface Root {
  readonly fd: number;
  readonly path: readonly string[];
  /** Its path as it was configured, when that leads through links. */
  readonly alias: readonly string[];
}

/**
 * Pins the roots. `openAt` is how the walks open, the strictest there is when left out. Errors:
 * `invalid_params` (their number), `not_found`, `not_directory`, `permission_denied`.
 */
export function pinRoots(spec: RootsSpec, openAt?: OpenAt): AllowedRoots {
  if (spec.roots.length < 1 || spec.roots.length > MOST_ROOTS) {
    throw new LemonError("invalid_params", { message: `There must be 1 to ${MOST_ROOTS} roots` });
  }
  const anchors: number[] = [];
  try {
    const roots = spec.roots.map((alias) => ({ path: realpathSync(alias), alias }));
    const stateFolder = canonicalOf(spec.stateFolder);
    for (const { path } of roots) anchors.push(openDirectory(path));
    anchors.push(openDirectory(stateFolder));
    return adoptRoots({ roots, defaultCwd: spec.defaultCwd, stateFolder }, anchors, openAt);
  } catch (failure) {
    for (const fd of anchors) closeSync(fd);
    throw systemFailure(failure);
  }
}

/** The same roots from their open descriptors, which are its own from then on. */
export function adoptRoots(
  names: RootNames,
  anchors: readonly number[],
  openAt: OpenAt = bestOpenAt(),
): AllowedRoots {
  return new PinnedRoots(names, anchors, openAt);
}

/** Of one request, over all its walks. */
type Bounds = Pick<WalkGround, "links" | "guard">;

class PinnedRoots implements AllowedRoots {
  readonly anchors: readonly number[];
  readonly names: RootNames;
  readonly #roots: readonly Root[];
  readonly #defaultCwd: readonly string[];
  readonly #stateFolder: StateFolder;
  readonly #openAt: OpenAt;

  constructor(names: RootNames, anchors: readonly number[], openAt: OpenAt) {
    const last = anchors[names.roots.length];
    if (last === undefined) throw new LemonError("internal_error");
    this.#roots = names.roots.flatMap(({ path, alias }, index) => {
      const fd = anchors[index];
      const paths = { path: directoryComponents(path), alias: directoryComponents(alias) };
      return fd === undefined ? [] : [{ fd, ...paths }];
    });
    this.#defaultCwd = directoryComponents(names.defaultCwd);
    this.#stateFolder = new StateFolder(last, names.stateFolder, anchors.slice(0, -1));
    this.#openAt = openAt;
    this.anchors = anchors;
    this.names = names;
  }

  locate(path: string): Place {
    if (!isAcceptable(path)) throw new LemonError("invalid_path");
    const given = components(path);
    let target: readonly string[] = path.startsWith("/") ? given : [...this.#defaultCwd, ...given];
    const bounds = { links: new LinkBudget(), guard: this.guard() };
    for (;;) {
      const root = this.#rootOf(target);
      const walked =
        root === null ? this.#walkOutside(target, bounds) : this.#walk(root, target, bounds);
      if (walked.outcome === "arrived") return nameable(walked.place);
      target = walked.target;
    }
  }

  openDirectory(path: string): PinnedDirectory {
    const place = this.locate(path);
    try {
      if (place.object === null) throw new LemonError("not_found");
      if (!fstatSync(place.object).isDirectory()) throw new LemonError("not_directory");
    } catch (failure) {
      place.close();
      throw failure;
    }
    return { fd: place.object, path: place.path, close: () => place.close() };
  }

  guard(): WalkGuard {
    return this.#stateFolder.guard();
  }

  close(): void {
    for (const fd of this.anchors) closeSync(fd);
  }

  /** The innermost root that a path of components names, under its own name or the configured one. */
  #rootOf(target: readonly string[]): Root | null {
    let found: Root | null = null;
    for (const root of this.#roots) {
      const named = startsWith(target, root.path) || startsWith(target, root.alias);
      if (named && (found === null || root.path.length > found.path.length)) found = root;
    }
    return found;
  }

  #walk(root: Root, target: readonly string[], bounds: Bounds): Outcome {
    const prefix = startsWith(target, root.path) ? root.path : root.alias;
    try {
      return walk(this.#ground(root.fd, root.path, bounds), target.slice(prefix.length));
    } catch (failure) {
      throw refusal(failure);
    }
  }

  /** A path from outside may still lead into a root, through a link. */
  #walkOutside(target: readonly string[], bounds: Bounds): Outcome {
    const top = openDirectory("/");
    try {
      const isInside = (here: readonly string[]) => this.#rootOf(here) !== null;
      const walked = walk(this.#ground(top, [], bounds), target, isInside);
      if (walked.outcome === "elsewhere") return walked;
      walked.place.close();
      throw new LemonError("path_not_allowed");
    } catch (cause) {
      throw new LemonError("path_not_allowed", { cause });
    } finally {
      closeSync(top);
    }
  }

  #ground(start: number, startPath: readonly string[], bounds: Bounds): WalkGround {
    return { start, startPath, ...bounds, openAt: this.#openAt };
  }
}

/** Its canonical path; itself when it has none here (reached through another mount namespace): the inode then decides alone. */
function canonicalOf(path: string): string {
  try {
    return realpathSync(path);
  } catch (failure) {
    if (errnoOf(failure) === "ENOENT") return path;
    throw failure;
  }
}

/** A canonical path is one that a caller can use again: a relative path and links may lead deeper than that. */
function nameable(place: Place): Place {
  if (isAcceptable(place.path)) return place;
  place.close();
  throw new LemonError("invalid_path");
}

function refusal(failure: unknown): LemonError {
  const errno = errnoOf(failure);
  if (errno === "ENAMETOOLONG") return new LemonError("invalid_path", { cause: failure });
  if (errno === "EMFILE" || errno === "ENFILE")
    return new LemonError("filesystem_busy", { details: { errno }, cause: failure });
  return systemFailure(failure);
}
