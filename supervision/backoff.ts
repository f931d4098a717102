/**
 * Owns how long a child waits before its next life. Invariants:
 * 1. The delay doubles from `firstMs` up to `maxMs`, and lies between half of that and the whole: children
 *    that fell together do not rise together, and none comes back at once.
 * 2. Only a life of at least `resetAfterMs` puts it back to `firstMs`: one that starts and dies at once does not.
 */
import type { Backoff } from "./actor.ts";

export class BackoffDelay {
  readonly #policy: Backoff;
  readonly #random: () => number;
  #ceilingMs: number;

  /** `random` gives numbers from 0 up to, not including, 1. */
  constructor(policy: Backoff, random: () => number) {
    this.#policy = policy;
    this.#random = random;
    this.#ceilingMs = Math.min(policy.firstMs, policy.maxMs);
  }

  /** The wait in ms after a life that was up for `uptimeMs` (0: it failed to start). */
  next(uptimeMs: number): number {
    const { firstMs, maxMs, resetAfterMs } = this.#policy;
    if (uptimeMs >= resetAfterMs) this.#ceilingMs = Math.min(firstMs, maxMs);
    const ceilingMs = this.#ceilingMs;
    this.#ceilingMs = Math.min(ceilingMs * 2, maxMs);
    return ceilingMs / 2 + (this.#random() * ceilingMs) / 2;
  }
}
