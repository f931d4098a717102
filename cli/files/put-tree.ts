/** Owns `lemon fs put -r`: a directory of ours, file by file, each whole or not at all. */
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { LemonError } from "../../protocol/errors.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { Link } from "./link.ts";
import { localFailure } from "./local.ts";
import { below } from "./place.ts";
import { type Going, type PutFlags, putFile } from "./put.ts";
import { TreeReport } from "./tree-report.ts";

export async function putTree(
  shell: Shell,
  report: Report,
  flags: PutFlags,
  link: Link,
  { nodeId, path, local }: Going,
): Promise<number> {
  const told = new TreeReport(report);
  const isThere = await isDirectory(link, nodeId, path);
  const to = isThere ? below(path, basename(local)) : path;
  const failed = await descend(shell, report, flags, link, { nodeId, path: to, local }, told);
  return failed ?? (await told.end(nodeId, local, to));
}

/** Null, or the exit code of what was told. */
async function descend(
  shell: Shell,
  report: Report,
  flags: PutFlags,
  link: Link,
  { nodeId, path, local }: Going,
  told: TreeReport,
): Promise<number | null> {
  await link.again((client) => client.call("node.fs.mkdir", { nodeId, path }));
  const entries = await localFailure(() => readdir(local, { withFileTypes: true }));
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const going = { nodeId, path: below(path, entry.name), local: join(local, entry.name) };
    if (entry.isDirectory()) {
      const failed = await descend(shell, report, flags, link, going, told);
      if (failed !== null) return failed;
    } else if (entry.isFile()) {
      const put = await putFile(shell, report, flags, link, going);
      if (typeof put === "number") return put;
      told.went(put.size);
    } else {
      await told.leftOut(going.local, entry.isSymbolicLink() ? "symlink" : "special");
    }
  }
  return null;
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
