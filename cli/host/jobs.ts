/** Owns `lemon host jobs`, and how a job is shown. */
import type { JobView } from "../../protocol/host-agent/job.ts";
import { EXIT } from "../exit.ts";
import { printable, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { type HostFlags, withHost } from "./socket.ts";

export async function hostJobs(shell: Shell, report: Report, flags: HostFlags): Promise<number> {
  const list = await withHost(shell, flags, (host) => host.call("jobList"));
  await report.result(list, () =>
    list.jobs.length === 0
      ? "The host-agent knows no job.\n"
      : table([["ID", "KIND", "STATUS", "STARTED"], ...list.jobs.map(row)]),
  );
  return EXIT.ok;
}

function row(job: JobView): string[] {
  return [printable(job.job_id), printable(job.kind), statusText(job), job.started_at ?? "-"];
}

/** `running, 42 %`, `queued, 2nd in line` and the like. */
export function statusText({ status, progress, queue_position, error }: JobView): string {
  if (status === "queued" && queue_position !== undefined)
    return `queued, position ${queue_position}`;
  if (error !== undefined) return `${status} (${printable(error.code)})`;
  const isUnderWay = status === "running" || status === "cancelling";
  return isUnderWay && progress !== undefined
    ? `${status}, ${Math.floor(progress * 100)} %`
    : status;
}
