/**
 * Owns a node's processes from before they can be served: it opens the receipt store, again while
 * that may help, and until then answers every call with why it is not open.
 *
 * 1. A store that is not open is an error for every call, reads included: never absence.
 * 2. A store whose witness can not be written any more serves no longer: only a new life of the worker
 *    can tell what the disk holds, and it is asked for (`failed`).
 * 3. A damaged store is not tried again: only joining under a new id helps (`receipt_store_damaged`).
 */
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { PROCESS_BOUNDS, type ProcessReceipt } from "../../protocol/process.ts";
import { REFUSALS } from "../../transport/receipts/health.ts";
import type { OpenReceiptStore } from "../../transport/receipts/receipt.ts";
import type { ProcessService } from "./service.ts";
import type { ProcessState } from "./state.ts";

/** Small live facts about the store, for the node's ping. */
export interface StoreFacts {
  readonly receipts: { readonly retained: number; readonly limit: number } | null;
  /** `ready`, or the classification that keeps the node from admitting work. */
  readonly receiptStore: string;
  readonly storeId: string | null;
  readonly storeSequence: number | null;
}

export interface OpeningOptions {
  readonly openStore: () => Promise<OpenReceiptStore<ProcessState>>;
  readonly startService: (store: OpenReceiptStore<ProcessState>) => Promise<ProcessService>;
  readonly clock: Clock;
  readonly log: Logger;
}

const RETRY_MS = { first: 500, longest: 15_000 } as const;

export class ProcessOpening implements Pick<ProcessService, "run" | "get" | "cancel"> {
  readonly #options: OpeningOptions;
  /** Rejects with `receipt_store_unavailable` when this life of the worker can serve no longer. */
  readonly failed: Promise<never>;
  readonly #fail: (failure: LemonError) => void;
  #store: OpenReceiptStore<ProcessState> | null = null;
  #service: ProcessService | null = null;
  #failure = new LemonError("receipt_store_unavailable");
  #cancelRetry: CancelTimer = () => {};
  #closed = false;

  constructor(options: OpeningOptions) {
    this.#options = options;
    const { promise, reject } = Promise.withResolvers<never>();
    // Whoever waits for it hears of it; nobody has to.
    promise.catch(() => {});
    this.failed = promise;
    this.#fail = reject;
  }

  /** Resolves after the first attempt, whatever came of it. */
  async begin(): Promise<void> {
    await this.#attempt(RETRY_MS.first);
  }

  async run(request: unknown): Promise<ProcessReceipt> {
    return await this.#open().run(request);
  }

  async get(request: unknown): Promise<ProcessReceipt> {
    return await this.#open().get(request);
  }

  async cancel(request: unknown): Promise<ProcessReceipt> {
    return await this.#open().cancel(request);
  }

  facts(): StoreFacts {
    const store = this.#store;
    if (store === null) {
      return {
        receipts: null,
        receiptStore: this.#failure.code,
        storeId: null,
        storeSequence: null,
      };
    }
    return {
      receipts: { retained: store.retained, limit: PROCESS_BOUNDS.retainedIds },
      receiptStore: store.condition === "serving" ? "ready" : REFUSALS[store.condition],
      storeId: store.storeId,
      storeSequence: store.lastWitnessedSequence,
    };
  }

  /** Takes no more runs; lets those under way finish until `hurry`, then cancels them. */
  /** Runs that a drain would wait for now. */
  get underWay(): number {
    return this.#service?.underWay ?? 0;
  }

  async drain(hurry: AbortSignal): Promise<void> {
    this.#cancelRetry();
    const service = this.#service;
    if (service === null) return;
    const now = (): Promise<void> => service.drain({ graceMs: 0 });
    if (hurry.aborted) return await now();
    const hurried = new Promise<void>((resolve, reject) => {
      hurry.addEventListener("abort", () => now().then(resolve, reject), { once: true });
    });
    await Promise.race([service.drain(), hurried]);
  }

  /** Lets go of the store; the service's actors end with their supervisor. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry();
    await this.#store?.close();
  }

  #open(): ProcessService {
    if (this.#service === null) throw this.#failure;
    return this.#service;
  }

  async #attempt(nextMs: number): Promise<void> {
    const { openStore, startService, clock, log } = this.#options;
    try {
      const store = await openStore();
      if (this.#closed) return await store.close();
      this.#store = store;
      store.watch(() => {
        if (store.condition === "failed") this.#fail(unwritable());
      });
      this.#service = await startService(store);
    } catch (failure) {
      if (!(failure instanceof LemonError)) throw failure;
      this.#failure = failure;
      const { code } = failure;
      log.error({ code, reason: failure.details["reason"] }, "the receipt store can not be opened");
      if (code === "receipt_store_damaged" || this.#closed) return;
      this.#cancelRetry = clock.after(nextMs, () => {
        void this.#attempt(Math.min(nextMs * 2, RETRY_MS.longest));
      });
    }
  }
}

function unwritable(): LemonError {
  return new LemonError("receipt_store_unavailable", {
    message:
      "The witness of the receipts can not be written any more, so this worker ended; look at the disk, and start it again",
  });
}
