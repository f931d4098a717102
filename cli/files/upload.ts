/**
 * Owns the way of one file of ours to a node: whole, or not at all under its name there.
 *
 * 1. It grows beside its place under a name that holds what it is a part of (this file, its size and time, the
 *    place); so another `put` goes on with it after whatever cut this one off.
 * 2. Each chunk demands the revision that the one before left. A chunk whose answer was lost is settled by
 *    reading size and revision, and only what is missing is sent.
 * 3. When it is complete it is moved to its place in one step, over what is there only with `--overwrite`.
 * 4. A part that the same command could not go on with to its end is removed again, when that is known for sure:
 *    our file changed, or its place was refused. Any other stays.
 */
import { createHash } from "node:crypto";
import { basename } from "node:path";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { UPLOAD_PART } from "../../protocol/files.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { type RemoteStat, readChunks } from "./chunks.ts";
import type { Link } from "./link.ts";
import { below, nameOf, statCommand } from "./place.ts";
import { Progress } from "./progress.ts";
import { type Source, SourceChanged } from "./source.ts";

export interface UploadFlags {
  /** Replaces what is at the destination. */
  readonly overwrite?: boolean;
  /** Makes missing parents of the destination. */
  readonly parents?: boolean;
}

export interface Put {
  /** Canonical. */
  readonly path: string;
  readonly size: number;
  readonly resumedAt: number;
}

/** What is known of the part on the node; `mtimeMs` 0: it is not there. */
interface Part {
  readonly size: number;
  readonly mtimeMs: number;
}
const NOTHING: Part = { size: 0, mtimeMs: 0 };

export class Upload {
  readonly #shell: Shell;
  readonly #report: Report;
  readonly #flags: UploadFlags;
  readonly #link: Link;
  readonly #nodeId: string;
  readonly #source: Source;

  constructor(
    shell: Shell,
    report: Report,
    flags: UploadFlags,
    link: Link,
    nodeId: string,
    source: Source,
  ) {
    this.#shell = shell;
    this.#report = report;
    this.#flags = flags;
    this.#link = link;
    this.#nodeId = nodeId;
    this.#source = source;
  }

