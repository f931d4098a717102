/**
 * Owns how often somebody, by whatever name, may try something: a bucket of attempts for each, refilled on the
 * monotonic clock.
 *
 * 1. What is guarded costs one attempt when it fails as a guess does, and nothing otherwise: a success gives
 *    nobody more guesses, and any number of honest callers of one name is let through.
 * 2. Each guarded call that is under way holds an attempt; who finds all of them held waits for the outcome of
 *    one. So nobody fails more often than the bucket allows, however many are tried at once.
 * 3. At most `NAMES_MAX` names are remembered; the one that has been quiet longest is forgotten first.
 */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";

export interface AttemptBound {
  /** Attempts that may follow each other at once. */
  readonly burst: number;
  /** After this long there is one more, in ms. */
  readonly refillMs: number;
}

export const NAMES_MAX = 10_000;

interface Bucket {
  /** When nothing of what was spent will be missing any more: each attempt puts it off by one refill. */
  fullAtMs: number;
  held: number;
  /** Those that wait for one that is held, in their order. */
  readonly waiting: PromiseWithResolvers<void>[];
}

export class Buckets {
  readonly #clock: Clock;
  readonly #bound: AttemptBound;
  /** The one that was used last stands last. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock, bound: AttemptBound) {
    this.#clock = clock;
    this.#bound = bound;
  }

  /** Names that are remembered. */
  get size(): number {
    return this.#buckets.size;
  }

  /** Takes one attempt. Errors: `rate_limited`. */
  spend(name: string): void {
    const bucket = this.#bucket(name);
    if (this.#waitMs(bucket) > 0) throw this.#refusal(bucket);
    this.#take(bucket);
  }

  /** Does `work`, which costs an attempt when `isGuess` says so of its failure. Errors: `rate_limited`, and those of `work`. */
  async guard<T>(
    name: string,
    work: () => Promise<T>,
    isGuess: (failure: unknown) => boolean,
  ): Promise<T> {
    const bucket = this.#bucket(name);
    if (this.#waitMs(bucket) <= 0) {
      bucket.held += 1;
    } else {
      if (bucket.held === 0) throw this.#refusal(bucket);
      const turn = Promise.withResolvers<void>();
      bucket.waiting.push(turn);
      await turn.promise;
    }
    let failed = false;
    try {
      return await work();
    } catch (failure) {
      failed = isGuess(failure);
      throw failure;
    } finally {
      this.#settle(name, bucket, failed);
    }
  }

  #settle(name: string, bucket: Bucket, failed: boolean): void {
    bucket.held -= 1;
    if (failed) this.#take(bucket);
    while (bucket.waiting.length > 0 && this.#waitMs(bucket) <= 0) {
      bucket.held += 1;
      bucket.waiting.shift()?.resolve();
    }
    if (bucket.held > 0) return;
    for (const turn of bucket.waiting.splice(0)) turn.reject(this.#refusal(bucket));
    if (bucket.fullAtMs <= this.#clock.monotonicMs()) this.#buckets.delete(name);
  }

  #take(bucket: Bucket): void {
    bucket.fullAtMs = Math.max(bucket.fullAtMs, this.#clock.monotonicMs()) + this.#bound.refillMs;
  }

  /** How long until there is one more than those that are held; 0 or less when there is. */
  #waitMs({ fullAtMs, held }: Bucket): number {
    const { burst, refillMs } = this.#bound;
    const missingMs = Math.max(0, fullAtMs - this.#clock.monotonicMs()) + held * refillMs;
    return missingMs - (burst - 1) * refillMs;
  }

  #bucket(name: string): Bucket {
    const bucket = this.#buckets.get(name) ?? { fullAtMs: 0, held: 0, waiting: [] };
    this.#buckets.delete(name);
    this.#buckets.set(name, bucket);
    if (this.#buckets.size > NAMES_MAX) this.#forgetOldest();
    return bucket;
  }

  /** One with a call under way would be counted anew beside it. */
  #forgetOldest(): void {
    for (const [name, { held }] of this.#buckets) {
      if (held > 0) continue;
      this.#buckets.delete(name);
      return;
    }
  }

  #refusal(bucket: Bucket): LemonError {
    const retryAfterMs = Math.max(1, Math.ceil(this.#waitMs(bucket)));
    return new LemonError("rate_limited", { details: { retryAfterMs } });
  }
}
