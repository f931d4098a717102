/** Owns `lemon fs put`: a file, or with `-r` a directory, and what is told of it in the end. */
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { EXIT } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import { bytesText, pathText } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { Link } from "./link.ts";
import { readPlace } from "./place.ts";
import { putTree } from "./put-tree.ts";
import { asNamed, Source } from "./source.ts";
import { Upload, type UploadFlags } from "./upload.ts";

export interface PutFlags extends TargetFlags, UploadFlags {
  readonly recursive?: boolean;
}

export async function fsPut(
  shell: Shell,
  report: Report,
  flags: PutFlags,
  from: string,
  to: string,
): Promise<number> {
  const place = readPlace(to);
  const local = resolve(shell.cwd, from);
  const isTree = flags.recursive === true && (await asNamed(() => stat(local))).isDirectory();
  // What can not be read is told before anything is asked.
  await using source = isTree ? null : await Source.named(local);
  const link = await Link.open(shell, report, flags);
  try {
    const { nodeId } = await selectNode(link.client, place.node);
    if (source === null) {
      return await putTree(shell, report, flags, link, { nodeId, path: place.path, local });
    }
    const upload = new Upload(shell, report, flags, link, nodeId, source);
    const put = await upload.run(await upload.into(place.path));
    if (typeof put === "number") return put;
    const text = `${pathText(put.path)}: ${bytesText(put.size)}\n`;
    await report.result({ nodeId, ...put }, () => text);
    return EXIT.ok;
  } finally {
    link.close();
  }
}
