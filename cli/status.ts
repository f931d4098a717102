/** Owns `lemon status`: what the control plane says of itself. */
import type { ResultOf } from "../protocol/methods.ts";
import { withController } from "./dial.ts";
import { EXIT } from "./exit.ts";
import { counted, durationText, printable, table } from "./printable.ts";
import type { Report } from "./report.ts";
import type { Shell } from "./shell.ts";
import type { TargetFlags } from "./target.ts";

export async function status(shell: Shell, report: Report, flags: TargetFlags): Promise<number> {
  const { answer, url } = await withController(shell, report, flags, async (client, target) => ({
    answer: await client.call("status", {}),
    url: target.url,
  }));
  await report.result(answer, () => table(lines(answer, url)));
  return EXIT.ok;
}

function lines(answer: ResultOf<"status">, url: string): string[][] {
  const { server, connections, runs } = answer;
  const channels = answer.channels.configured;
  return [
    ["controller", printable(url)],
    ["version", printable(server.version)],
    ["up", durationText(server.uptime_ms)],
    ["memory", `${server.memory_mb.toFixed(0)} MB`],
    [
      "connections",
      `${connections.active}: ${counted(connections.operators, "operator")}, ${counted(connections.nodes, "node")}, ${counted(connections.devices, "device")}`,
    ],
    ["runs active", known(runs.active)],
    ["runs queued", known(runs.queued)],
    ["completed today", known(runs.completed_today)],
    ["failed today", known(runs.failed_today)],
    ...(channels.length === 0 ? [] : [["channels", channels.map((id) => printable(id)).join(" ")]]),
    ...Object.entries(answer.subsystems)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { status: state }]) => [printable(name), state]),
  ];
}

/** Null is unknown, never zero. */
function known(count: number | null): string {
  return count === null ? "unknown" : String(count);
}
