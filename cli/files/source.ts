/**
 * Owns the local file that is put: a regular one, of one revision, read in chunks.
 *
 * 1. Opening it waits for nobody: not for the other end of a FIFO, not for a line.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { errnoOf } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import { FILE_BOUNDS } from "../../protocol/files.ts";
import { UsageError } from "../exit.ts";
import { localFailure } from "./local.ts";

const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
const MISSING: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR"]);

export class Source implements AsyncDisposable {
  readonly path: string;
  readonly size: number;
  readonly #modified: bigint;
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle, path: string, size: number, modified: bigint) {
    this.#handle = handle;
    this.path = path;
    this.size = size;
    this.#modified = modified;
  }

  /** Throws what the system says, and a `UsageError` for what is no regular file. */
  static async open(path: string): Promise<Source> {
    const handle = await open(path, FLAGS);
    try {
      const found = await handle.stat({ bigint: true });
      if (!found.isFile()) {
        throw new UsageError(
          "only a regular file can be put",
          found.isDirectory() ? "-r puts a directory with all that is in it" : null,
        );
      }
      return new Source(handle, path, Number(found.size), found.mtimeNs);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** The same for a file that the user named: one that is not there is a wrong command line. */
  static named(path: string): Promise<Source> {
    return asNamed(() => Source.open(path));
  }

  get revision(): string {
    return `${this.size} ${this.#modified}`;
  }

  async chunk(offset: number): Promise<Buffer> {
    const length = Math.min(FILE_BOUNDS.chunkBytes, this.size - offset);
    const bytes = Buffer.alloc(length);
    let read = 0;
    while (read < length) {
      const at = read;
      const { bytesRead } = await localFailure(() =>
        this.#handle.read(bytes, at, length - at, offset + at),
      );
      if (bytesRead === 0) throw new SourceChanged();
      read += bytesRead;
    }
    return bytes;
  }

  async refuseChange(): Promise<void> {
    const { size, mtimeNs } = await localFailure(() => this.#handle.stat({ bigint: true }));
    if (Number(size) !== this.size || mtimeNs !== this.#modified) throw new SourceChanged();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#handle.close();
  }
}

/** Looks at what the user named. Throws a `UsageError` when nothing is there. */
export async function asNamed<T>(look: () => Promise<T>): Promise<T> {
  try {
    return await look();
  } catch (error) {
    if (MISSING.has(errnoOf(error) ?? "")) {
      throw new UsageError("there is no such file or directory on this machine");
    }
    return await localFailure(() => Promise.reject(error));
  }
}

/** What was sent of it is a part of nothing any more. */
export class SourceChanged extends LemonError {
  constructor() {
    super("revision_conflict", { message: "The local file changed while it was read" });
  }
}
