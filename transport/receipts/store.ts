/**
 * Owns the rules of receipts on top of the journal: who may execute, what an intent is compared with,
 * that states only move forward, and that nothing stays unfinished which nobody will finish.
 *
 * 1. Only an admission whose own revision (generation and invocation) stands in the stream, witnessed,
 *    answers `admitted`.
 * 2. Operations on one id take turns, so that a read cannot slip in front of an admission under way.
 * 3. A revision that nobody will finish (an earlier life's, or that of an admission which was given up
 *    as uncertain and landed later) is never shown unfinished: it is settled, durably as soon as the
 *    store takes it.
 * 4. The end of work is written as soon as the store takes it, however long that is.
 */

import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { Turns } from "../../supervision/turns.ts";
import type { Fingerprinter } from "./fingerprint.ts";
import { damaged, type Health, type StoreState } from "./health.ts";
import type { Journal, Reading } from "./journal.ts";
import type { Ledger } from "./ledger.ts";
import type { Admission, Receipt, ReceiptKind, ReceiptOwner, ReceiptStore } from "./receipt.ts";
import {
  digestOf,
  encodeRevision,
  LONGEST_ID_BYTES,
  MAX_REVISIONS,
  type StoredRevision,
  type Target,
  targetOf,
} from "./record.ts";
import { type FoundRevision, PUTS_IN_FLIGHT } from "./verification.ts";

export interface ReceiptRulesParts<State> {
  readonly kind: ReceiptKind<State>;
  readonly generation: number;
  readonly journal: Journal;
  readonly health: Health;
  readonly ledger: Ledger;
  readonly fingerprinter: Fingerprinter;
  readonly clock: Clock;
  /** A new name each time that nobody can guess. */
  readonly newInvocation: () => string;
}

/** Operations under way or waiting, over all ids: each is a caller that waits. */
const OPERATIONS_LIMIT = 8_192;
/** Ends of work that may wait in memory for a store that is away. */
const ENDS_LIMIT = 4_096;
/** Given-up admissions that are remembered, in case that they land later. */
const ABANDONED_LIMIT = 4_096;
/** Between two tries of an end that a store which answers did not take: doubled each time. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** Owner of a receipt whose record was lost: nobody. */
const NOBODY: ReceiptOwner = { generation: 0, invocation: "" };

