/**
 * Owns the order of work that must not overlap: what has the same key runs one at a time, in the order it
 * came, however what came before it ended. Different keys do not wait for each other.
 */
import type { LemonError } from "../protocol/errors.ts";

export interface TurnsBound {
  /** How much may be under way or waiting, over all keys. */
  readonly limit: number;
  /** What one more is refused with. */
  readonly refusal: () => LemonError;
}

export class Turns {
  readonly #bound: TurnsBound;
  /** The end of the last work for each key that has some. */
  readonly #last = new Map<string, Promise<void>>();
  #underWay = 0;

  constructor(bound: TurnsBound) {
    this.#bound = bound;
  }

  /** Rejects with `refusal` when too much waits, else with what `work` throws. */
  async take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const { limit, refusal } = this.#bound;
    if (this.#underWay >= limit) throw refusal();
    this.#underWay += 1;
    const before = this.#last.get(key);
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#last.set(key, ended);
    try {
      await before;
      return await work();
    } finally {
      this.#underWay -= 1;
      if (this.#last.get(key) === ended) this.#last.delete(key);
      end();
    }
  }
}
