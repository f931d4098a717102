/**
 * Owns the question which directories a caller may name: those below the node's allowed roots
 * (node-host-io.md, "Destination policy").
 *
 * 1. A root is the directory that was opened when the service started, whatever its path names later.
 * 2. A path is walked one component at a time from an open root; the kernel never follows a link for us.
 *    A link met on the way is read and walked the same way, so that what is opened in the end was reached
 *    inside a root, and nothing exchanged meanwhile leads outside.
 * 3. The state folder (`LEMON_HOME`) and all below it is never allowed, by its path and by its inode.
 * 4. Outside the roots nothing is told, not even whether something exists.
 */
import { type BigIntStats, closeSync, fstatSync, realpathSync } from "node:fs";
import { LemonError } from "../protocol/errors.ts";
import { openDirectory, openDirectoryAt, readLinkAt } from "./native/directory.ts";
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
  /**
   * Opens a directory as a caller names it; a relative path starts at the default cwd. Errors:
   * `invalid_path`, `path_not_allowed`, `not_found`, `not_directory`, `permission_denied`.
   */
  openDirectory(path: string): PinnedDirectory;
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

const MOST_ROOTS = 64;
/** As Linux has it (path_resolution(7)). */
const MOST_LINKS = 40;
const LONGEST_PATH_BYTES = 4_096;

interface Root {
  readonly fd: number;
  readonly path: readonly string[];
  /** Its path as it was configured, when that leads through links. */
  readonly alias: readonly string[];
}

/** Pins the roots. Errors: `invalid_params` (their number), `not_found`, `not_directory`, `permission_denied`. */
export function pinRoots(spec: RootsSpec): AllowedRoots {
  if (spec.roots.length < 1 || spec.roots.length > MOST_ROOTS) {
    throw new LemonError("invalid_params", { message: `There must be 1 to ${MOST_ROOTS} roots` });
  }
  const opened: Root[] = [];
  try {
    for (const root of spec.roots) opened.push(pin(root));
    return new PinnedRoots(spec, opened);
  } catch (failure) {
    for (const root of opened) closeSync(root.fd);
    throw systemFailure(failure);
  }
}

function pin(root: string): Root {
  const path = realpathSync(root);
  return { fd: openDirectory(path), path: components(path), alias: components(root) };
}

class PinnedRoots implements AllowedRoots {
  readonly #roots: readonly Root[];
  readonly #defaultCwd: readonly string[];
  readonly #stateFolder: StateFolder;

  constructor(spec: RootsSpec, roots: readonly Root[]) {
    this.#roots = roots;
    this.#defaultCwd = components(spec.defaultCwd);
    this.#stateFolder = new StateFolder(spec.stateFolder);
  }

