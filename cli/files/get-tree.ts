/**
 * Owns `lemon fs get -r`: a directory of a node, file by file, each whole and of one revision.
 *
 * 1. A name that a node tells is one name: nothing it says leads out of the directory that is made here.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { LocalFailure } from "../exit.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { fetchFile } from "./fetch.ts";
import type { Link } from "./link.ts";
import { localFailure } from "./local.ts";
import { below } from "./place.ts";
import { TreeReport } from "./tree-report.ts";

/** As deep as a deletion goes (node-host-io.md). */
const DEEPEST = 64;

interface From {
  readonly nodeId: string;
  readonly path: string;
  readonly local: string;
}

export async function fetchTree(
  shell: Shell,
  report: Report,
  link: Link,
  from: From,
): Promise<number> {
  const told = new TreeReport(report);
  await descend(shell, report, link, from, told, 0);
  return await told.end(from.nodeId, from.path, from.local);
}

async function descend(
  shell: Shell,
  report: Report,
  link: Link,
  { nodeId, path, local }: From,
  told: TreeReport,
  depth: number,
): Promise<void> {
  if (depth > DEEPEST) {
    await told.leftOut(path, "too deep");
    return;
  }
  const listing = await link.again((client) =>
    client.call("node.fs.list", { nodeId, path, showHidden: true }),
  );
  await localFailure(() => mkdir(local, { recursive: true }));
  for (const entry of listing.entries) {
    if (!isName(entry.name)) throw new LemonError("invalid_remote_payload", HARMLESS);
    const from = { nodeId, path: below(listing.path, entry.name), local: join(local, entry.name) };
    if ("error" in entry) {
      await told.leftOut(from.path, entry.error);
    } else if (entry.type === "directory") {
      await unlessRefused(told, from.path, () =>
        descend(shell, report, link, from, told, depth + 1),
      );
    } else if (entry.type === "regular") {
      await unlessRefused(told, from.path, async () => {
        await fetchFile(shell, report, link, nodeId, { ...entry, path: from.path }, from.local);
        told.went(entry.size);
      });
    } else {
      await told.leftOut(from.path, entry.type);
    }
  }
  if (listing.truncated) await told.leftOut(listing.path, `all after its first ${listing.limit}`);
}

/** Of one entry: the others can come all the same. */
const LEFT_OUT: ReadonlySet<ErrorCode> = new Set([
  "permission_denied",
  "not_found",
  "not_directory",
  "path_not_allowed",
  "invalid_path",
  "not_regular",
  "is_directory",
]);

async function unlessRefused(
  told: TreeReport,
  path: string,
  fetch: () => Promise<void>,
): Promise<void> {
  try {
    await fetch();
  } catch (error) {
    if (!(error instanceof LemonError) || error instanceof LocalFailure) throw error;
    if (!LEFT_OUT.has(error.code)) throw error;
    await told.leftOut(path, error.code);
  }
}

const HARMLESS = { retrySafe: true, mutationMayHaveApplied: false } as const;

function isName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[/\0]/.test(name);
}
