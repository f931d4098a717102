/** Owns `lemon host job`: one job, and its output while it runs. */
import type { JobView } from "../../protocol/host-agent/job.ts";
import { EXIT } from "../exit.ts";
import { printable, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { follow } from "./follow.ts";
import { statusText } from "./jobs.ts";
import { type HostFlags, withHost } from "./socket.ts";

export interface FollowFlags extends HostFlags {
  readonly follow?: true;
}

const EXIT_OF: Readonly<Partial<Record<JobView["status"], number>>> = {
  failed: EXIT.failure,
  stalled: EXIT.unknown,
  outcome_unknown: EXIT.unknown,
  cancelled: EXIT.cancelled,
};

export async function hostJob(
  shell: Shell,
  report: Report,
  flags: FollowFlags,
  id: string,
): Promise<number> {
  return await withHost(shell, flags, async (host) => {
    const job = await host.job(id);
    if (flags.follow) await follow(shell, report, (signal) => job.log({ signal }));
    const view = flags.follow ? await job.read() : job.view;
    if (flags.follow && !report.json) await report.message(`${view.job_id}: ${statusText(view)}`);
    else await report.result(view, () => table(lines(view)));
    return EXIT_OF[view.status] ?? EXIT.ok;
  });
}

function lines(view: JobView): string[][] {
  const { job_id, kind, started_at, finished_at, error, result } = view;
  return [
    ["job", printable(job_id)],
    ["kind", printable(kind)],
    ["status", statusText(view)],
    ...(started_at === undefined ? [] : [["started", started_at]]),
    ...(finished_at === undefined ? [] : [["finished", finished_at]]),
    ...(error === undefined ? [] : [["error", printable(error.message)]]),
    ...(result === undefined ? [] : [["result", printable(JSON.stringify(result), 2_000)]]),
  ];
}
