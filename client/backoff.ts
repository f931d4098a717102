/**
 * Owns how long to wait before the next connection.
 *
 * 1. Every delay is jittered over its upper half, so that clients cut off together do not return together.
 * 2. Only a connection that lasted `resetAfterMs` brings the delay back to `firstMs`: one that dies
 *    right after its handshake does not.
 */

export interface BackoffPolicy {
  readonly firstMs: number;
  readonly maxMs: number;
  readonly resetAfterMs: number;
}

export const DEFAULT_BACKOFF: BackoffPolicy = {
  firstMs: 500,
  maxMs: 5_000,
  resetAfterMs: 10_000,
};

export class Backoff {
  readonly #policy: BackoffPolicy;
  readonly #random: () => number;
  #nextMs: number;

  constructor(policy: BackoffPolicy, random: () => number) {
    this.#policy = policy;
    this.#random = random;
    this.#nextMs = policy.firstMs;
  }

  /** The delay before the next attempt, in ms. */
  next(): number {
    const ceilingMs = this.#nextMs;
    this.#nextMs = Math.min(ceilingMs * 2, this.#policy.maxMs);
    return ceilingMs / 2 + (ceilingMs / 2) * this.#random();
  }

  /** Notes how long the connection that just ended had been usable. */
  lasted(upMs: number): void {
    if (upMs >= this.#policy.resetAfterMs) this.#nextMs = this.#policy.firstMs;
  }
}
