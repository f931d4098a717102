/**
 * Owns the seam between those who ask for something on files and the one process of a worker that does
 * it (node-host-io.md, "File operations"). Everything here is synchronous and runs in that helper
 * process, one request after the other: a call of the operating system that hangs takes the helper with
 * it, and nobody else.
 */
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { pinRoots, type RootsSpec } from "../allowed-roots.ts";

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
export function openFileOperations(spec: RootsSpec): FileOperations {
  const roots = pinRoots(spec);
  const refuse = (): never => {
    throw new LemonError("not_implemented");
  };
  return {
    list: refuse,
    stat: refuse,
    read: refuse,
    write: refuse,
    mkdir: refuse,
    move: refuse,
    preview: refuse,
    delete: refuse,
    close: () => roots.close(),
  };
}
