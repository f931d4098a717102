/**
 * Owns what is under way on this node, across the lives of the actors: which runs are active (at most 16),
 * which ends the store has not taken yet, and the outputs of the last.
 *
 * 1. A slot is taken before the fence is written and given back when the process is gone, so that more
 *    than 16 never run and a refusal never spends the id.
 * 2. An end that was seen is in the store or waits here for it; it is never forgotten while the worker lives.
 */
import type { Clock } from "../../host/clock.ts";
import { PROCESS_BOUNDS, type ProcessReceipt } from "../../protocol/process.ts";
import type { Receipt, ReceiptStore } from "../../transport/receipts/receipt.ts";
import { OutputCache } from "./output-cache.ts";
import { readingOf } from "./receipt.ts";
import type { ProcessState } from "./state.ts";

/** The right to run one process; given back once. */
export interface Slot {
  release(): void;
}

/** What can be asked of an active run. */
export interface ActiveRun {
  cancel(): void;
  /** Settles when its end is stored; never before the process is gone. */
  readonly finished: Promise<unknown>;
}

export class Runs {
  readonly outputs: OutputCache;
  readonly #nodeId: string;
  readonly #store: ReceiptStore<ProcessState>;
  readonly #slots = new Set<Slot>();
  readonly #active = new Set<ActiveRun>();
  readonly #endings = new Map<string, Promise<Receipt<ProcessState>>>();
  #cancelling = false;
  #tellIdle: (() => void)[] = [];

  constructor(nodeId: string, store: ReceiptStore<ProcessState>, clock: Clock) {
    this.#nodeId = nodeId;
    this.#store = store;
    this.outputs = new OutputCache(clock);
  }

  /** Null when as many run as may. */
  takeSlot(): Slot | null {
    if (this.#slots.size >= PROCESS_BOUNDS.activeRuns) return null;
    const slot: Slot = {
      release: () => {
        this.#slots.delete(slot);
        this.#tellIfIdle();
      },
    };
    this.#slots.add(slot);
    return slot;
  }

  /** How many run, are about to, or have an end that is not stored yet. */
  get underWay(): number {
    return Math.max(this.#slots.size, this.#active.size);
  }

  /** Whether no further id can be spent. */
  get full(): boolean {
    return this.#store.retained >= PROCESS_BOUNDS.retainedIds;
  }

  /** Whether nothing is to be started any more. */
  get cancelling(): boolean {
    return this.#cancelling;
  }

  add(run: ActiveRun): void {
    this.#active.add(run);
    const forget = (): void => {
      this.#active.delete(run);
      this.#tellIfIdle();
    };
    run.finished.then(forget, forget);
  }

  /** Cancels what runs; from now on nothing is started. */
  cancelAll(): void {
    this.#cancelling = true;
    for (const run of this.#active) run.cancel();
  }

  /** Resolves when nothing runs or is about to, and every end is stored. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#tellIdle.push(resolve);
      this.#tellIfIdle();
    });
  }

  #tellIfIdle(): void {
    if (this.underWay > 0) return;
    for (const tell of this.#tellIdle.splice(0)) tell();
  }

  /** Stores the end of a run; waits for the store as long as that takes. Rejects when it will not take it in this life. */
  async end(receipt: Receipt<ProcessState>, state: ProcessState): Promise<Receipt<ProcessState>> {
    const ending = this.#store.advance(receipt, state);
    this.#endings.set(receipt.id, ending);
    try {
      return await ending;
    } finally {
      this.#endings.delete(receipt.id);
    }
  }

  /** The end of this id that waits to be stored. */
  ending(id: string): Promise<Receipt<ProcessState>> | undefined {
    return this.#endings.get(id);
  }

  /** Strict read. */
  async read(id: string): Promise<ProcessReceipt> {
    return this.reading(id, await this.#store.read(id));
  }

  reading(id: string, receipt: Receipt<ProcessState> | null): ProcessReceipt {
    return readingOf(this.#nodeId, id, receipt, this.outputs.get(id));
  }
}
