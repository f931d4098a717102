/**
 * Owns how often one address (or whoever else is named) may try something, loopback like any other.
 *
 * 1. Whoever is behind one address shares its attempts: a proxy has to say whom it speaks for. Who has one
 *    IPv6 address has all those of its /64 (RFC 4291 2.5.4), so they share theirs.
 * 2. A site gets up to a /48 (RFC 6177), which is 65,536 of those networks: together they have
 *    `NETWORKS_OF_A_SITE` times as many attempts as one. There may be others in it, so it is no less.
 * 3. What one network may not try any more costs its site nothing.
 */
import type { Clock } from "../../host/clock.ts";
import { placeOf } from "../../host/ip-address.ts";
import { type AttemptBound, Buckets } from "./buckets.ts";

export const NETWORKS_OF_A_SITE = 16;

export class Attempts {
  readonly #networks: Buckets;
  readonly #sites: Buckets;

  constructor(clock: Clock, bound: AttemptBound) {
    this.#networks = new Buckets(clock, bound);
    this.#sites = new Buckets(clock, {
      burst: bound.burst * NETWORKS_OF_A_SITE,
      refillMs: bound.refillMs / NETWORKS_OF_A_SITE,
    });
  }

  /** Addresses and networks that are remembered. */
  get addresses(): number {
    return this.#networks.size;
  }

  /** Takes one attempt. Errors: `rate_limited`. */
  spend(address: string): void {
    const { network, site } = placeOf(address);
    this.#networks.spend(network);
    if (site !== null) this.#sites.spend(site);
  }

  /** Does `work`, which costs an attempt when `isGuess` says so of its failure. Errors: `rate_limited`, and those of `work`. */
  guard<T>(
    address: string,
    work: () => Promise<T>,
    isGuess: (failure: unknown) => boolean,
  ): Promise<T> {
    const { network, site } = placeOf(address);
    const ofSite = site === null ? work : () => this.#sites.guard(site, work, isGuess);
    return this.#networks.guard(network, ofSite, isGuess);
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
}
