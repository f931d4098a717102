/**
 * Owns `lemon fs put -r`: a directory of ours, file by file, each whole or not at all.
 *
 * 1. What is there already, byte for byte, is not sent again, nor replaced: so the same command goes on after
 *    whatever cut an earlier one off. What is there and differs is left as it is, and said so, unless it is to
 *    be overwritten.
 */
import { isUtf8 } from "node:buffer";
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { errnoOf } from "../../host/system-error.ts";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { LocalFailure, UsageError } from "../exit.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { Link } from "./link.ts";
import { localFailure } from "./local.ts";
import { below } from "./place.ts";
import { Source } from "./source.ts";
import { TreeReport } from "./tree-report.ts";
import { Upload, type UploadFlags } from "./upload.ts";

/** From where, and to where. */
interface Going {
  readonly nodeId: string;
  readonly path: string;
  readonly local: string;
}

export async function putTree(
  shell: Shell,
  report: Report,
  flags: UploadFlags,
  link: Link,
  { nodeId, path, local }: Going,
): Promise<number> {
  const told = new TreeReport(report);
  const isThere = await isDirectory(link, nodeId, path);
  const to = isThere ? below(path, basename(local)) : path;
  const names = await localFailure(() => namesIn(local));
  const descent = new Descent(shell, report, flags, link, told);
  const failed = await descent.into({ nodeId, path: to, local }, names);
  return failed ?? (await told.end(nodeId, local, to));
}

const namesIn = (local: string) => readdir(local, { withFileTypes: true, encoding: "buffer" });
type Names = Awaited<ReturnType<typeof namesIn>>;

/** Of one file: the others can go all the same. */
const LEFT_OUT: ReadonlySet<ErrorCode> = new Set(["already_exists", "is_directory"]);

class Descent {
  readonly #shell: Shell;
  readonly #report: Report;
  readonly #flags: UploadFlags;
  readonly #link: Link;
  readonly #told: TreeReport;

  constructor(shell: Shell, report: Report, flags: UploadFlags, link: Link, told: TreeReport) {
    this.#shell = shell;
    this.#report = report;
    this.#flags = flags;
    this.#link = link;
    this.#told = told;
  }

  /** Null, or the exit code of what was told. */
  async into({ nodeId, path, local }: Going, names: Names): Promise<number | null> {
    await this.#link.again((client) => client.call("node.fs.mkdir", { nodeId, path }));
    for (const entry of names.sort((one, other) => Buffer.compare(one.name, other.name))) {
      const name = entry.name.toString("utf8");
      const going = { nodeId, path: below(path, name), local: join(local, name) };
      if (!isUtf8(entry.name)) {
        await this.#told.leftOut(going.local, "its name is not valid UTF-8");
      } else if (entry.isDirectory()) {
        const inside = await this.#unlessUnreadable(going.local, () => namesIn(going.local));
        const failed = inside === null ? null : await this.into(going, inside);
        if (failed !== null) return failed;
      } else if (entry.isFile()) {
        const failed = await this.#file(going);
        if (failed !== null) return failed;
      } else {
        await this.#told.leftOut(going.local, entry.isSymbolicLink() ? "symlink" : "special");
      }
    }
    return null;
  }

  async #file({ nodeId, path, local }: Going): Promise<number | null> {
    await using source = await this.#unlessUnreadable(local, () => Source.open(local));
    if (source === null) return null;
    const upload = new Upload(this.#shell, this.#report, this.#flags, this.#link, nodeId, source);
    if (this.#flags.overwrite === true && (await upload.isThere(path))) {
      this.#told.wasThere();
      return null;
    }
    try {
      const put = await upload.run(await upload.at(path));
      if (typeof put === "number") return put;
      this.#told.went(put.size);
    } catch (error) {
      if (!(error instanceof LemonError) || error instanceof LocalFailure) throw error;
      if (!LEFT_OUT.has(error.code)) throw error;
      if (await upload.isThere(path)) this.#told.wasThere();
      else await this.#told.leftOut(local, `${error.code} and differs`);
    }
    return null;
  }

  /** Null: it was left out, and why was said. */
  async #unlessUnreadable<T>(local: string, look: () => Promise<T>): Promise<T | null> {
    try {
      return await look();
    } catch (error) {
      const why = error instanceof UsageError ? "special" : errnoOf(error);
      if (why === null) throw error;
      await this.#told.leftOut(local, why);
      return null;
    }
  }
}

async function isDirectory(link: Link, nodeId: string, path: string): Promise<boolean> {
  try {
    const { type } = await link.again((client) => client.call("node.fs.stat", { nodeId, path }));
    return type === "directory";
  } catch (error) {
    if (error instanceof LemonError && error.code === "not_found") return false;
    throw error;
  }
}
