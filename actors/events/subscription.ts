/**
 * Owns what one connection hears: everything until it first subscribes or unsubscribes, from then on its
 * topics alone (control-plane-wire.md 1.6).
 */
import { LemonError } from "../../protocol/errors.ts";
import type { Topic } from "../../protocol/events.ts";

/** Topics of one connection: a client that follows runs names one for each. */
export const TOPICS_MAX = 1_000;

export class Subscription {
  /** Null: everything. */
  #topics: Set<Topic> | null = null;
  #seq = 0;

  /** Counts what is delivered, from 1. */
  next(): number {
    this.#seq += 1;
    return this.#seq;
  }

  hears(topics: readonly Topic[]): boolean {
    const own = this.#topics;
    return own === null || own.has("all") || topics.some((topic) => own.has(topic));
  }

  /** Errors: `invalid_params` beyond `TOPICS_MAX`; nothing has changed then. */
  add(topics: readonly Topic[]): void {
    const next = new Set([...(this.#topics ?? []), ...topics]);
    if (next.size > TOPICS_MAX) {
      throw new LemonError("invalid_params", {
        message: `Invalid params: topics: a connection has at most ${TOPICS_MAX}`,
      });
    }
    this.#topics = next;
  }

  remove(topics: readonly Topic[]): void {
    this.#topics ??= new Set();
    for (const topic of topics) this.#topics.delete(topic);
  }

  clear(): void {
    this.#topics = new Set();
  }

  /** Sorted. */
  get topics(): readonly Topic[] {
    return this.#topics === null ? ["all"] : [...this.#topics].sort();
  }
}
