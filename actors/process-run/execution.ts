/**
 * Owns one execution, from a started program to the last byte and the last descendant.
 *
 * 1. The exit that is told was observed. A run that ended by itself while it was being stopped has
 *    completed; only too much output always reads as stopped, since whether the program was quicker to
 *    exit than we to read is chance. The exit that it then made by itself is none of a stopped run, and is
 *    not told: a 0 would read as success though output is missing.
 * 2. What the program leaves running may still write until it has been silent for a moment; then it is
 *    ended, too.
 * 3. However it ends, nothing of it holds a descriptor here afterwards.
 */
import type { Clock } from "../../host/clock.ts";
import type { Exit } from "../../host/native/wait.ts";
import {
  KILL_AT_ONCE,
  type NativeProcess,
  type Spawner,
  type SpawnSpec,
} from "../../host/spawner.ts";
import { Output } from "./output.ts";

export interface ExecutionSpec extends SpawnSpec {
  readonly timeoutMs: number;
  /** For stdout and stderr together. */
  readonly maxOutputBytes: number;
}

type StopCause = "cancel" | "timeout" | "overflow";

export interface ExecutionEnd {
  /** `exited`: by itself. */
  readonly cause: "exited" | StopCause;
  /** 128 + N for a death by signal N; null when no end was observed that goes with the cause. */
  readonly exitCode: number | null;
  readonly stdout: Uint8Array<ArrayBuffer>;
  readonly stderr: Uint8Array<ArrayBuffer>;
  /** Something that was written, or still could be, is not in them. */
  readonly outputTruncated: boolean;
  /** A descendant of it could not be ended. */
  readonly leftBehind: boolean;
}

/** What holds the streams after the program's exit may be silent this long. */
const SILENT_MS = 250;
/** How long a killed program may take to die; only uninterruptible sleep takes longer. */
const DEATH_WITHIN_MS = 1_500;
/** How long the streams may take to end once all that wrote to them is gone. */
const STREAMS_WITHIN_MS = 500;
const SIGKILL = 9;

export class Execution {
  /** Rejects with `process_stop_failed` when the system refused to stop it: it may still run. */
  readonly ended: Promise<ExecutionEnd>;
  readonly #process: NativeProcess;
  readonly #output: Output;
  readonly #clock: Clock;
  #cause: StopCause | undefined;
  #exited = false;
  /** What it left running gets no more time. */
  readonly #hurry = Promise.withResolvers<void>();
  /** Null: it was killed and did not die. Rejects when it could not be killed. */
  readonly #givenUp = Promise.withResolvers<null>();
  #cancelDeathTimer = (): void => {};

  /** Starts the program. Errors, with nothing started: those of `Spawner.start`. */
  static async start(spawner: Spawner, spec: ExecutionSpec, clock: Clock): Promise<Execution> {
    const output = new Output(spec.maxOutputBytes, clock);
    return new Execution(await spawner.start(spec, output), output, spec.timeoutMs, clock);
  }

  private constructor(process: NativeProcess, output: Output, timeoutMs: number, clock: Clock) {
    this.#process = process;
    this.#output = output;
    this.#clock = clock;
    this.ended = this.#follow(timeoutMs);
    void output.overflowed.then(() => this.#stop("overflow"));
  }

  /** Stops it; `ended` tells what came of that. */
  cancel(): void {
    this.#stop("cancel");
  }

  #stop(cause: StopCause): void {
    this.#hurry.resolve();
    if (this.#exited || this.#cause !== undefined) return;
    this.#cause = cause;
    this.#process.stop(KILL_AT_ONCE).then(
      () => {
        this.#cancelDeathTimer = this.#clock.after(DEATH_WITHIN_MS, () =>
          this.#givenUp.resolve(null),
        );
      },
      (failure: unknown) => this.#givenUp.reject(failure),
    );
  }

  async #follow(timeoutMs: number): Promise<ExecutionEnd> {
    const cancelTimeout = this.#clock.after(timeoutMs, () => this.#stop("timeout"));
    try {
      const exit = await Promise.race([this.#process.exited, this.#givenUp.promise]);
      this.#exited = exit !== null;
      const leftBehind = exit === null ? true : !(await this.#windUp());
      return this.#tell(exit, leftBehind);
    } finally {
      cancelTimeout();
      this.#cancelDeathTimer();
      this.#process.release();
    }
  }

  /** After the exit: hears out and ends what is left. False when something could not be ended. */
  async #windUp(): Promise<boolean> {
    await Promise.race([this.#output.quiet(SILENT_MS), this.#hurry.promise]);
    const cleared = await this.#process.clear();
    if (!this.#output.hasOverflowed) await this.#output.endedWithin(STREAMS_WITHIN_MS);
    return cleared;
  }

  #tell(exit: Exit | null, leftBehind: boolean): ExecutionEnd {
    const cause = this.#causeOf(exit);
    const isItsEnd = exit !== null && (cause === "exited" || this.#wasKilled(exit));
    return {
      cause,
      exitCode: isItsEnd ? (exit.code ?? 128 + (exit.signal ?? 0)) : null,
      stdout: this.#output.take("stdout"),
      stderr: this.#output.take("stderr"),
      outputTruncated: !this.#output.complete,
      leftBehind,
    };
  }

  #causeOf(exit: Exit | null): ExecutionEnd["cause"] {
    if (this.#output.hasOverflowed) return "overflow";
    if (this.#cause === undefined) return "exited";
    return exit === null || this.#wasKilled(exit) ? this.#cause : "exited";
  }

  /** By us, as far as can be told. */
  #wasKilled({ signal }: Exit): boolean {
    return this.#cause !== undefined && signal === SIGKILL;
  }
}
