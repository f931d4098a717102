/** Owns the printing of a log as it comes: each line to the stream it was written to, until it ends or Ctrl-C. */
import { type Frame, HostAgentCallError } from "../../client/host-agent/index.ts";
import type { LogFrame } from "../../protocol/host-agent/job.ts";
import { printable } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";

/** The host sends lines of up to 1 MiB. */
const LONGEST_LINE = 1_048_576;

export async function follow(
  shell: Shell,
  report: Report,
  open: (signal: AbortSignal) => AsyncIterable<Frame<LogFrame>>,
): Promise<void> {
  const stop = new AbortController();
  const giveBack = shell.onSignal("SIGINT", () => stop.abort());
  try {
    for await (const { data } of open(stop.signal)) await print(shell, report, data);
  } catch (failure) {
    // To stop looking is no failure.
    if (!(failure instanceof HostAgentCallError) || failure.code !== "aborted") throw failure;
  } finally {
    giveBack();
  }
}

async function print(shell: Shell, report: Report, frame: LogFrame): Promise<void> {
  if (report.json) await report.result(frame, () => "");
  else if ("lost" in frame) await report.message("some lines are lost here");
  else await shell[frame.stream].write(`${printable(frame.line, LONGEST_LINE)}\n`);
}
