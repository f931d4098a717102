/** Owns `lemon fs get`: a file, or with `-r` a directory, and what is told of it in the end. */
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { EXIT, UsageError } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import { bytesText, pathText } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { regularFile } from "./chunks.ts";
import { fetchFile } from "./fetch.ts";
import { fetchTree } from "./get-tree.ts";
import { Link } from "./link.ts";
import { nameOf, readPlace } from "./place.ts";

export interface GetFlags extends TargetFlags {
  readonly recursive?: boolean;
}

export async function fsGet(
  shell: Shell,
  report: Report,
  flags: GetFlags,
  from: string,
  to: string | undefined,
): Promise<number> {
  const place = readPlace(from);
  const local = await localPath(shell, to ?? ".", nameOf(place.path));
  const link = await Link.open(shell, report, flags);
  try {
    const { nodeId } = await selectNode(link.client, place.node);
    if (flags.recursive === true) {
      return await fetchTree(shell, report, link, { nodeId, path: place.path, local });
    }
    const file = await regularFile(link, nodeId, place.path);
    const resumedAt = await fetchFile(shell, report, link, nodeId, file, local);
    const document = { nodeId, path: file.path, local, size: file.size, resumedAt };
    await report.result(document, () => `${pathText(local)}: ${bytesText(file.size)}\n`);
    return EXIT.ok;
  } finally {
    link.close();
  }
}

async function localPath(shell: Shell, to: string, name: string | null): Promise<string> {
  const path = resolve(shell.cwd, to);
  const found = await stat(path).catch(() => null);
  if (found === null && !to.endsWith("/")) return path;
  if (found !== null && !found.isDirectory()) return path;
  if (name === null) throw new UsageError("name the file that it becomes here");
  return join(path, name);
}
