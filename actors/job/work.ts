/**
 * Owns the work of one job, from its first step to its end. Invariants:
 *
 * 1. It has ended when the kind's `run` has settled and every program that it started has ended: not before.
 * 2. The final result wins: work that was told to stop and comes to its result before it has to be killed is
 *    `completed`.
 * 3. Over its time, or without progress for longer than its kind allows, it is `stalled`, and is stopped.
 * 4. Its credentials are zeroed when it has ended, however it ended.
 */
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { Command, type CommandEnd, type CommandGround, STOP_GRACE_MS } from "./command.ts";
import type { JobCommand, JobExit, JobTools } from "./kind.ts";
import type { JobLog } from "./log.ts";
import type { JobResult } from "./messages.ts";
import type { PreparedJob, RegisteredKind } from "./registry.ts";
import { failedWith, type JobEnd } from "./state.ts";

/** Why a job is stopped: somebody cancelled it, it stalled, or the agent ends. */
export type StopCause = "cancelled" | "stalled" | "agent";

export interface WorkParts {
  readonly kind: RegisteredKind;
  readonly prepared: PreparedJob;
  readonly output: JobLog;
  readonly ground: CommandGround;
}

/** A result is kept for ever: longer ones are not. */
const RESULT_LIMIT_BYTES = 65_536;

export class Work {
  readonly ended: Promise<JobEnd>;
  readonly #parts: WorkParts;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #abort = new AbortController();
  readonly #commands = new Set<Command>();
  /** Calls of `spawn` that are under way: of what is being started, of what runs. */
  readonly #spawns = new Set<Promise<JobExit>>();
  #cause: StopCause | null = null;
  /** A program of it had to be killed. */
  #killed = false;
  #over = false;
  #progress: number | null = null;
  /** Monotonic time of its last sign of progress. */
  #aliveAtMs: number;
  readonly #timers = new Map<"limit" | "stall" | "stop", CancelTimer>();

  /** The work begins at once. */
  constructor(parts: WorkParts) {
    this.#parts = parts;
    this.#clock = parts.ground.clock;
    this.#log = parts.ground.log;
    this.#aliveAtMs = this.#clock.monotonicMs();
    this.ended = this.#run();
  }

  get progress(): number | null {
    return this.#progress;
  }

  /** Why it is being stopped; null while it is not. */
  get cause(): StopCause | null {
    return this.#cause;
  }

  /** Tells it to stop; the first cause counts. */
  stop(cause: StopCause): void {
    if (this.#over || this.#cause !== null) return;
    this.#cause = cause;
    this.#abort.abort();
    for (const command of this.#commands) command.stop();
    this.#after("stop", STOP_GRACE_MS, () => {
      // What runs in this process can not be killed: nothing else of its class begins until it has ended.
      if (this.#commands.size === 0) this.#log.warn("a job does not end though it was told to");
    });
  }

  async #run(): Promise<JobEnd> {
    const { kind, prepared } = this.#parts;
    this.#after("limit", kind.maxDurationMs, () => this.stop("stalled"));
    if (kind.stallPolicy !== "none") this.#watchProgress(kind.stallPolicy.noProgressMs);
    let end: JobEnd;
    try {
      end = await this.#outcome(prepared);
    } finally {
      this.#over = true;
      prepared.wipe();
    }
    for (const command of this.#commands) command.stop();
    await Promise.allSettled(this.#spawns);
    for (const cancel of this.#timers.values()) cancel();
    return end;
  }

  async #outcome(prepared: PreparedJob): Promise<JobEnd> {
    try {
      const result = await prepared.run(this.#tools());
      if (this.#cause !== null && this.#killed) return stoppedBy(this.#cause);
      return { status: "completed", result: this.#kept(result), error: null };
    } catch (failure) {
      if (this.#cause !== null) return stoppedBy(this.#cause);
      if (failure instanceof HostAgentError) return failedWith(failure);
      this.#log.error({ failure: nameOf(failure) }, "a job failed");
      return failedWith(new HostAgentError("job-failed"));
    }
  }

  /** As JSON has it, within its bound. */
  #kept(result: JobResult): JobResult {
    const text = JSON.stringify(result);
    if (Buffer.byteLength(text) <= RESULT_LIMIT_BYTES) return JSON.parse(text);
    this.#log.error("a job's result is too long to be kept");
    return {};
  }

  #tools(): JobTools {
    return {
      signal: this.#abort.signal,
      progress: (fraction) => this.#advance(fraction),
      log: (stream, line) => {
        this.#alive();
        this.#parts.output.append(stream, line);
      },
      spawn: (command) => this.#track(this.#spawn(command)),
    };
  }

  #advance(fraction: number): void {
    if (this.#over || !(fraction > (this.#progress ?? -1))) return;
    this.#alive();
    this.#progress = Math.min(1, fraction);
  }

  /** A kind that does not wait for its program has it waited for. */
  #track(spawn: Promise<JobExit>): Promise<JobExit> {
    this.#spawns.add(spawn);
    const forget = (): void => void this.#spawns.delete(spawn);
    spawn.then(forget, forget);
    return spawn;
  }

  async #spawn(command: JobCommand): Promise<JobExit> {
    this.#abort.signal.throwIfAborted();
    if (this.#over) throw new HostAgentError("job-failed");
    const started = await Command.start(this.#parts.ground, command, {
      line: (stream, text) => this.#parts.output.append(stream, text),
      heard: () => this.#alive(),
    });
    this.#commands.add(started);
    // It was told to stop while the program was being started.
    if (this.#cause !== null || this.#over) started.stop();
    const { exitCode, killed }: CommandEnd = await started.ended.finally(() =>
      this.#commands.delete(started),
    );
    this.#killed ||= killed;
    this.#alive();
    return { exitCode };
  }

  #alive(): void {
    this.#aliveAtMs = this.#clock.monotonicMs();
  }

  #watchProgress(noProgressMs: number): void {
    const look = (): void => {
      const leftMs = this.#aliveAtMs + noProgressMs - this.#clock.monotonicMs();
      if (leftMs <= 0) this.stop("stalled");
      else this.#after("stall", leftMs, look);
    };
    look();
  }

  #after(timer: "limit" | "stall" | "stop", delayMs: number, fire: () => void): void {
    this.#timers.set(timer, this.#clock.after(delayMs, fire));
  }
}

/** The end of a job that was stopped for this cause. */
export function stoppedBy(cause: StopCause): JobEnd {
  switch (cause) {
    case "cancelled":
      return { status: "cancelled", result: null, error: null };
    case "stalled":
      return { status: "stalled", result: null, error: new HostAgentError("stalled").refusal };
    case "agent": {
      const message = "host-agent ended while the job ran; the job was stopped";
      const error = new HostAgentError("agent-restarted", { message }).refusal;
      return { status: "cancelled", result: null, error };
    }
  }
}

/** What was thrown, without what it says. */
function nameOf(failure: unknown): string {
  return failure instanceof Error ? failure.name : typeof failure;
}
