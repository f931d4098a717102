/**
 * People's files on a fake host: real files below one folder of this account's own, a folder a user and one for
 * the household. No uid is taken on, so the operating system keeps nobody from anybody's files here.
 *
 * 1. Nothing outside the folder is ever reached: a path is a list of plain names, and no link is followed.
 * 2. An upload replaces a file only when all its bytes have come.
 */
import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { cp, type FileHandle, lstat, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { HostAgentError, type HostAgentErrorCode } from "../../protocol/host-agent/errors.ts";
import type { Accounts } from "../machine/accounts.ts";
import type { Download, FileEntry, FilePlace, UserFiles } from "../machine/files.ts";
import type { Health } from "../machine/system.ts";
import { errnoOf } from "../system-error.ts";

export interface FakeFilesOptions {
  readonly folder: string;
  readonly accounts: Pick<Accounts, "home">;
  readonly health: Pick<Health, "blocksWrites">;
}

const CHUNK_BYTES = 65_536;
/** Of one name (NAME_MAX). */
const NAME_BYTES = 255;

interface Place {
  /** The user's folder, or the household's. */
  readonly root: string;
  readonly path: string;
  /** Below the root; empty for the root itself. */
  readonly names: readonly string[];
}

export class FakeFiles implements UserFiles {
  readonly #options: FakeFilesOptions;

  constructor(options: FakeFilesOptions) {
    this.#options = options;
  }

  async list(user: string, place: FilePlace): Promise<readonly FileEntry[]> {
    const { path } = await this.#existing(user, place);
    return await told(async () => {
      if (!(await lstat(path)).isDirectory()) {
        throw new HostAgentError("bad-path", { message: "it is no folder" });
      }
      const names = (await readdir(path)).sort();
      const entries: FileEntry[] = [];
      for (const name of names) {
        const stats = await lstat(join(path, name)).catch(() => null);
        if (stats !== null && !name.startsWith(PENDING)) entries.push(entryOf(name, stats));
      }
      return entries;
    });
  }

  async stat(user: string, place: FilePlace): Promise<FileEntry> {
    const { path, names } = await this.#existing(user, place);
    return await told(async () => entryOf(names.at(-1) ?? "", await lstat(path)));
  }

  async mkdir(user: string, place: FilePlace): Promise<void> {
    const { path } = await this.#changeable(user, place);
    await told(() => mkdir(path, { mode: 0o750 }));
  }

  async move(user: string, from: FilePlace, to: FilePlace): Promise<void> {
    const { source, target } = await this.#between(user, from, to);
    await told(() => rename(source.path, target.path));
  }

  async copy(user: string, from: FilePlace, to: FilePlace): Promise<void> {
    const { source, target } = await this.#between(user, from, to);
    await told(() => cp(source.path, target.path, { recursive: true, errorOnExist: true }));
  }

  async delete(user: string, place: FilePlace): Promise<void> {
    const { path } = await this.#changeable(user, place);
    await told(() => rm(path, { recursive: true }));
  }

  async download(user: string, place: FilePlace): Promise<Download> {
    const { path } = await this.#existing(user, place);
    return await told(async () => {
      // A FIFO must not hang the opener.
      const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
      const file = await open(path, flags);
      try {
        const stats = await file.stat();
        if (!stats.isFile()) throw new HostAgentError("bad-path", { message: "it is no file" });
        const sizeBytes = stats.size;
        return { sizeBytes, chunks: chunksOf(file, sizeBytes), close: () => file.close() };
      } catch (failure) {
        await file.close();
        throw failure;
      }
    });
  }

  async upload(user: string, place: FilePlace, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const { path } = await this.#changeable(user, place);
    const pending = join(dirname(path), `${PENDING}${randomUUID()}`);
    const there = await lstat(path).catch(() => null);
    if (there?.isDirectory()) throw new HostAgentError("exists", { message: "a folder is there" });
    const file = await told(() => open(pending, "wx", 0o640));
    try {
      for await (const chunk of bytes) await told(() => file.writeFile(chunk));
      await told(() => file.sync());
      await told(() => rename(pending, path));
    } catch (failure) {
      await rm(pending, { force: true });
      throw failure;
    } finally {
      await file.close();
    }
  }

  /** Both ends, the target free and in a folder that exists. */
  async #between(user: string, from: FilePlace, to: FilePlace) {
    const source = await this.#changeable(user, from);
    const target = await this.#changeable(user, to);
    await told(() => lstat(source.path));
    if (`${target.path}/`.startsWith(`${source.path}/`)) {
      throw new HostAgentError("bad-path", { message: "the target lies in the source" });
    }
    if ((await lstat(target.path).catch(() => null)) !== null) throw new HostAgentError("exists");
    return { source, target };
  }

  async #changeable(user: string, place: FilePlace): Promise<Place> {
    if ((await this.#options.health.blocksWrites()) !== null) {
      throw new HostAgentError("blocked-by-health-issue");
    }
    const found = await this.#existing(user, place);
    if (found.names.length === 0) {
      throw new HostAgentError("bad-path", { message: "a root itself can not be changed" });
    }
    return found;
  }

  /** The place itself may be missing; no folder on the way to it is a link. */
  async #existing(user: string, place: FilePlace): Promise<Place> {
    await this.#options.accounts.home(user);
    const names = namesOf(place.path);
    const { folder } = this.#options;
    const root = place.root === "home" ? join(folder, "home", user) : join(folder, "shared");
    return await told(async () => {
      await mkdir(root, { recursive: true, mode: 0o750 });
      let path = root;
      for (const [index, name] of names.entries()) {
        path = join(path, name);
        if (index === names.length - 1) break;
        const stats = await lstat(path);
        if (!stats.isDirectory()) throw new HostAgentError("not-found");
      }
      return { root, path, names };
    });
  }
}

