/** Owns `lemon host status`: what the host-agent says of its machine. */
import { EXIT } from "../exit.ts";
import { bytesText, durationText, printable, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { type HostFlags, socketPath, withHost } from "./socket.ts";

export async function hostStatus(shell: Shell, report: Report, flags: HostFlags): Promise<number> {
  const answer = await withHost(shell, flags, (host) => host.call("systemStatus"));
  await report.result(answer, () =>
    table([
      ["host-agent", printable(socketPath(shell, flags))],
      ["version", printable(answer.agent_version)],
      ["hostname", printable(answer.hostname)],
      ["up", durationText(answer.uptime_s * 1_000)],
      ["disk pressure", answer.disk_pressure ? "yes" : "no"],
      ...answer.disks.map(({ label, free_bytes, total_bytes }) => [
        `disk ${printable(label)}`,
        `${bytesText(free_bytes)} free of ${bytesText(total_bytes)}`,
      ]),
    ]),
  );
  return EXIT.ok;
}
