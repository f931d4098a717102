/** What long work on the host is given by the job that runs it: its log, its progress, and the order to stop. */

export interface Work {
  /** Aborted when the job is cancelled or over its time: stop, and undo what is half done. */
  readonly signal: AbortSignal;
  /** From 0 to 1. */
  progress(fraction: number): void;
  log(stream: "stdout" | "stderr", line: string): void;
  /** Runs a program in the job's own process group, its output in the job's log. Resolves to its exit code. */
  run(argv: readonly [string, ...string[]], options?: WorkRunOptions): Promise<number>;
}

export interface WorkRunOptions {
  readonly environment?: Readonly<Record<string, string>>;
  /** Written to its standard input, then closed. */
  readonly input?: Uint8Array;
}

/** Kept as the job's `result`; no secret in it. */
export type WorkResult = Readonly<Record<string, unknown>>;

/** Images to change to; both null is the whole system. */
export interface UpdateTarget {
  readonly brainImage: string | null;
  readonly uiImage: string | null;
}

export interface Updates {
  /** Errors: `update-failed`, and what it says. */
  run(target: UpdateTarget, work: Work): Promise<WorkResult>;
}

/** Data drives. Whoever asks for one of these was verified before. */
export interface Drives {
  enroll(device: string, work: Work): Promise<WorkResult>;
  eject(work: Work): Promise<WorkResult>;
}
