/**
 * Owns a bound on what is under way at a time. Whoever comes later waits its turn, a bounded number of
 * them, until a slot is free or all who wait are turned away.
 */
import { LemonError } from "../../protocol/errors.ts";

export class Slots {
  readonly #waitingLimit: number;
  readonly #waiting: PromiseWithResolvers<void>[] = [];
  #free: number;

  constructor(slots: number, waitingLimit: number) {
    this.#free = slots;
    this.#waitingLimit = waitingLimit;
  }

  /**
   * Takes a slot; the result gives it back, once. Errors: `receipt_store_unavailable` when too many
   * wait, and whatever those who wait are turned away with.
   */
  async take(): Promise<() => void> {
    if (this.#free > 0) {
      this.#free -= 1;
    } else {
      if (this.#waiting.length >= this.#waitingLimit) {
        throw new LemonError("receipt_store_unavailable");
      }
      // The slot is handed over by whoever gives it back.
      const turn = Promise.withResolvers<void>();
      this.#waiting.push(turn);
      await turn.promise;
    }
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next.resolve();
    };
  }

  turnAway(failure: LemonError): void {
    for (const turn of this.#waiting.splice(0)) turn.reject(failure);
  }
}
