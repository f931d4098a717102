/** People's files: every operation runs as that user, inside one of two roots. */
import type { RouteBody, RouteResult } from "../../protocol/host-agent/routes.ts";

export type FileEntry = RouteResult<"filesStat">;
export type FilePlace = RouteBody<"filesMove">["from"];

/** A file that is being read. */
export interface Download {
  readonly sizeBytes: number;
  /** `sizeBytes` bytes, read as they are taken; it throws when the file has become shorter. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Lets the file go, read to its end or not. Idempotent. */
  close(): Promise<void>;
}

/**
 * Errors of all: `unknown-user`, `bad-path` (it leaves its root, or holds what no path may), `not-found`,
 * `permission-denied`; of those that write also `exists`, `no-space`, `blocked-by-health-issue`.
 */
export interface UserFiles {
  /** By name. */
  list(user: string, place: FilePlace): Promise<readonly FileEntry[]>;
  stat(user: string, place: FilePlace): Promise<FileEntry>;
  mkdir(user: string, place: FilePlace): Promise<void>;
  /** Replaces nothing. */
  move(user: string, from: FilePlace, to: FilePlace): Promise<void>;
  copy(user: string, from: FilePlace, to: FilePlace): Promise<void>;
  delete(user: string, place: FilePlace): Promise<void>;
  /** Errors also: `bad-path` for what is no file. */
  download(user: string, place: FilePlace): Promise<Download>;
  /**
   * Replaces a file of that name once all bytes are there; when `bytes` throws, nothing has changed and the
   * failure goes on to the caller. Reads no faster than it writes.
   */
  upload(user: string, place: FilePlace, bytes: AsyncIterable<Uint8Array>): Promise<void>;
}
