/** Owns a bound on what is under way at a time: whoever comes later waits its turn, a bounded number of them. */
import { LemonError } from "../../protocol/errors.ts";

export class Slots {
  readonly #waitingLimit: number;
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(slots: number, waitingLimit: number) {
    this.#free = slots;
    this.#waitingLimit = waitingLimit;
  }

  /** Takes a slot; the result gives it back, once. Errors: `receipt_store_unavailable` when too many wait. */
  async take(): Promise<() => void> {
    if (this.#free > 0) {
      this.#free -= 1;
    } else {
      if (this.#waiting.length >= this.#waitingLimit) {
        throw new LemonError("receipt_store_unavailable");
      }
      // The slot is handed over by whoever gives it back.
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    };
  }
}
