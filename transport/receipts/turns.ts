/**
 * Owns the order of operations on one id: each waits for the one before it, so that a read cannot slip
 * in front of an admission that is under way. Different ids do not wait for each other.
 */
import { LemonError } from "../../protocol/errors.ts";

export class Turns {
  readonly #limit: number;
  /** The end of the last operation for each id that has one under way. */
  readonly #last = new Map<string, Promise<void>>();
  #underWay = 0;

  /** At most `limit` operations may be under way or waiting, over all ids. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Errors: `receipt_store_unavailable` when too many wait; else what `operation` throws. */
  async take<T>(id: string, operation: () => Promise<T>): Promise<T> {
    if (this.#underWay >= this.#limit) throw new LemonError("receipt_store_unavailable");
    this.#underWay += 1;
    const before = this.#last.get(id);
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#last.set(id, ended);
    try {
      await before;
      return await operation();
    } finally {
      this.#underWay -= 1;
      if (this.#last.get(id) === ended) this.#last.delete(id);
      end();
    }
  }
}