export class ReceiptRules<State> implements ReceiptStore<State> {
  readonly #parts: ReceiptRulesParts<State>;
  readonly #turns = new Turns({
    limit: OPERATIONS_LIMIT,
    refusal: () => new LemonError("receipt_store_unavailable"),
  });
  /** Admissions under way, by hash of the id: how many of each. */
  readonly #admitting = new Map<string, number>();
  /** Invocations that may land although nobody waits for them any more, oldest first. */
  readonly #abandoned = new Set<string>();
  #endsWaiting = 0;

  constructor(parts: ReceiptRulesParts<State>) {
    this.#parts = parts;
  }

  get retained(): number {
    const { ledger } = this.#parts;
    let retained = ledger.size;
    for (const hash of this.#admitting.keys()) if (ledger.get(hash) === undefined) retained += 1;
    return retained;
  }

  async admit(id: string, intent: Uint8Array, state: State): Promise<Admission<State>> {
    const refusal = this.#parts.health.refusal("admit");
    if (refusal !== null) throw refusal;
    const target = this.#target(id);
    const { hash } = target;
    this.#admitting.set(hash, (this.#admitting.get(hash) ?? 0) + 1);
    try {
      return await this.#turns.take(hash, () => this.#admit(target, intent, state));
    } finally {
      const others = (this.#admitting.get(hash) ?? 1) - 1;
      if (others > 0) this.#admitting.set(hash, others);
      else this.#admitting.delete(hash);
    }
  }

  async advance(receipt: Receipt<State>, next: State): Promise<Receipt<State>> {
    const { kind, health } = this.#parts;
    if (kind.rank(next) <= kind.rank(receipt.state)) {
      throw new LemonError("internal_error", { mutationMayHaveApplied: false });
    }
    const target = this.#target(receipt.id);
    const isEnd = kind.interrupted(next) === null;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        const refusal = health.refusal("advance");
        if (refusal !== null) throw refusal;
        return await this.#turns.take(target.hash, () => this.#advance(target, receipt, next));
      } catch (failure) {
        if (!isEnd || !mayPass(failure, health.state)) throw failure;
        await this.#waitForStore(pauseMs, failure);
      }
    }
  }

  async read(id: string): Promise<Receipt<State> | null> {
    const target = this.#target(id);
    return this.#turns.take(target.hash, async () => {
      const reading = await this.#parts.journal.read(target);
      return reading.outcome === "absent" ? null : this.#settled(target, reading);
    });
  }

  /** Settles what an earlier life left unfinished among these; resolves with how many those were. */
  async sweep(found: readonly FoundRevision[]): Promise<number> {
    const { kind } = this.#parts;
    const orphans = found.filter(
      ({ revision }) =>
        this.#isOrphan(revision) && kind.interrupted(this.#parse(revision)) !== null,
    );
    const left = [...orphans];
    const sweepers = Array.from({ length: PUTS_IN_FLIGHT }, async () => {
      for (let next = left.pop(); next !== undefined; next = left.pop()) {
        await this.read(next.id).catch(() => null);
      }
    });
    await Promise.all(sweepers);
    return orphans.length;
  }

  async #admit(target: Target, intent: Uint8Array, state: State): Promise<Admission<State>> {
    const { fingerprinter, generation, journal, ledger, newInvocation } = this.#parts;
    const fingerprint = fingerprinter.of(target.id, intent);
    if (ledger.get(target.hash) === undefined) {
      const invocation = newInvocation();
      const owner: ReceiptOwner = { generation, invocation };
      const revision = { id: target.id, ...owner, fingerprint, ordinal: 1, state };
      // From here on it may land at any time, unless it is known that it has or cannot.
      this.#abandon(invocation);
      const written = await journal.write(target, revision, 0, "admit");
      if (written.outcome === "written") {
        this.#abandoned.delete(invocation);
        const receipt = { id: target.id, state, owner, revision: written.sequence };
        return { outcome: "admitted", receipt };
      }
      if (written.outcome === "unknown") throw new LemonError("timeout");
      if (written.outcome === "absent") throw new LemonError("receipt_store_unavailable");
    }
    const reading = await journal.read(target);
    // What stood in the way of the admission is not there: nothing can be said now.
    if (reading.outcome === "absent") throw new LemonError("receipt_store_unavailable");
    const receipt = await this.#settled(target, reading);
    const sameIntent =
      reading.outcome === "lost" ||
      (fingerprinter.same(reading.revision.fingerprint, fingerprint) ?? true);
    return { outcome: "existing", receipt, sameIntent };
  }

  /** One try of a compare-and-set; whoever was there first is returned. */
  async #advance(target: Target, receipt: Receipt<State>, next: State): Promise<Receipt<State>> {
    const { kind, journal, ledger } = this.#parts;
    const entry = ledger.get(target.hash);
    if (entry === undefined) {
      throw new LemonError("internal_error", { mutationMayHaveApplied: false });
    }
    if (entry.lost || entry.seen === null || entry.sequence !== receipt.revision) {
      return this.#standing(target);
    }
    const ordinal = entry.seen.ordinal + 1;
    // The last revision is kept for an end, so that no work can be left without one.
    const limit = kind.interrupted(next) === null ? MAX_REVISIONS : MAX_REVISIONS - 1;
    if (ordinal > limit) throw new LemonError("receipt_revision_limit");
    const { fingerprint } = entry.seen;
    const revision = { id: target.id, ...receipt.owner, fingerprint, ordinal, state: next };
    const written = await journal.write(target, revision, receipt.revision, "advance");
    switch (written.outcome) {
      case "written":
        return { ...receipt, state: next, revision: written.sequence };
      case "revision_limit":
        throw new LemonError("receipt_revision_limit");
      case "absent":
        throw new LemonError("receipt_store_unavailable");
      case "unknown":
        throw new LemonError("timeout");
      case "conflict": {
        const winner = await this.#standing(target);
        // An earlier try of this very change may have landed after it was given up.
        const ours = ledger.get(target.hash)?.digest === digestOf(encodeRevision(revision));
        return ours ? { ...receipt, state: next, revision: winner.revision } : winner;
      }
    }
  }

  /** The receipt as it stands, for who knows that there is one. */
  async #standing(target: Target): Promise<Receipt<State>> {
    const reading = await this.#parts.journal.read(target);
    if (reading.outcome === "absent") throw new LemonError("receipt_store_unavailable");
    return this.#receipt(target, reading);
  }

  /** The receipt of a reading; one that nobody will finish is brought to its end first. */
  async #settled(
    target: Target,
    reading: Exclude<Reading, { outcome: "absent" }>,
  ): Promise<Receipt<State>> {
    const receipt = this.#receipt(target, reading);
    if (reading.outcome === "lost" || !this.#isOrphan(reading.revision)) return receipt;
    const end = this.#parts.kind.interrupted(receipt.state);
    if (end === null) return receipt;
    try {
      return await this.#advance(target, receipt, end);
    } catch {
      // Not on disk yet, and true all the same: no other end can come of it.
      return { ...receipt, state: end };
    }
  }

  #receipt(target: Target, reading: Exclude<Reading, { outcome: "absent" }>): Receipt<State> {
    const { id } = target;
    if (reading.outcome === "lost") {
      const { lost } = this.#parts.kind;
      return { id, state: lost, owner: NOBODY, revision: reading.sequence };
    }
    const { revision, sequence } = reading;
    const { generation, invocation } = revision;
    const owner = { generation, invocation };
    return { id, state: this.#parse(revision), owner, revision: sequence };
  }

  #parse({ state }: StoredRevision): State {
    try {
      return this.#parts.kind.parse(state);
    } catch {
      throw damaged("foreign_record");
    }
  }

  #isOrphan({ generation, invocation }: StoredRevision): boolean {
    return generation !== this.#parts.generation || this.#abandoned.has(invocation);
  }

  #abandon(invocation: string): void {
    const [oldest] = this.#abandoned;
    if (oldest !== undefined && this.#abandoned.size >= ABANDONED_LIMIT) {
      this.#abandoned.delete(oldest);
    }
    this.#abandoned.add(invocation);
  }

  #target(id: string): Target {
    if (id === "" || Buffer.byteLength(id, "utf8") > LONGEST_ID_BYTES || !id.isWellFormed()) {
      throw new LemonError("invalid_params", { message: "The id of a receipt is not acceptable" });
    }
    return targetOf(id);
  }

  /** Until the store takes ends again, and at least `pauseMs`. Throws `failure` when too many wait. */
  async #waitForStore(pauseMs: number, failure: unknown): Promise<void> {
    if (this.#endsWaiting >= ENDS_LIMIT) throw failure;
    const { health, clock } = this.#parts;
    this.#endsWaiting += 1;
    try {
      await Promise.race([
        new Promise<void>((resolve) => clock.after(pauseMs, resolve)),
        health.until((state) => LASTING.has(state), pauseMs),
      ]);
      await health.until(
        (state) => state === "serving" || state === "unproven" || LASTING.has(state),
        Number.POSITIVE_INFINITY,
      );
    } finally {
      this.#endsWaiting -= 1;
    }
  }
}

/** States from which a store does not come back in this life. */
const LASTING: ReadonlySet<StoreState> = new Set(["damaged", "failed", "closed"]);

/** Whether what refused an end now may take it later. */
function mayPass(failure: unknown, state: StoreState): boolean {
  if (LASTING.has(state) || !(failure instanceof LemonError)) return false;
  return (
    failure.code === "receipt_store_unavailable" ||
    failure.code === "no_space" ||
    failure.code === "timeout"
  );
}
