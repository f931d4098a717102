/**
 * Owns what a kind of job declares (host-agent contract, "Per-job declared attributes") and what its work
 * is given.
 *
 * 1. Every attribute is required by the type AND checked at the start; there are no defaults.
 * 2. A credential in a request is bytes from `read` on. They are zeroed when the job has ended, however it
 *    ended, and are in no record, log or answer.
 */
import type { JobResult, LogStream } from "./messages.ts";

export const RESOURCE_CLASSES = ["apt", "disk", "systemd", "network", "none"] as const;
/** Two jobs of one class never run at the same time; those of class `none` do not wait for each other. */
export type ResourceClass = (typeof RESOURCE_CLASSES)[number];

/**
 * How long a running job may show no progress: a higher fraction, a line of its log, or output of a program. One
 * that shows none for longer is `stalled`, and is stopped.
 */
export type StallPolicy = { readonly noProgressMs: number } | "none";

/** What a start meets while a job of the same kind has not ended: it waits, or is refused (`job-running`). */
export type WhenBusy = "queue" | "reject";

export interface JobAttributes {
  /** As in `POST /v1/jobs/{name}`: lower case letters, digits and `-`. */
  readonly name: string;
  /** From the first step on. One that takes longer is `stalled`, and is stopped. Above 0. */
  readonly maxDurationMs: number;
  /** It waits until nothing runs, and nothing runs beside it. */
  readonly dangerous: boolean;
  readonly resourceClass: ResourceClass;
  readonly stallPolicy: StallPolicy;
  readonly whenBusy: WhenBusy;
}

export interface JobKind<Request> extends JobAttributes {
  /**
   * Makes the request of a body that the route's schema has accepted; credentials become bytes. Errors: a
   * `HostAgentError`, and no job comes of it.
   */
  readonly read: (body: unknown) => Request;
  /** All credentials in a request: what is to be zeroed. */
  readonly credentials: (request: Request) => readonly Uint8Array[];
  /**
   * The work. Resolves with the job's `result`; a `HostAgentError` that it throws is the job's `error`,
   * anything else is told as `job-failed`. It has ended when it settles: until then nothing of the same
   * class is started, so it settles soon after `signal` is aborted, and not before all it did has ended.
   */
  readonly run: (context: JobContext<Request>) => Promise<JobResult>;
}

export interface JobContext<Request> extends JobTools {
  readonly request: Request;
}

/** Plain functions: a kind may take them out of the object. */
export interface JobTools {
  /** Aborted when the job is to stop: cancelled, stalled, or the agent ends. */
  readonly signal: AbortSignal;
  /** How much is done, 0 to 1. One that is lower than before, or no number, is passed over. */
  readonly progress: (fraction: number) => void;
  /** Appends a line to the job's log, whatever characters are in it. Never a credential. */
  readonly log: (stream: LogStream, line: string) => void;
  /**
   * Runs a program to its end, all that it started included; its output goes into the log, line by line.
   * When the job is to stop the whole group has SIGTERM, and 10 s later SIGKILL. Errors:
   * `executable_not_found`, `permission_denied`, `argument_list_too_long`, `spawn_failed` (`LemonError`), and
   * the signal's reason once the job is to stop.
   */
  readonly spawn: (command: JobCommand) => Promise<JobExit>;
}

export interface JobCommand {
  /** The program, an absolute path or a name in PATH, and its arguments. */
  readonly argv: readonly [string, ...string[]];
  /** What it reads, followed by end of file. Default: nothing. It is the caller's to zero. */
  readonly stdin?: Uint8Array;
  /** Beside what every program is given (PATH, LANG, …). */
  readonly environment?: Readonly<Record<string, string>>;
}

export interface JobExit {
  /** As a shell has it: 128 + N for a death by signal N. */
  readonly exitCode: number;
}
