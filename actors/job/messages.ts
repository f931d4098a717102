/**
 * Owns the words between whoever starts jobs and the jobs (host-agent contract, "Pattern B" and "Pattern
 * C"; rulings, "Host-agent"). Errors of the calls are `HostAgentError`s.
 *
 * A job that is `stalled` and has no `finished_at` is being stopped, and may still turn out `completed`.
 */

import type { JobView, LogFrame } from "../../protocol/host-agent/job.ts";

/** Plain JSON, an object. */
export type JobResult = NonNullable<JobView["result"]>;

/** One line of a log; `line` without its line break, in whole characters. */
export type LogLine = Exclude<LogFrame, { lost: true }>;
export type LogStream = LogLine["stream"];

/** What stands for lines that can not be had any more. */
export const LOST = { lost: true } as const;

export interface Frame<Data> {
  /** Grows by one from 1 within a stream's source; a `lost` frame has the id of the last line that it stands for. */
  readonly id: number;
  readonly data: Data | typeof LOST;
}

/**
 * Frames for one reader, pulled: whoever does not ask is sent nothing, and what waits for it is bounded.
 */
export interface FrameReader<Data> {
  /**
   * At least one frame, as soon as there is one; null at the end of the stream, and after `close`. One call
   * at a time. Rejects with a `HostAgentError` when the source failed.
   */
  next(): Promise<readonly Frame<Data>[] | null>;
  /** Lets go of the source. Idempotent. */
  close(): void;
}

export interface Jobs {
  /**
   * Starts a job of `kind`, or has it wait; resolves when that is on disk. `body` is what the route's schema
   * made of the request. The same `idempotencyKey` (1 to 128 of the id alphabet) with the same kind and body
   * is the same job, also after a restart of the agent.
   * Errors: `job-running`, `idempotency-conflict`, what the kind's `read` throws, `too-many-jobs`,
   * `shutting-down`; `unavailable` when nothing was started, `timeout` when it may be.
   */
  start(kind: string, body: unknown, idempotencyKey: string | null): Promise<JobView>;
  /** Error: `unknown-job`. */
  get(jobId: string): Promise<JobView>;
  /** Those that have not ended, and the last 256 that have; the latest first. */
  list(): Promise<readonly JobView[]>;
  /**
   * One that waits is `cancelled` at once; one that runs is `cancelling` until it has ended; one that has
   * ended stays what it is. Error: `unknown-job`.
   */
  cancel(jobId: string): Promise<JobView>;
  /**
   * Its log behind `lastEventId` (null: from the first line that is kept), then what is added, until the job
   * has ended. Lines in between that are gone make one `lost` frame. Error: `unknown-job`.
   */
  log(jobId: string, lastEventId: number | null): Promise<FrameReader<LogLine>>;
  /**
   * For the end of the agent: takes no more jobs, cancels those that wait (`agent-restarted`), lets those
   * that run go on until `hurry` or for 10 s, then stops them. Resolves when every end is on disk.
   */
  drain(hurry: AbortSignal): Promise<void>;
}
