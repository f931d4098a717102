/**
 * Owns the pairing requests in memory: their codes, their lifetimes, the challenges given out for them.
 *
 * 1. At most 1,000 wait at a time, and as many decided ones are remembered.
 * 2. A code is unique while it is remembered. Codes and challenges are looked up by their hash.
 * 3. A request has at most one challenge out; taking it is final unless it is put back.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId } from "../../protocol/ids.ts";
import type { NodeRecord } from "./record.ts";
import { type Secrets, sha256 } from "./secrets.ts";

const PAIRING_TTL_MS = 300_000;
const CHALLENGE_TTL_MS = 60_000;
const MAX_WAITING = 1_000;
const MAX_ENTRIES = 2 * MAX_WAITING;
/** How long after its end a request is remembered, so that `verify` can say that it expired. */
const REMEMBERED_MS = PAIRING_TTL_MS;

export interface PairingRequest {
  readonly pairingId: string;
  /** Six digits that a human compares. */
  readonly code: string;
  readonly nodeType: string;
  readonly nodeName: string;
  readonly capabilities: NodeRecord["capabilities"];
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
}

/** How a request may have the durable id it is for. */
export type Claim =
  | { readonly kind: "new" }
  | { readonly kind: "recovery"; readonly tokenHash: string }
  | { readonly kind: "repair" };

export interface Challenge {
  readonly hash: string;
  /** On the monotonic clock. */
  readonly endsAtMs: number;
}

export interface Entry {
  readonly request: PairingRequest;
  readonly claim: Claim;
  nodeId: NodeId;
  status: "pending" | "approved" | "rejected";
  /** Of the node when the request was approved: what is granted again must still be that. */
  revocations: number;
  recoveryHash: string | null;
  challenge: Challenge | null;
  /** On the monotonic clock: the wall clock may jump. */
  readonly endsAtMs: number;
}

export class PairingBook {
  readonly #clock: Clock;
  readonly #secrets: Secrets;
  /** In the order they came, so also in the order they expire. */
  readonly #entries = new Map<string, Entry>();
  readonly #byCode = new Map<string, Entry>();
  readonly #byChallenge = new Map<string, Entry>();

  constructor(clock: Clock, secrets: Secrets) {
    this.#clock = clock;
    this.#secrets = secrets;
  }

  /** Throws `rate_limited` when too many wait. */
  open(
    asked: Pick<PairingRequest, "nodeType" | "nodeName" | "capabilities">,
    claim: Claim,
    nodeId: NodeId,
  ): Entry {
    this.#sweep();
    this.#refuseBeyondBound();
    this.#makeRoom();
    let code = this.#secrets.code();
    while (this.#byCode.has(sha256(code))) code = this.#secrets.code();
    const nowMs = this.#clock.nowMs();
    const request: PairingRequest = {
      pairingId: randomUUID(),
      code,
      ...asked,
      createdAtMs: nowMs,
      expiresAtMs: nowMs + PAIRING_TTL_MS,
    };
    const entry: Entry = {
      request,
      claim,
      nodeId,
      status: "pending",
      revocations: 0,
      recoveryHash: null,
      endsAtMs: this.#clock.monotonicMs() + PAIRING_TTL_MS,
      challenge: null,
    };
    this.#entries.set(request.pairingId, entry);
    this.#byCode.set(sha256(code), entry);
    return entry;
  }

  /** Those that wait for a decision, oldest first. */
  waiting(): Entry[] {
    return [...this.#entries.values()].filter(
      (entry) => entry.status === "pending" && !this.isOver(entry),
    );
  }

  byId(pairingId: string): Entry | null {
    this.#sweep();
    return this.#entries.get(pairingId) ?? null;
  }

  byCode(code: string): Entry | null {
    this.#sweep();
    return this.#byCode.get(sha256(code)) ?? null;
  }

  isOver({ endsAtMs }: Entry): boolean {
    return endsAtMs <= this.#clock.monotonicMs();
  }

  /** A challenge given out before is void. */
  giveChallenge(entry: Entry): { readonly challenge: string; readonly expiresAtMs: number } {
    this.#dropChallenge(entry);
    const challenge = this.#secrets.token();
    const endsAtMs = this.#clock.monotonicMs() + CHALLENGE_TTL_MS;
    this.putBack(entry, { hash: sha256(challenge), endsAtMs });
    return { challenge, expiresAtMs: this.#clock.nowMs() + CHALLENGE_TTL_MS };
  }

  /** Takes it for good, expired or not; null when it is none of ours. */
  takeChallenge(
    challenge: string,
  ): { readonly entry: Entry; readonly taken: Challenge; readonly expired: boolean } | null {
    this.#sweep();
    const entry = this.#byChallenge.get(sha256(challenge));
    const taken = entry?.challenge ?? null;
    if (entry === undefined || taken === null) return null;
    this.#dropChallenge(entry);
    return { entry, taken, expired: taken.endsAtMs <= this.#clock.monotonicMs() };
  }

  putBack(entry: Entry, challenge: Challenge): void {
    entry.challenge = challenge;
    this.#byChallenge.set(challenge.hash, entry);
  }

  /** The nodes whose machine may still come with its challenge. */
  heldNodes(): Set<string> {
    const nowMs = this.#clock.monotonicMs();
    const held = new Set<string>();
    for (const { challenge, nodeId } of this.#entries.values()) {
      if (challenge !== null && challenge.endsAtMs > nowMs) held.add(nodeId);
    }
    return held;
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

  #forget(entry: Entry): void {
    this.#dropChallenge(entry);
    this.#entries.delete(entry.request.pairingId);
    this.#byCode.delete(sha256(entry.request.code));
  }

  #dropChallenge(entry: Entry): void {
    if (entry.challenge !== null) this.#byChallenge.delete(entry.challenge.hash);
    entry.challenge = null;
  }
}
