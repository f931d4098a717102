/** Owns `lemon host cancel`: a job is asked to stop; how it ended, `lemon host job` says. */
import { EXIT } from "../exit.ts";
import { printable } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { type HostFlags, withHost } from "./socket.ts";

export async function hostCancel(
  shell: Shell,
  report: Report,
  flags: HostFlags,
  id: string,
): Promise<number> {
  const answer = await withHost(shell, flags, (host) =>
    host.call("jobCancel", { params: { id }, body: {} }),
  );
  await report.result(answer, () => `${printable(answer.job_id)} is ${answer.status}\n`);
  return EXIT.ok;
}