  openDirectory(path: string): PinnedDirectory {
    if (!isAcceptable(path)) throw new LemonError("invalid_path");
    const given = components(path);
    let target: readonly string[] = path.startsWith("/") ? given : [...this.#defaultCwd, ...given];
    const links = { left: MOST_LINKS };
    for (;;) {
      const root = this.#rootOf(target);
      const walk =
        root === null ? this.#walkOutside(target, links) : this.#walk(root, target, links);
      if (walk.outcome === "arrived") return walk.directory;
      target = walk.target;
    }
  }

  close(): void {
    for (const root of this.#roots) closeSync(root.fd);
    this.#stateFolder.close();
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

  #walk(root: Root, target: readonly string[], links: Links): Outcome {
    const prefix = startsWith(target, root.path) ? root.path : root.alias;
    const walk = new Walk(root.fd, root.path, this.#stateFolder, links);
    try {
      return walk.follow(target.slice(prefix.length), () => false);
    } catch (failure) {
      throw refusal(failure);
    } finally {
      walk.close();
    }
  }

  /** A path from outside may still lead into a root, through a link. */
  #walkOutside(target: readonly string[], links: Links): Outcome {
    const top = openDirectory("/");
    const walk = new Walk(top, [], this.#stateFolder, links);
    try {
      const outcome = walk.follow(target, (here) => this.#rootOf(here) !== null);
      if (outcome.outcome === "elsewhere") return outcome;
      outcome.directory.close();
      throw new LemonError("path_not_allowed");
    } catch (cause) {
      throw new LemonError("path_not_allowed", { cause });
    } finally {
      walk.close();
      closeSync(top);
    }
  }
}

interface Links {
  left: number;
}

type Outcome =
  | { readonly outcome: "arrived"; readonly directory: PinnedDirectory }
  /** The walk goes on at this absolute path. */
  | { readonly outcome: "elsewhere"; readonly target: readonly string[] };

/** One walk down from an open directory, whose way back up it keeps open. */
class Walk {
  readonly #start: number;
  readonly #startPath: readonly string[];
  readonly #stateFolder: StateFolder;
  readonly #links: Links;
  /** The directories below the start that lead to where the walk is. */
  readonly #way: { readonly fd: number; readonly name: string }[] = [];

  constructor(start: number, startPath: readonly string[], stateFolder: StateFolder, links: Links) {
    this.#start = start;
    this.#startPath = startPath;
    this.#stateFolder = stateFolder;
    this.#links = links;
  }

  /** Walks to the end of `names`, or until `isElsewhere` says so of where it stands. `..` stands only in links. */
  follow(names: readonly string[], isElsewhere: (here: readonly string[]) => boolean): Outcome {
    this.#stateFolder.refusePath(this.#startPath);
    this.#stateFolder.refuse(this.#start);
    const ahead = [...names];
    for (let name = ahead.shift(); name !== undefined; name = ahead.shift()) {
      if (name === "..") {
        const left = this.#way.pop();
        if (left === undefined) return elsewhere([...this.#startPath.slice(0, -1), ...ahead]);
        closeSync(left.fd);
        continue;
      }
      const link = this.#enter(name);
      if (link === null) {
        const here = this.#path();
        if (isElsewhere(here)) return elsewhere([...here, ...ahead]);
      } else if (link.startsWith("/")) {
        return elsewhere([...components(link), ...ahead]);
      } else {
        ahead.unshift(...components(link));
      }
    }
    return { outcome: "arrived", directory: this.#arrive() };
  }

  close(): void {
    for (const { fd } of this.#way.splice(0)) closeSync(fd);
  }

  /** Goes into a directory; or answers where the link of that name points. */
  #enter(name: string): string | null {
    this.#stateFolder.refusePath([...this.#path(), name]);
    let fd: number;
    try {
      fd = openDirectoryAt(this.#here(), name);
    } catch (failure) {
      const errno = errnoOf(failure);
      if (errno !== "ENOTDIR" && errno !== "ELOOP") throw failure;
      return this.#readLink(name);
    }
    this.#way.push({ fd, name });
    this.#stateFolder.refuse(fd);
    return null;
  }

  #readLink(name: string): string {
    let target: Buffer;
    try {
      target = readLinkAt(this.#here(), name);
    } catch (failure) {
      // No link: something that is no directory.
      if (errnoOf(failure) === "EINVAL") throw new LemonError("not_directory", { cause: failure });
      throw failure;
    }
    this.#links.left -= 1;
    if (this.#links.left < 0) throw new LemonError("path_not_allowed");
    return target.toString("utf8");
  }

  #arrive(): PinnedDirectory {
    const fd = openDirectoryAt(this.#here(), ".");
    let open = true;
    return {
      fd,
      path: `/${this.#path().join("/")}`,
      close() {
        if (open) closeSync(fd);
        open = false;
      },
    };
  }

  #here(): number {
    return this.#way.at(-1)?.fd ?? this.#start;
  }

  #path(): string[] {
    return [...this.#startPath, ...this.#way.map(({ name }) => name)];
  }
}

/** The folder that is never allowed: found once, and held, so that its inode stays its own. */
class StateFolder {
  readonly #fd: number;
  readonly #path: readonly string[];
  readonly #identity: BigIntStats;

  constructor(path: string) {
    const canonical = nameable(path);
    this.#fd = openDirectory(canonical);
    this.#path = components(canonical);
    this.#identity = fstatSync(this.#fd, { bigint: true });
  }

  /** Throws `path_not_allowed` for the folder and what is below it, by path. */
  refusePath(path: readonly string[]): void {
    if (startsWith(path, this.#path)) throw new LemonError("path_not_allowed");
  }

  /** The same by inode: it may be mounted elsewhere, too. */
  refuse(fd: number): void {
    const { dev, ino } = fstatSync(fd, { bigint: true });
    if (ino === this.#identity.ino && dev === this.#identity.dev) {
      throw new LemonError("path_not_allowed");
    }
  }

  close(): void {
    closeSync(this.#fd);
  }
}

/** Its canonical path; itself when it has none here (reached through another mount namespace): the inode then decides alone. */
function nameable(path: string): string {
  try {
    return realpathSync(path);
  } catch (failure) {
    if (errnoOf(failure) === "ENOENT") return path;
    throw failure;
  }
}

function isAcceptable(path: string): boolean {
  return (
    path !== "" &&
    path.isWellFormed() &&
    !path.includes("\0") &&
    Buffer.byteLength(path) <= LONGEST_PATH_BYTES &&
    !path.split("/").includes("..")
  );
}

function components(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

function startsWith(path: readonly string[], prefix: readonly string[]): boolean {
  return prefix.every((name, index) => path[index] === name);
}

function elsewhere(target: readonly string[]): Outcome {
  return { outcome: "elsewhere", target };
}

function refusal(failure: unknown): LemonError {
  return errnoOf(failure) === "ENAMETOOLONG"
    ? new LemonError("invalid_path", { cause: failure })
    : systemFailure(failure);
}
