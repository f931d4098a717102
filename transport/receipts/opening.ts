/**
 * Owns the opening of a receipt store that others do not wait for: tried again while that may help, with the
 * service that stands on it started once it is open. Invariants:
 *
 * 1. Until then there is no service, and a reason why: whoever is asked answers with that, reads included.
 * 2. A store whose witness can not be written any more serves no longer: only a new life of the process can tell
 *    what the disk holds, and it is asked for (`failed`).
 * 3. A damaged store is not tried again.
 */
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { OpenReceiptStore } from "./receipt.ts";

export interface StoreOpeningOptions<State, Service> {
  readonly openStore: () => Promise<OpenReceiptStore<State>>;
  readonly startService: (store: OpenReceiptStore<State>) => Promise<Service>;
  readonly clock: Clock;
  readonly log: Logger;
}

const RETRY_MS = { first: 500, longest: 15_000 } as const;

export class StoreOpening<State, Service> {
  /** Rejects with `receipt_store_unavailable` when this life of the process can serve no longer. */
  readonly failed: Promise<never>;
  readonly #options: StoreOpeningOptions<State, Service>;
  /** What is said when the witness can not be written any more. */
  readonly #unwritable: string;
  readonly #fail: (failure: LemonError) => void;
  #store: OpenReceiptStore<State> | null = null;
  #service: Service | null = null;
  #failure = new LemonError("receipt_store_unavailable");
  #cancelRetry: CancelTimer = () => {};
  #closed = false;

  constructor(options: StoreOpeningOptions<State, Service>, unwritable: string) {
    this.#options = options;
    this.#unwritable = unwritable;
    const { promise, reject } = Promise.withResolvers<never>();
    // Whoever waits for it hears of it; nobody has to.
    promise.catch(() => {});
    this.failed = promise;
    this.#fail = reject;
  }

  /** Null until it is open. */
  get store(): OpenReceiptStore<State> | null {
    return this.#store;
  }

  /** Null until it stands. */
  get service(): Service | null {
    return this.#service;
  }

  /** Why there is no service. */
  get failure(): LemonError {
    return this.#failure;
  }

  /** Resolves after the first attempt, whatever came of it. */
  async begin(): Promise<void> {
    await this.#attempt(RETRY_MS.first);
  }

  /** There is no further attempt. */
  stopTrying(): void {
    this.#cancelRetry();
  }

  /** Lets go of the store; the service is its supervisor's to end. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry();
    await this.#store?.close();
  }

  async #attempt(nextMs: number): Promise<void> {
    const { openStore, startService, clock, log } = this.#options;
    try {
      const store = await openStore();
      if (this.#closed) return await store.close();
      this.#store = store;
      store.watch(() => {
        if (store.condition === "failed") this.#giveUp();
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

  #giveUp(): void {
    this.#fail(new LemonError("receipt_store_unavailable", { message: this.#unwritable }));
  }
}
