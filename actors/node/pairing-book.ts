/**
 * Owns the pairing requests in memory: their codes, their lifetimes, the challenges given out for them. It
 * does not know what is paired: `Asked` is what a request says of it, `Held` what its room keeps beside it.
 *
 * 1. At most 1,000 wait at a time, and as many decided ones are remembered.
 * 2. A code is unique while it is remembered. Codes and challenges are looked up by their hash.
 * 3. A request has at most one challenge out; taking it is final unless it is put back.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { type Secrets, sha256 } from "./secrets.ts";

const PAIRING_TTL_MS = 300_000;
const CHALLENGE_TTL_MS = 60_000;
const MAX_WAITING = 1_000;
const MAX_ENTRIES = 2 * MAX_WAITING;
/** How long after its end a request is remembered, so that `verify` can say that it expired. */
const REMEMBERED_MS = PAIRING_TTL_MS;

export type PairingRequest<Asked> = Readonly<Asked> & {
  readonly pairingId: string;
  /** Six digits that a human compares. */
  readonly code: string;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
};

interface Challenge {
  readonly hash: string;
  /** On the monotonic clock. */
  readonly endsAtMs: number;
}

export interface Entry<Asked, Held> {
  readonly request: PairingRequest<Asked>;
  readonly held: Held;
  status: "pending" | "approved" | "rejected";
  challenge: Challenge | null;
  /** On the monotonic clock: the wall clock may jump. */
  readonly endsAtMs: number;
}

export class PairingBook<Asked, Held> {
  readonly #clock: Clock;
  readonly #secrets: Secrets;
  /** In the order they came, so also in the order they expire. */
  readonly #entries = new Map<string, Entry<Asked, Held>>();
  readonly #byCode = new Map<string, Entry<Asked, Held>>();
  readonly #byChallenge = new Map<string, Entry<Asked, Held>>();

  constructor(clock: Clock, secrets: Secrets) {
    this.#clock = clock;
    this.#secrets = secrets;
  }

