/**
 * Owns the seam between those who ask for something on files and the one process of a worker that does
 * it (node-host-io.md, "File operations"). Everything here is synchronous and runs in that helper
 * process, one request after the other: a call of the operating system that hangs takes the helper with
 * it, and nobody else.
 */
import { closeSync, constants, fstatSync } from "node:fs";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { type AllowedRoots, pinRoots, type RootsSpec } from "../allowed-roots.ts";
import type { OpenAt } from "../native/directory.ts";
import type { Entry } from "../native/entry.ts";
import { type Met, openMet } from "../native/file.ts";
import type { Place } from "../path-walk.ts";
import { SystemError } from "../system-error.ts";
import { Anchors, isSameObject, rootStays } from "./anchors.ts";
import type { NamedPlace } from "./capture.ts";
import { deletePreviewed } from "./delete.ts";
import { fileFailure } from "./failure.ts";
import { listDirectory } from "./listing.ts";
import { makeDirectories } from "./made-directories.ts";
import { mimeOf } from "./mime.ts";
import { moveEntry } from "./move.ts";
import { previewDelete } from "./preview.ts";
import { demandRegular, metAt, readChunk } from "./reading.ts";
import { Revisions } from "./revisions.ts";
import { describe } from "./stat.ts";
import { demandBounds, writeChunk } from "./write.ts";

type Request<K extends Exclude<keyof FileOperations, "close">> = Parameters<FileOperations[K]>[0];
type Answer<K extends keyof FileOperations> = ReturnType<FileOperations[K]>;

export type FileType =
  | "regular"
  | "directory"
  | "symlink"
  | "fifo"
  | "socket"
  | "character_device"
  | "block_device"
  | "unknown";

export interface FileStat {
  readonly type: FileType;
  /** Bytes. */
  readonly size: number;
  /** Unix time in whole milliseconds, nanoseconds cut off. */
  readonly mtimeMs: number;
  /** `st_mode`, the bits of its type included. */
  readonly mode: number;
  /** From the name alone. */
  readonly mime: string;
  /** Asked of the system for this account (`AT_EACCESS`); no promise. */
  readonly readable: boolean;
  readonly writable: boolean;
}

/** What stands in a directory; or why nothing can be said about it. */
export type FileEntry =
  | ({ readonly name: string } & FileStat)
  | { readonly name: string; readonly error: ErrorCode };

/** Paths in answers are absolute and canonical. Every failure is a `LemonError`. */
export interface FileOperations {
  /** The first 500 by name. */
  list(request: { readonly path: string; readonly showHidden: boolean }): {
    readonly path: string;
    readonly entries: readonly FileEntry[];
    readonly truncated: boolean;
  };
  stat(request: { readonly path: string }): { readonly path: string } & FileStat;
  /** `length`: 1 to 1,048,576. */
  read(request: { readonly path: string; readonly offset: number; readonly length: number }): {
    readonly path: string;
    readonly bytes: Uint8Array;
    readonly offset: number;
    readonly size: number;
    readonly mime: string;
    readonly eof: boolean;
  };
  /** `expectedModifiedAtMs`: 0 demands that it is missing; null is allowed for a missing file only. */
  write(request: {
    readonly path: string;
    readonly bytes: Uint8Array;
    readonly offset: number;
    readonly truncate: boolean;
    readonly mkdirs: boolean;
    readonly expectedModifiedAtMs: number | null;
  }): {
    readonly path: string;
    readonly offset: number;
    readonly bytesWritten: number;
    readonly size: number;
    readonly mtimeMs: number;
  };
  /** Makes missing parents, too. An existing directory is left as it is. */
  mkdir(request: { readonly path: string }): { readonly path: string };
  move(request: {
    readonly path: string;
    readonly destination: string;
    readonly expectedModifiedAtMs: number;
    readonly overwrite: boolean;
  }): { readonly path: string; readonly destination: string };
  /** `candidates`: what `delete` needs, opaque, at most 8 MiB. */
  preview(request: { readonly path: string; readonly recursive: boolean }): {
    readonly path: string;
    readonly stat: FileStat;
    readonly childCount: number;
    readonly childrenDigest: string;
    readonly candidateCount: number;
    readonly candidates: Uint8Array;
  };
  delete(request: { readonly path: string; readonly candidates: Uint8Array }): {
    readonly path: string;
  };
  /** Lets the roots go. */
  close(): void;
}

/** Pins the roots. Errors: those of `pinRoots`. */
export function openFileOperations(spec: RootsSpec, openAt?: OpenAt): FileOperations {
  return fileOperations(pinRoots(spec, openAt));
}

/** Closing them closes the roots. */
export function fileOperations(roots: AllowedRoots): FileOperations {
  return new RootedFiles(roots);
}

const LED_ASTRAY: ReadonlySet<ErrorCode> = new Set([
  "not_found",
  "not_directory",
  "path_not_allowed",
]);

class RootedFiles implements FileOperations {
  readonly #roots: AllowedRoots;
  readonly #anchors: Anchors;
  readonly #revisions = new Revisions();

  constructor(roots: AllowedRoots) {
    this.#roots = roots;
    this.#anchors = new Anchors(roots.anchors);
  }

