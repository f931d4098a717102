/** What long work on the host is given by the job that runs it: its log, its progress, and the order to stop. */

/** The job engine's own tools, as far as the host needs them. */
export interface Work {
  /** Aborted when the job is to stop: stop soon, and undo what is half done. */
  readonly signal: AbortSignal;
  /** From 0 to 1. */
  readonly progress: (fraction: number) => void;
  readonly log: (stream: "stdout" | "stderr", line: string) => void;
  /** Runs a program to its end in the job's own process group; its output goes into the job's log. */
  readonly spawn: (command: WorkCommand) => Promise<{ readonly exitCode: number | null }>;
}

export interface WorkCommand {
  readonly argv: readonly [string, ...string[]];
  /** What it reads, followed by end of file. */
  readonly stdin?: Uint8Array;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Kept as the job's `result`; no secret in it. */
export type WorkResult = Readonly<Record<string, unknown>>;

/** Images to change to; both null is the whole system. */
export interface UpdateTarget {
  readonly brainImage: string | null;
  readonly uiImage: string | null;
}

/** Work that is aborted rejects; with what is of no account then. */
export interface Updates {
  /** Errors: `update-unsupported`, `update-failed`. */
  run(target: UpdateTarget, work: Work): Promise<WorkResult>;
}

/** Data drives. Whoever asks for one of these was verified before. */
export interface Drives {
  /** Errors: `bad-request` for what is no drive of this host. */
  enroll(device: string, work: Work): Promise<WorkResult>;
  eject(work: Work): Promise<WorkResult>;
}
