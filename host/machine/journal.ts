/** The output of containers, as the journal keeps it. */
import type { LogFrame } from "../../protocol/host-agent/job.ts";

export type JournalLine = Exclude<LogFrame, { lost: true }>;

export interface Journal {
  /**
   * The container's last 100 lines unless they were read before (`resumed`), then its output as it comes. Resolves
   * when the source has begun; it ends when `signal` is aborted. Errors: `logs-unsupported`, `journal-follow-failed`.
   */
  follow(
    container: string,
    how: { readonly resumed: boolean; readonly signal: AbortSignal },
  ): Promise<AsyncIterable<JournalLine>>;
}
