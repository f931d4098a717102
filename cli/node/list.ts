/** Owns `lemon node list`. */
import { withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { durationText, printable, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import type { NodeRow } from "./select.ts";

export async function nodeList(shell: Shell, report: Report, flags: TargetFlags): Promise<number> {
  const list = await withController(shell, report, flags, (client) => client.call("node.list", {}));
  await report.result(list, () =>
    list.nodes.length === 0
      ? "No node is enrolled; join one with `lemon node join`.\n"
      : table([["NAME", "STATUS", "LAST SEEN", "ID"], ...list.nodes.map(row)]),
  );
  return EXIT.ok;
}

function row(node: NodeRow): string[] {
  return [
    printable(node.name),
    node.status,
    lastSeenText(node.lastSeenMs, Date.now()),
    printable(node.nodeId),
  ];
}

export function lastSeenText(lastSeenMs: number | null, nowMs: number): string {
  return lastSeenMs === null ? "never" : `${durationText(nowMs - lastSeenMs)} ago`;
}