/** Of files that are being written; they are not shown. */
const PENDING = ".lemon-upload-";

function namesOf(path: string): readonly string[] {
  if (path === "" || path === ".") return [];
  const names = path.split("/");
  const odd = (name: string): boolean =>
    name === "" || name === "." || name === ".." || name.startsWith(PENDING);
  if (path.includes("\0") || !path.isWellFormed() || names.some(odd)) {
    throw new HostAgentError("bad-path");
  }
  if (names.some((name) => Buffer.byteLength(name) > NAME_BYTES)) {
    throw new HostAgentError("bad-path");
  }
  return names;
}

function entryOf(name: string, stats: Stats): FileEntry {
  return {
    name,
    dir: stats.isDirectory(),
    size_bytes: stats.isFile() ? stats.size : 0,
    mtime: stats.mtime.toISOString(),
    hidden: name.startsWith("."),
  };
}

async function* chunksOf(file: FileHandle, sizeBytes: number): AsyncGenerator<Uint8Array> {
  let left = sizeBytes;
  while (left > 0) {
    const chunk = Buffer.allocUnsafe(Math.min(left, CHUNK_BYTES));
    const { bytesRead } = await told(() => file.read(chunk, 0, chunk.length));
    // It was cut short meanwhile.
    if (bytesRead === 0) throw new HostAgentError("files-failed");
    left -= bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

const CODES: Readonly<Record<string, HostAgentErrorCode>> = {
  ENOENT: "not-found",
  ENOTDIR: "not-found",
  EISDIR: "bad-path",
  ELOOP: "bad-path",
  ENXIO: "bad-path",
  ENAMETOOLONG: "bad-path",
  EEXIST: "exists",
  ENOTEMPTY: "exists",
  ERR_FS_CP_EEXIST: "exists",
  EACCES: "permission-denied",
  EPERM: "permission-denied",
  EROFS: "permission-denied",
  ENOSPC: "no-space",
  EDQUOT: "no-space",
};

/** What the system refuses, as a code of the table. */
async function told<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (failure) {
    const code = CODES[errnoOf(failure) ?? ""];
    throw code === undefined ? failure : new HostAgentError(code, { cause: failure });
  }
}