  /** Throws `rate_limited` when too many wait. */
  open(asked: Asked, held: Held): Entry<Asked, Held> {
    this.#sweep();
    this.#refuseBeyondBound();
    this.#makeRoom();
    let code = this.#secrets.code();
    while (this.#byCode.has(sha256(code))) code = this.#secrets.code();
    const nowMs = this.#clock.nowMs();
    const request: PairingRequest<Asked> = {
      pairingId: randomUUID(),
      code,
      ...asked,
      createdAtMs: nowMs,
      expiresAtMs: nowMs + PAIRING_TTL_MS,
    };
    const entry: Entry<Asked, Held> = {
      request,
      held,
      status: "pending",
      endsAtMs: this.#clock.monotonicMs() + PAIRING_TTL_MS,
      challenge: null,
    };
    this.#entries.set(request.pairingId, entry);
    this.#byCode.set(sha256(code), entry);
    return entry;
  }

  /** Those that wait for a decision, oldest first. */
  waiting(): Entry<Asked, Held>[] {
    return [...this.#entries.values()].filter(
      (entry) => entry.status === "pending" && !this.isOver(entry),
    );
  }

  /** One that is not rejected. Errors: `pairing_not_found`, `pairing_not_pending`, `pairing_expired`. */
  find(pairingId: string): Entry<Asked, Held> {
    this.#sweep();
    const entry = this.#entries.get(pairingId);
    if (entry === undefined) throw new LemonError("pairing_not_found");
    if (entry.status === "rejected") throw new LemonError("pairing_not_pending");
    if (this.isOver(entry)) throw new LemonError("pairing_expired");
    return entry;
  }

  /** Errors: those of `find`, and `pairing_not_pending` once it was approved. */
  reject(pairingId: string): Entry<Asked, Held> {
    const entry = this.find(pairingId);
    if (entry.status !== "pending") throw new LemonError("pairing_not_pending");
    entry.status = "rejected";
    return entry;
  }

  /** Takes back what was approved for these, challenges too; false when nothing of it was good any more. */
  withdraw(isOf: (held: Held) => boolean): boolean {
    const approved = [...this.#entries.values()].filter(
      ({ status, held }) => status === "approved" && isOf(held),
    );
    const wasGood = approved.some(
      (entry) => !this.isOver(entry) || this.challengedForMs(entry) > 0,
    );
    for (const entry of approved) {
      this.#dropChallenge(entry);
      entry.status = "rejected";
    }
    return wasGood;
  }

  byCode(code: string): Entry<Asked, Held> | null {
    this.#sweep();
    return this.#byCode.get(sha256(code)) ?? null;
  }

  isOver({ endsAtMs }: Entry<Asked, Held>): boolean {
    return endsAtMs <= this.#clock.monotonicMs();
  }

  /** A challenge given out before is void. */
  giveChallenge(entry: Entry<Asked, Held>): {
    readonly challenge: string;
    readonly expiresAtMs: number;
  } {
    this.#dropChallenge(entry);
    const challenge = this.#secrets.token();
    const endsAtMs = this.#clock.monotonicMs() + CHALLENGE_TTL_MS;
    this.#putBack(entry, { hash: sha256(challenge), endsAtMs });
    return { challenge, expiresAtMs: this.#clock.nowMs() + CHALLENGE_TTL_MS };
  }

  /**
   * Takes the challenge for what `begin` makes of it; null when it is none of this book's. Errors:
   * `unauthorized` when it has expired, and those of `begin`: when nothing was done, nothing is spent.
   */
  async redeem<T>(
    challenge: string,
    begin: (entry: Entry<Asked, Held>) => Promise<T>,
  ): Promise<T | null> {
    this.#sweep();
    const entry = this.#byChallenge.get(sha256(challenge));
    const taken = entry?.challenge ?? null;
    if (entry === undefined || taken === null) return null;
    this.#dropChallenge(entry);
    if (taken.endsAtMs <= this.#clock.monotonicMs()) {
      throw new LemonError("unauthorized", { message: "Challenge expired" });
    }
    try {
      return await begin(entry);
    } catch (error) {
      // The same request may come again.
      if (error instanceof LemonError && error.retrySafe) this.#putBack(entry, taken);
      throw error;
    }
  }

  /** Those whose machine may still come with its challenge. */
  challenged(): Entry<Asked, Held>[] {
    const nowMs = this.#clock.monotonicMs();
    return [...this.#entries.values()].filter(
      ({ challenge }) => challenge !== null && challenge.endsAtMs > nowMs,
    );
  }

  /** For how long it may, in ms. */
  challengedForMs({ challenge }: Entry<Asked, Held>): number {
    return Math.max(0, Math.ceil((challenge?.endsAtMs ?? 0) - this.#clock.monotonicMs()));
  }

  #putBack(entry: Entry<Asked, Held>, challenge: Challenge): void {
    entry.challenge = challenge;
    this.#byChallenge.set(challenge.hash, entry);
  }

  #sweep(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const entry of this.#entries.values()) {
      if (entry.endsAtMs + REMEMBERED_MS > nowMs) return;
      this.#forget(entry);
    }
  }

  #refuseBeyondBound(): void {
    const waiting = this.waiting();
    const [oldest] = waiting;
    if (waiting.length < MAX_WAITING || oldest === undefined) return;
    const retryAfterMs = Math.ceil(oldest.endsAtMs - this.#clock.monotonicMs());
    throw new LemonError("rate_limited", { details: { retryAfterMs } });
  }

  #makeRoom(): void {
    if (this.#entries.size < MAX_ENTRIES) return;
    for (const entry of this.#entries.values()) {
      if (entry.status === "pending" && !this.isOver(entry)) continue;
      this.#forget(entry);
      return;
    }
  }

  #forget(entry: Entry<Asked, Held>): void {
    this.#dropChallenge(entry);
    this.#entries.delete(entry.request.pairingId);
    this.#byCode.delete(sha256(entry.request.code));
  }

  #dropChallenge(entry: Entry<Asked, Held>): void {
    if (entry.challenge !== null) this.#byChallenge.delete(entry.challenge.hash);
    entry.challenge = null;
  }
}
