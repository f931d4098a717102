/** The output of containers, as the journal keeps it. */
import type { LogFrame } from "../../protocol/host-agent/job.ts";

export type JournalLine = Exclude<LogFrame, { lost: true }>;

export interface Journal {
  /**
   * The container's last 100 lines, then its output as it comes. Ending the iteration ends whatever reads the
   * journal. Errors: `logs-unsupported`, `journal-follow-failed`.
   */
  follow(container: string, signal: AbortSignal): AsyncIterable<JournalLine>;
}
