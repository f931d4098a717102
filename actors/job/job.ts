/**
 * Owns one job from its admission to its stored end. Invariants:
 *
 * 1. That it started is on disk before its first step; its end is, before anybody is told of it.
 * 2. It is `settled` when nothing of it runs any more and its end is stored, or can not be in this life.
 * 3. One that never began reads `cancelled` now and after any crash: there is nothing to wait for.
 */
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { JobView } from "../../protocol/host-agent/job.ts";
import type { ActorSpec } from "../../supervision/actor.ts";
import type { OpenReceiptStore, Receipt } from "../../transport/receipts/receipt.ts";
import type { CommandGround } from "./command.ts";
import type { JobAttributes } from "./kind.ts";
import { JobLog } from "./log.ts";
import type { PreparedJob, RegisteredKind } from "./registry.ts";
import {
  CUT_OFF,
  ended,
  failedWith,
  type JobEnd,
  type JobState,
  NEVER_BEGUN,
  queued,
  started,
  viewOf,
} from "./state.ts";
import { type StopCause, stoppedBy, Work } from "./work.ts";

export type JobReceipts = Pick<OpenReceiptStore<JobState>, "admit" | "advance" | "read" | "ids">;

export interface JobParts {
  readonly id: string;
  readonly kind: RegisteredKind;
  readonly prepared: PreparedJob;
  readonly receipts: JobReceipts;
  readonly ground: CommandGround;
}

export class Job implements Pick<JobAttributes, "dangerous" | "resourceClass"> {
  readonly id: string;
  readonly kind: string;
  readonly dangerous: boolean;
  readonly resourceClass: JobAttributes["resourceClass"];
  readonly output: JobLog;
  readonly settled: Promise<void>;
  readonly #parts: JobParts;
  readonly #settle = Promise.withResolvers<void>();
  #state: JobState;
  #receipt: Receipt<JobState> | null = null;
  #run: Promise<void> | null = null;
  #work: Work | null = null;
  #stopCause: StopCause | null = null;

  constructor(parts: JobParts) {
    const { id, kind, ground } = parts;
    this.#parts = parts;
    this.id = id;
    this.kind = kind.name;
    this.dangerous = kind.dangerous;
    this.resourceClass = kind.resourceClass;
    this.output = new JobLog(ground.clock);
    this.#state = queued(kind.name, ground.clock.nowMs());
    this.settled = this.#settle.promise;
  }

  get state(): JobState {
    return this.#state;
  }

  get progress(): number | null {
    return this.#work?.progress ?? null;
  }

  /** Whether its admission is on disk. */
  get isAdmitted(): boolean {
    return this.#receipt !== null;
  }

  admitted(receipt: Receipt<JobState>): void {
    this.#receipt = receipt;
  }

  /** Its admission failed, or it is another job's: nothing of it is kept. */
  discard(): void {
    this.#parts.prepared.wipe();
    this.output.end();
    this.#settle.resolve();
  }

  /** It never begins. Its end is stored as soon as the store takes it. */
  cancelWaiting(by: "cancelled" | "agent"): void {
    this.#parts.prepared.wipe();
    const end = by === "cancelled" ? stoppedBy("cancelled") : NEVER_BEGUN;
    this.#state = ended(this.#state, end, this.#nowMs());
    this.output.end();
    this.#store(this.#state).then(this.#settle.resolve, this.#settle.resolve);
  }

  /** Tells what runs, or is about to, to stop. The first cause counts. */
  stop(cause: StopCause): void {
    this.#stopCause ??= cause;
    this.#work?.stop(cause);
  }

  /** Its turn has come: it is about to `run`. */
  begin(): void {
    this.#state = started(this.#state, this.#nowMs());
  }

  /** Resolves when it is settled. Rejects when its end can not be stored in this life. It runs once. */
  run(): Promise<void> {
    this.#run ??= this.#go();
    return this.#run;
  }

  async #go(): Promise<void> {
    try {
      const end = await this.#end();
      const state = ended(this.#state, end, this.#nowMs());
      await this.#store(state);
      this.#state = state;
    } catch (failure) {
      this.#state = ended(this.#state, CUT_OFF, null);
      throw failure;
    } finally {
      this.output.end();
      this.#settle.resolve();
    }
  }

  view(position: number | null): JobView {
    const view = viewOf(this.id, this.#state);
    const { progress } = this;
    return {
      ...view,
      ...(this.#state.phase === "started" ? { status: this.#liveStatus() } : {}),
      ...(position === null ? {} : { queue_position: position }),
      ...(progress === null ? {} : { progress }),
    };
  }

  #liveStatus(): JobView["status"] {
    const cause = this.#work === null ? this.#stopCause : this.#work.cause;
    if (cause === null) return "running";
    return cause === "stalled" ? "stalled" : "cancelling";
  }

  async #end(): Promise<JobEnd> {
    const { kind, prepared, ground, receipts } = this.#parts;
    try {
      if (this.#receipt === null) throw new HostAgentError("internal-error");
      this.#receipt = await receipts.advance(this.#receipt, this.#state);
    } catch {
      // Whether the start is on disk or not: nothing was done, and nothing will be.
      prepared.wipe();
      return failedWith(new HostAgentError("unavailable"));
    }
    if (this.#stopCause !== null) {
      prepared.wipe();
      return stoppedBy(this.#stopCause);
    }
    this.#work = new Work({ kind, prepared, output: this.output, ground });
    return await this.#work.ended;
  }

  /** Waits for the store as long as that takes. */
  async #store(state: JobState): Promise<void> {
    const { receipts } = this.#parts;
    let receipt = this.#receipt;
    // A start that was given up may have landed: then the end follows that.
    while (receipt !== null && receipt.state.phase !== "ended") {
      receipt = await receipts.advance(receipt, state);
    }
    this.#receipt = receipt;
  }

  #nowMs(): number {
    return this.#parts.ground.clock.nowMs();
  }
}

/** Has a stop of everything else, and the agent's own end, stop the job in order. */
const SHUTDOWN_MS = 15_000;

/** The actor of a job that runs; it ends with the job. */
export function jobActor(job: Job): ActorSpec<Record<never, never>> {
  return {
    id: job.id,
    kind: "job",
    restart: "temporary",
    shutdownMs: SHUTDOWN_MS,
    start(context) {
      job.run().then(context.end, context.crash);
      return {
        handlers: {},
        async stop() {
          job.stop("agent");
          await job.settled;
        },
      };
    },
  };
}
