/**
 * Owns one run from its fence to its stored end.
 *
 * 1. It begins with an admission of its own, and starts its program at most once.
 * 2. Whatever happens, its end is given to the store once: an exit that was observed, `cancelled` when
 *    nothing was started or it was stopped here, `outcome_unknown` when neither can be told.
 * 3. It is finished when the store has that end; only then is it told as a receipt.
 */
import type { Logger } from "pino";
import { LemonError } from "../../protocol/errors.ts";
import type { ProcessReceipt } from "../../protocol/process.ts";
import type { Receipt } from "../../transport/receipts/receipt.ts";
import type { Execution, ExecutionEnd } from "./execution.ts";
import type { Launch } from "./launch.ts";
import type { Runs, Slot } from "./runs.ts";
import { CANCELLED, cancelled, completed, OUTCOME_UNKNOWN, type ProcessState } from "./state.ts";

/** What a run begins with. */
export interface RunBirth {
  readonly receipt: Receipt<ProcessState>;
  readonly slot: Slot;
  /** Is the run's from here on. */
  readonly launch: Launch;
  /** Nobody waits for it any more: it is stored as cancelled, and nothing is started. */
  readonly unwanted: boolean;
}

export interface RunEnd {
  /** Of the stored end. */
  readonly receipt: ProcessReceipt;
  /** Why nothing was started (the id is spent all the same), or `process_stop_failed`; else null. */
  readonly failure: unknown;
}

export class Run {
  /** Rejects with `process_outcome_unknown` when the store will not take the end in this life. */
  readonly finished: Promise<RunEnd>;
  /** Resolves when the process is gone, or given up. */
  readonly over: Promise<void>;
  readonly #runs: Runs;
  readonly #launch: Launch;
  readonly #log: Logger;
  readonly #over = Promise.withResolvers<void>();
  #execution: Execution | undefined;
  #cancelled: boolean;
  #abandoned = false;

  constructor(runs: Runs, birth: RunBirth, log: Logger) {
    this.#runs = runs;
    this.#launch = birth.launch;
    this.#log = log;
    this.#cancelled = birth.unwanted || runs.cancelling;
    this.over = this.#over.promise;
    this.finished = this.#go(birth.receipt, birth.slot);
    runs.add(this);
  }

  /** Stops it; `finished` tells what came of that. */
  cancel(): void {
    this.#cancelled = true;
    this.#execution?.cancel();
  }

  /** Stops it, and tells the outcome as unknown, whatever is seen of it: who watched over it failed. */
  abandon(): void {
    this.#abandoned = true;
    this.cancel();
  }

  async #go(receipt: Receipt<ProcessState>, slot: Slot): Promise<RunEnd> {
    const outcome = await this.#outcome();
    slot.release();
    this.#over.resolve();
    const state = this.#abandoned ? OUTCOME_UNKNOWN : outcome.state;
    const stored = await this.#store(receipt, state);
    const { end, failure } = outcome;
    if (end !== null) {
      const { stdout, stderr, outputTruncated: truncated } = end;
      this.#runs.outputs.put(receipt.id, { stdout, stderr, truncated });
    }
    return { receipt: this.#runs.reading(receipt.id, stored), failure };
  }

  async #store(
    receipt: Receipt<ProcessState>,
    state: ProcessState,
  ): Promise<Receipt<ProcessState>> {
    try {
      return await this.#runs.end(receipt, state);
    } catch (cause) {
      // It will not be stored in this life; the next one tells `outcome_unknown`.
      throw new LemonError("process_outcome_unknown", { cause });
    }
  }

  async #outcome(): Promise<Outcome> {
    try {
      if (this.#cancelled) this.#launch.discard();
      else this.#execution = await this.#launch.start();
    } catch (failure) {
      return mayHaveStarted(failure)
        ? { state: OUTCOME_UNKNOWN, end: null, failure }
        : { state: CANCELLED, end: null, failure: neverStarted(failure) };
    }
    if (this.#execution === undefined) return { state: CANCELLED, end: null, failure: null };
    if (this.#cancelled) this.#execution.cancel();
    try {
      const end = await this.#execution.ended;
      if (end.leftBehind) {
        this.#log.warn("something that a run started could not be ended and may still run");
      }
      return { state: stateOf(end), end, failure: null };
    } catch (failure) {
      return { state: OUTCOME_UNKNOWN, end: null, failure };
    }
  }
}

interface Outcome {
  readonly state: ProcessState;
  /** Null when nothing was started, or its end could not be followed. */
  readonly end: ExecutionEnd | null;
  readonly failure: unknown;
}

function stateOf({ cause, exitCode }: ExecutionEnd): ProcessState {
  return cause === "exited" && exitCode !== null ? completed(exitCode) : cancelled(exitCode);
}

function mayHaveStarted(failure: unknown): boolean {
  return !(failure instanceof LemonError) || failure.mutationMayHaveApplied;
}

const SPENT = "; the id is spent";

/** Nothing ran, but the fence was written: the same request will be told `cancelled`. */
function neverStarted(failure: unknown): unknown {
  if (!(failure instanceof LemonError)) return failure;
  const { code, message, wire, details } = failure;
  const cause = failure;
  return new LemonError(code, {
    message: message.endsWith(SPENT) ? message : `${message}${SPENT}`,
    wire,
    details,
    retrySafe: false,
    mutationMayHaveApplied: false,
    cause,
  });
}
