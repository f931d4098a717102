/**
 * Owns how often one address (or whoever else is named) may try something: a bucket of attempts for each,
 * refilled on the monotonic clock, loopback like any other.
 *
 * 1. What is guarded costs one attempt when it fails as a guess does, and nothing otherwise: a success gives
 *    nobody more guesses, and any number of honest callers from one address is let through.
 * 2. Each guarded call that is under way holds an attempt; who finds all of them held waits for the outcome of
 *    one. So an address never fails more often than its bucket allows, however many it tries at once.
 * 3. At most `ADDRESSES_MAX` addresses are remembered; the one that has been quiet longest is forgotten first.
 *
 * Whoever is behind one address shares its bucket: a proxy has to say whom it speaks for.
 */
import { isIPv6 } from "node:net";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";

export interface AttemptBound {
  /** Attempts that may follow each other at once. */
  readonly burst: number;
  /** After this long there is one more, in ms. */
  readonly refillMs: number;
}

export const ADDRESSES_MAX = 10_000;

interface Bucket {
  /** When nothing of what was spent will be missing any more: each attempt puts it off by one refill. */
  fullAtMs: number;
  held: number;
  /** Those that wait for one that is held, in their order. */
  readonly waiting: PromiseWithResolvers<void>[];
}

export class Attempts {
  readonly #clock: Clock;
  readonly #bound: AttemptBound;
  /** The one that was used last stands last. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock, bound: AttemptBound) {
    this.#clock = clock;
    this.#bound = bound;
  }

  /** Addresses that are remembered. */
  get addresses(): number {
    return this.#buckets.size;
  }

  /** Takes one attempt. Errors: `rate_limited`. */
  spend(address: string): void {
    const bucket = this.#bucket(address);
    if (this.#waitMs(bucket) > 0) throw this.#refusal(bucket);
    this.#take(bucket);
  }

  /** Does `work`, which costs an attempt when `isGuess` says so of its failure. Errors: `rate_limited`, and those of `work`. */
  async guard<T>(
    address: string,
    work: () => Promise<T>,
    isGuess: (failure: unknown) => boolean,
  ): Promise<T> {
    const bucket = this.#bucket(address);
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
      this.#settle(address, bucket, failed);
    }
  }

  /**
   * Does `work` and charges an attempt when it failed as a guess. For what nobody can guess, 256 random bits:
   * whoever has the right one is let in, whatever others behind the same address try. Errors: `rate_limited`
   * in place of the failure that was one too many, and those of `work`.
   */
  async charge<T>(
    address: string,
    work: () => Promise<T>,
    isGuess: (failure: unknown) => boolean,
  ): Promise<T> {
    try {
      return await work();
    } catch (failure) {
      if (isGuess(failure)) this.spend(address);
      throw failure;
    }
  }

  #settle(address: string, bucket: Bucket, failed: boolean): void {
    bucket.held -= 1;
    if (failed) this.#take(bucket);
    while (bucket.waiting.length > 0 && this.#waitMs(bucket) <= 0) {
      bucket.held += 1;
      bucket.waiting.shift()?.resolve();
    }
    if (bucket.held > 0) return;
    for (const turn of bucket.waiting.splice(0)) turn.reject(this.#refusal(bucket));
    if (bucket.fullAtMs <= this.#clock.monotonicMs()) this.#buckets.delete(networkOf(address));
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

  #bucket(address: string): Bucket {
    const network = networkOf(address);
    const bucket = this.#buckets.get(network) ?? { fullAtMs: 0, held: 0, waiting: [] };
    this.#buckets.delete(network);
    this.#buckets.set(network, bucket);
    if (this.#buckets.size > ADDRESSES_MAX) this.#forgetOldest();
    return bucket;
  }

  /** One with a call under way would be counted anew beside it. */
  #forgetOldest(): void {
    for (const [network, { held }] of this.#buckets) {
      if (held > 0) continue;
      this.#buckets.delete(network);
      return;
    }
  }

  #refusal(bucket: Bucket): LemonError {
    const retryAfterMs = Math.max(1, Math.ceil(this.#waitMs(bucket)));
    return new LemonError("rate_limited", { details: { retryAfterMs } });
  }
}

/** Who has one IPv6 address has all those of its /64 (RFC 6177), so they share a bucket. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [left = "", right] = address.split("::");
  const groups = left === "" ? [] : left.split(":");
  // What `::` stands for reaches into the first half when there are too few groups before it.
  if (right !== undefined) {
    const after = right === "" ? [] : right.split(":");
    while (groups.length + after.length < 8) groups.push("0");
    groups.push(...after);
  }
  return groups.slice(0, 4).join(":");
}
