/** Owns one queue of asynchronous work: one at a time, in the order it came, bounded. */
import { LemonError } from "../../protocol/errors.ts";

const MAX_WAITING = 16;
/** A turn takes about this long when the hub is slow, in ms. */
const RETRY_AFTER_MS = 1_000;

export class Turns {
  #last: Promise<unknown> = Promise.resolve();
  #taken = 0;

  /** Runs `work` when all before it has ended, however it ended. Rejects with `rate_limited` when too much waits. */
  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#taken > MAX_WAITING) {
      throw new LemonError("rate_limited", { details: { retryAfterMs: RETRY_AFTER_MS } });
    }
    this.#taken += 1;
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      this.#taken -= 1;
    }
  }
}
