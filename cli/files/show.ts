/** Owns `lemon fs ls | stat`: what is in a directory, and what is at a path. */
import type { ResultOf } from "../../protocol/methods.ts";
import { withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import { bytesText, pathText, printable, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { readPlace } from "./place.ts";

export interface ListFlags extends TargetFlags {
  readonly all?: boolean;
}

type Entry = ResultOf<"node.fs.list">["entries"][number];
type Stat = ResultOf<"node.fs.stat">;

export async function fsList(
  shell: Shell,
  report: Report,
  flags: ListFlags,
  where: string,
): Promise<number> {
  const { node, path } = readPlace(where);
  const listing = await withController(shell, report, flags, async (client) => {
    const { nodeId } = await selectNode(client, node);
    return client.call("node.fs.list", { nodeId, path, showHidden: flags.all === true });
  });
  await report.result(listing, () => table(listing.entries.map(row)));
  if (listing.truncated) {
    await report.message(`there are more: only the first ${listing.limit} by name are listed`);
  }
  return EXIT.ok;
}

export async function fsStat(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  where: string,
): Promise<number> {
  const { node, path } = readPlace(where);
  const stat = await withController(shell, report, flags, async (client) => {
    const { nodeId } = await selectNode(client, node);
    return client.call("node.fs.stat", { nodeId, path });
  });
  await report.result(stat, () => table(statLines(stat)));
  return EXIT.ok;
}

function row(entry: Entry): string[] {
  if ("error" in entry) return ["?", "", "", printable(entry.error), printable(entry.name)];
  const { type, mode, size, mtimeMs, name } = entry;
  return [typeLetter(type), modeText(mode), bytesText(size), timeText(mtimeMs), printable(name)];
}

function statLines(stat: Stat): string[][] {
  return [
    ["path", pathText(stat.path)],
    ["type", stat.type],
    ["size", `${stat.size} bytes`],
    ["modified", `${timeText(stat.mtimeMs)} (${stat.mtimeMs})`],
    ["mode", modeText(stat.mode)],
    ["mime", printable(stat.mime)],
    ["readable", stat.readable ? "yes" : "no"],
    ["writable", stat.writable ? "yes" : "no"],
  ];
}

/** As `ls -l` begins its lines (ls(1)). */
const LETTERS: Readonly<Record<Stat["type"], string>> = {
  regular: "-",
  directory: "d",
  symlink: "l",
  fifo: "p",
  socket: "s",
  character_device: "c",
  block_device: "b",
  unknown: "?",
};

function typeLetter(type: Stat["type"]): string {
  return LETTERS[type];
}

function modeText(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}

/** A file may bear a time that no calendar has. */
function timeText(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "unknown" : date.toISOString();
}
