/** Owns `lemon host logs`: the output of one container. */
import { EXIT } from "../exit.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { follow } from "./follow.ts";
import { type HostFlags, withHost } from "./socket.ts";

export async function hostLogs(
  shell: Shell,
  report: Report,
  flags: HostFlags,
  container: string,
): Promise<number> {
  return await withHost(shell, flags, async (host) => {
    await follow(shell, report, (signal) =>
      host.stream("journalFollow", { query: { container } }, { signal }),
    );
    return EXIT.ok;
  });
}