  list({ path, showHidden }: Request<"list">): Answer<"list"> {
    return this.#at(path, (place) => {
      const directory = this.#directory(place);
      const ground = { roots: this.#roots, revisions: this.#revisions };
      return { path: place.path, ...listDirectory(directory, place.path, showHidden, ground) };
    });
  }

  stat({ path }: Request<"stat">): Answer<"stat"> {
    return this.#at(path, (place) => {
      const met = existing(place);
      const stats = fstatSync(met.handle, { bigint: true });
      this.#revisions.tell(place.path, stats);
      return { path: place.path, ...describe(stats, nameOf(place), met) };
    });
  }

  read({ path, offset, length }: Request<"read">): Answer<"read"> {
    return this.#at(path, (place) => {
      const met = existing(place);
      demandRegular(fstatSync(met.handle, { bigint: true }));
      const fd = openMet(met, constants.O_RDONLY);
      try {
        const chunk = readChunk(fd, fstatSync(fd, { bigint: true }), offset, length);
        return { path: place.path, offset, mime: mimeOf(nameOf(place)), ...chunk };
      } finally {
        closeSync(fd);
      }
    });
  }

  write(request: Request<"write">): Answer<"write"> {
    demandBounds(request);
    const ground = { roots: this.#roots, revisions: this.#revisions };
    return this.#at(request.path, (place) => writeChunk(ground, place, request));
  }

  mkdir({ path }: Request<"mkdir">): Answer<"mkdir"> {
    return this.#at(path, (place) => {
      if (place.object === null) makeDirectories(this.#roots, place);
      else if (!fstatSync(place.object).isDirectory()) throw new LemonError("already_exists");
      return { path: place.path };
    });
  }

  move(request: Request<"move">): Answer<"move"> {
    const { path, destination, expectedModifiedAtMs, overwrite } = request;
    return this.#at(path, (from) =>
      this.#at(destination, (to) => {
        const demandRevision = (source: Entry) =>
          this.#revisions.demand(from.path, source, expectedModifiedAtMs);
        const places = { from: named(from), to: destinationOf(to, from, overwrite) };
        const openSource = () => openHarmless(existing(from));
        moveEntry({ ...places, demandRevision, overwrite, openSource }, this.#anchors);
        for (const place of [from, to]) this.#revisions.forget(place.path);
        return { path: from.path, destination: to.path };
      }),
    );
  }

  preview({ path, recursive }: Request<"preview">): Answer<"preview"> {
    return this.#at(path, (place) => {
      const met = existing(place);
      const { target, ...bound } = previewDelete(named(place), recursive, this.#anchors);
      const stats = fstatSync(met.handle, { bigint: true });
      // Another object took its place after the walk.
      if (!isSameObject(stats, target)) throw new LemonError("not_found");
      this.#revisions.tell(place.path, stats);
      return { path: place.path, stat: describe(stats, nameOf(place), met), ...bound };
    });
  }

  delete({ path, candidates }: Request<"delete">): Answer<"delete"> {
    try {
      return this.#at(path, (place) => {
        const openTarget = () => openHarmless(existing(place));
        deletePreviewed(named(place), candidates, { openTarget });
        this.#revisions.forget(place.path);
        return { path: place.path };
      });
    } catch (failure) {
      // The path was previewed: that it leads nowhere, or where it may not, is a change.
      if (failure instanceof LemonError && LED_ASTRAY.has(failure.code))
        throw new LemonError("stale_preview", { cause: failure });
      throw failure;
    }
  }

  close(): void {
    this.#roots.close();
  }

  #directory(place: Place): Met {
    const met = existing(place);
    if (!fstatSync(met.handle).isDirectory()) throw new LemonError("not_directory");
    return met;
  }

  /** Does something where a path leads, and lets go of the place. */
  #at<T>(path: string, act: (place: Place) => T): T {
    try {
      const place = this.#roots.locate(path);
      try {
        return act(place);
      } finally {
        place.close();
      }
    } catch (failure) {
      throw fileFailure(failure);
    }
  }
}

/** What stands there; `not_found`. */
function existing(place: Place): Met {
  const met = metAt(place);
  if (met === null) throw new LemonError("not_found");
  return met;
}

/** Opens what can be opened without an effect; EACCES for what else. */
function openHarmless(met: Met): number {
  const stats = fstatSync(met.handle);
  if (!stats.isFile() && !stats.isDirectory()) throw new SystemError("open", "EACCES");
  return openMet(met, constants.O_RDONLY);
}

/** What may be moved or removed: not a root. */
function named(place: Place): NamedPlace {
  existing(place);
  const { parent, names } = place;
  const [name] = names;
  if (parent === null || name === undefined) throw rootStays();
  return { parent, name: Buffer.from(name) };
}

/** Where something may be moved to; its directory is there. */
function destinationOf(to: Place, from: Place, overwrite: boolean): NamedPlace {
  const { parent, names } = to;
  const [name, ...below] = names;
  if (parent === null || name === undefined)
    throw new LemonError(overwrite ? "is_directory" : "already_exists");
  if (below.length > 0) throw new LemonError("not_found");
  const isFolder = from.object !== null && fstatSync(from.object).isDirectory();
  if (to.mustBeDirectory && to.object === null && !isFolder) throw new LemonError("not_directory");
  return { parent, name: Buffer.from(name) };
}

function nameOf(place: Place): string {
  return place.path.slice(place.path.lastIndexOf("/") + 1);
}
