/**
 * Owns a node's processes from before they can be served: it opens the receipt store, again while
 * that may help, and until then answers every call with why it is not open.
 *
 * 1. A store that is not open is an error for every call, reads included: never absence.
 * 2. A store whose witness can not be written any more serves no longer: only a new life of the worker
 *    can tell what the disk holds, and it is asked for (`failed`).
 * 3. A damaged store is not tried again: only joining under a new id helps (`receipt_store_damaged`).
 */
import { PROCESS_BOUNDS, type ProcessReceipt } from "../../protocol/process.ts";
import { REFUSALS } from "../../transport/receipts/health.ts";
import { StoreOpening, type StoreOpeningOptions } from "../../transport/receipts/opening.ts";
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

export type OpeningOptions = StoreOpeningOptions<ProcessState, ProcessService>;

const UNWRITABLE =
  "The witness of the receipts can not be written any more, so this worker ended; look at the disk, and start it again";

export class ProcessOpening implements Pick<ProcessService, "run" | "get" | "cancel"> {
  /** Rejects with `receipt_store_unavailable` when this life of the worker can serve no longer. */
  readonly failed: Promise<never>;
  readonly #opening: StoreOpening<ProcessState, ProcessService>;

  constructor(options: OpeningOptions) {
    this.#opening = new StoreOpening(options, UNWRITABLE);
    this.failed = this.#opening.failed;
  }

  /** Resolves after the first attempt, whatever came of it. */
  async begin(): Promise<void> {
    await this.#opening.begin();
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
    const { store, failure } = this.#opening;
    if (store === null) {
      return {
        receipts: null,
        receiptStore: failure.code,
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
    return this.#opening.service?.underWay ?? 0;
  }

  async drain(hurry: AbortSignal): Promise<void> {
    this.#opening.stopTrying();
    const { service } = this.#opening;
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
    await this.#opening.close();
  }

  #open(): ProcessService {
    const { service, failure } = this.#opening;
    if (service === null) throw failure;
    return service;
  }
}
