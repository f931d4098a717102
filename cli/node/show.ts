/** Owns `lemon node show`: one node, its machine, and how many of its process ids are spent. */
import type { Client } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { bytesText, counted, durationText, printable, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { lastSeenText } from "./list.ts";
import { selectNode } from "./select.ts";

/** From this share of its spent ids on a node needs a successor. */
const RECEIPTS_WARN_SHARE = 0.9;

type Description = ResultOf<"node.describe">;
type Host = ResultOf<"node.host.info"> | { readonly error: string };

export async function nodeShow(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string,
): Promise<number> {
  const { node, host } = await withController(shell, report, flags, async (client) => {
    const { nodeId } = await selectNode(client, selector);
    const [node, host] = await Promise.all([
      client.call("node.describe", { nodeId }),
      hostOf(client, nodeId),
    ]);
    return { node, host };
  });
  await report.result({ ...node, host }, () => table(lines(node, host)));
  const warning = receiptsWarning(node.metadata.receipts);
  if (warning !== null) await report.message(warning);
  return EXIT.ok;
}

/** The machine's facts, or the classification of why there are none: the node may well be offline. */
async function hostOf(client: Client, nodeId: string): Promise<Host> {
  try {
    return await client.call("node.host.info", { nodeId });
  } catch (error) {
    if (error instanceof LemonError) return { error: error.code };
    throw error;
  }
}

export function receiptsWarning(receipts: Description["metadata"]["receipts"]): string | null {
  if (receipts === null || receipts.retained < receipts.limit * RECEIPTS_WARN_SHARE) return null;
  const left = Math.max(0, receipts.limit - receipts.retained);
  return `warning: ${counted(left, "process id")} left on this node; spent ids are never freed: join another node`;
}

function lines(node: Description, host: Host): string[][] {
  const { metadata } = node;
  const unknown = "unknown";
  const receipts =
    metadata.receipts === null
      ? unknown
      : `${metadata.receipts.retained}/${metadata.receipts.limit} process ids spent`;
  return [
    ["name", printable(node.name)],
    ["id", printable(node.nodeId)],
    ["type", printable(node.type)],
    ["status", metadata.revoked === true ? `${node.status}, revoked` : node.status],
    ["last seen", lastSeenText(node.lastSeenMs, Date.now())],
    ["joined", dateText(node.pairedAtMs)],
    ["generation", String(metadata.generation ?? unknown)],
    ["version", printable(metadata.lemonVersion ?? unknown)],
    ["receipt store", printable(metadata.receiptStore ?? unknown)],
    ["receipts", receipts],
    ["host io", hostIoText(metadata.hostIo)],
    ["capabilities", capabilitiesText(node)],
    ...hostLines(host),
  ];
}

/** How its calls for files, processes and secrets ended, all of them together. */
function hostIoText(methods: Description["metadata"]["hostIo"]): string {
  if (methods === null || methods === undefined) return "unknown";
  let [done, refused, uncertain] = [0, 0, 0];
  for (const counts of Object.values(methods)) {
    done += counts.done;
    refused += counts.refused;
    uncertain += counts.unknown;
  }
  return `${done} done, ${refused} refused, ${uncertain} unknown since its worker began`;
}

/** A peer may name a time that no calendar has. */
function dateText(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "unknown" : date.toISOString();
}

function capabilitiesText({ capabilities }: Description): string {
  const names = Object.keys(capabilities).sort();
  return names.length === 0 ? "none" : names.map((name) => printable(name)).join(" ");
}

function hostLines(host: Host): string[][] {
  if ("error" in host) return [["host", `not available (${printable(host.error)})`]];
  return [
    ["host", printable(`${host.hostname}, ${host.os} ${host.osVersion}, ${host.arch}`)],
    ["cpus", String(host.cpuCount)],
    ["memory", `${bytesText(host.memFreeBytes)} free of ${bytesText(host.memTotalBytes)}`],
    ["disk", `${bytesText(host.diskFreeBytes)} free of ${bytesText(host.diskTotalBytes)}`],
    ["up", durationText(host.uptimeSec * 1_000)],
    ["user", printable(host.user)],
    ["default cwd", printable(host.defaultCwd)],
  ];
}