  /** Puts it at `into`'s or `at`'s; answers what became of it, or the exit code of what was told. */
  async run(destination: string): Promise<Put | number> {
    const part = this.#partOf(destination);
    const begun = await this.#find(part);
    const resumedAt = begun !== null && begun.size <= this.#source.size ? begun.size : 0;
    const complete = await this.#send(part, begun ?? NOTHING, resumedAt);
    const placed = await this.#place(part, destination, complete);
    return typeof placed === "number"
      ? placed
      : { path: placed, size: this.#source.size, resumedAt };
  }

  /** Where it goes: into a directory under its own name. Refuses early what would be refused in the end. */
  async into(path: string): Promise<string> {
    const found = await this.#find(path);
    if (found?.type === "directory") return this.at(below(found.path, basename(this.#source.path)));
    if (found === null && (nameOf(path) === null || path.endsWith("/"))) {
      throw new LemonError("not_found", { message: "There is no such directory on the node" });
    }
    return this.#unlessThere(found?.path ?? path, found);
  }

  /** The same for a path that is its own. */
  async at(path: string): Promise<string> {
    const found = await this.#find(path);
    if (found?.type === "directory") throw new LemonError("is_directory");
    return this.#unlessThere(path, found);
  }

  /** Whether a regular file of the very same bytes is there. */
  async isThere(path: string): Promise<boolean> {
    const found = await this.#find(path);
    if (found?.type !== "regular" || found.size !== this.#source.size) return false;
    try {
      let offset = 0;
      for await (const chunk of readChunks(this.#link, this.#nodeId, found, 0)) {
        if (!chunk.equals(await this.#source.chunk(offset))) return false;
        offset += chunk.length;
      }
      return true;
    } catch (error) {
      // What may not be read, or changes, is not known to be the same.
      if (error instanceof LemonError && UNREADABLE.has(error.code)) return false;
      throw error;
    }
  }

  #unlessThere(path: string, found: RemoteStat | null): string {
    if (found !== null && this.#flags.overwrite !== true) {
      throw new LemonError("already_exists", {
        message: "There is something at the destination; --overwrite replaces it",
      });
    }
    return path;
  }

  #partOf(destination: string): string {
    const what = JSON.stringify([this.#source.path, this.#source.revision, destination]);
    const digest = createHash("sha256").update(what).digest("hex").slice(0, UPLOAD_PART.digits);
    const slash = destination.lastIndexOf("/");
    return `${destination.slice(0, slash + 1)}${UPLOAD_PART.prefix}${digest}`;
  }

  /** What is at a path of the node; null when nothing is. */
  async #find(path: string): Promise<RemoteStat | null> {
    try {
      return await this.#link.again((client) =>
        client.call("node.fs.stat", { nodeId: this.#nodeId, path }),
      );
    } catch (error) {
      if (error instanceof LemonError && error.code === "not_found") return null;
      throw error;
    }
  }

  /** Sends what is missing; answers the part as it then is. */
  async #send(path: string, begun: Part, fromOffset: number): Promise<Part> {
    const progress = new Progress(this.#shell, this.#report, this.#source.path, this.#source.size);
    let part: Part = begun;
    let offset = fromOffset;
    try {
      // An empty file is a write of nothing.
      while (offset < this.#source.size || part.mtimeMs === 0) {
        await progress.at(offset);
        part = await this.#write(path, part, offset, await this.#source.chunk(offset));
        offset = part.size;
      }
      await this.#source.refuseChange();
      return part;
    } catch (error) {
      if (error instanceof SourceChanged && part.mtimeMs !== 0) await this.#remove(path, part);
      throw error;
    } finally {
      await progress.end();
    }
  }

  async #write(path: string, before: Part, offset: number, bytes: Buffer): Promise<Part> {
    const params = {
      nodeId: this.#nodeId,
      path,
      dataBase64: bytes.toString("base64"),
      offset,
      mkdirs: this.#flags.parents === true && before.mtimeMs === 0,
      expectedModifiedAtMs: before.mtimeMs,
    };
    try {
      return await this.#link.again((client) => client.call("node.fs.write", params));
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      const isLost = error.mutationMayHaveApplied;
      if (!isLost && error.code !== "revision_conflict") throw error;
      const found = (await this.#find(path)) ?? NOTHING;
      // After a lost answer the part may be as it was, or longer: either way it is a beginning of the file.
      if (isLost && found.size <= this.#source.size && found.size >= offset) return found;
      // A write whose answer was lost arrived after all, behind the reading that missed it.
      if (!isLost && found.size === offset + bytes.length && found.mtimeMs !== 0) return found;
      throw error;
    }
  }

  /** Moves it to its place; answers that, or the exit code of what was told. */
  async #place(
    part: string,
    destination: string,
    { mtimeMs, size }: Part,
  ): Promise<string | number> {
    try {
      const moved = await this.#link.again((client) =>
        client.call("node.fs.move", {
          nodeId: this.#nodeId,
          path: part,
          destination,
          expectedModifiedAtMs: mtimeMs,
          overwrite: this.#flags.overwrite === true,
        }),
      );
      return moved.destination;
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      if (!error.mutationMayHaveApplied) {
        if (NO_PLACE.has(error.code)) await this.#remove(part, { mtimeMs, size });
        throw error;
      }
      const [left, there] = [await this.#find(part), await this.#find(destination)];
      if (left === null && there?.size === size && there.mtimeMs === mtimeMs) return there.path;
      const settle = statCommand(this.#shell, this.#link.target, this.#nodeId, destination);
      const exitCode = await this.#report.failure(error, { nodeId: this.#nodeId, settle });
      await this.#report.message(`see what is there with: ${settle}`);
      return exitCode;
    }
  }

  /** Removes a part that nobody goes on with, if it is still what we made. */
  async #remove(path: string, { mtimeMs, size }: Part): Promise<void> {
    const { client } = this.#link;
    const nodeId = this.#nodeId;
    try {
      const preview = await client.call("node.fs.delete.preview", { nodeId, path });
      if (preview.stat.mtimeMs !== mtimeMs || preview.stat.size !== size) return;
      const { confirmationToken } = preview;
      await client.call("node.fs.delete", { nodeId, path, confirm: path, confirmationToken });
    } catch {
      await this.#report.message("the part that was sent may still be beside its place");
    }
  }
}

/** Whatever is done again, it would not take its place. */
const NO_PLACE: ReadonlySet<ErrorCode> = new Set([
  "already_exists",
  "is_directory",
  "not_directory",
  "not_regular",
  "invalid_path",
  "path_not_allowed",
  "permission_denied",
  "cross_device",
  "atomic_move_unavailable",
]);
const UNREADABLE: ReadonlySet<ErrorCode> = new Set(["permission_denied", "revision_conflict"]);
