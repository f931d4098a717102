/**
 * Owns what the store may do now, derived from what was proven last; nothing else decides it.
 *
 * 1. Proofs hold for one life of the server: under another id the store is `verifying` at once,
 *    without anybody having to notice.
 * 2. Damage is for good. So is a witness that could not sync, until the store is opened anew.
 */
import type { Clock } from "../../host/clock.ts";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import type { Link } from "./link.ts";

/**
 * `serving`: everything. `unproven`: reads and the ends of what runs, no admission. `full`: reads.
 * `verifying`: the server is away or its proofs are not redone yet; nothing. `damaged`: what is found
 * intact can be read, nothing is said to be absent. `failed`, `closed`: nothing.
 */
export type StoreState =
  | "serving"
  | "unproven"
  | "full"
  | "verifying"
  | "damaged"
  | "failed"
  | "closed";

/** Why a store is damaged: for the log and for whoever repairs it. */
export type Damage =
  | "identity_missing"
  | "identity_damaged"
  | "witness_missing"
  | "witness_damaged"
  | "witness_foreign"
  | "witness_behind"
  | "stream_missing"
  | "stream_foreign"
  | "stream_settings"
  | "stream_not_empty"
  | "foreign_record"
  | "revisions_lost"
  | "not_the_expected_store"
  | "older_copy";

/** What a store in each condition answers instead of admitting. */
export const REFUSALS: Readonly<Record<Exclude<StoreState, "serving">, ErrorCode>> = {
  unproven: "durability_unproven",
  full: "no_space",
  verifying: "receipt_store_unavailable",
  damaged: "receipt_store_damaged",
  failed: "receipt_store_unavailable",
  closed: "receipt_store_unavailable",
};

/** A `receipt_store_damaged` that knows why. */
export class DamageError extends LemonError {
  readonly reason: Damage;

  constructor(reason: Damage) {
    super("receipt_store_damaged", { details: { reason } });
    this.reason = reason;
  }
}

export function damaged(reason: Damage): DamageError {
  return new DamageError(reason);
}

export class Health {
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  #verified: { readonly serverId: string; readonly proven: boolean } | null = null;
  #fullSince: string | null = null;
  #damage: Damage | null = null;
  #failed = false;
  #closed = false;

  constructor(link: Link, clock: Clock) {
    this.#link = link;
    this.#clock = clock;
  }

  get state(): StoreState {
    if (this.#closed) return "closed";
    if (this.#failed) return "failed";
    if (this.#damage !== null) return "damaged";
    if (this.serverId === null) return "verifying";
    if (this.#fullSince !== null) return "full";
    return this.#verified?.proven === true ? "serving" : "unproven";
  }

  /** The server that answers now and for which everything was checked; null while there is none. */
  get serverId(): string | null {
    const now = this.#link.serverId;
    return now !== null && now === this.#verified?.serverId ? now : null;
  }

  /** The life of the server in which the disk was found full; null while it is not. */
  get fullSince(): string | null {
    return this.#fullSince;
  }

  get damage(): Damage | null {
    return this.#damage;
  }

  /** The error that a caller of this operation gets now; null when it may go on. */
  refusal(operation: "admit" | "advance" | "read"): LemonError | null {
    const { state } = this;
    if (state === "serving") return null;
    if (operation === "advance" && state === "unproven") return null;
    if (operation === "read" && (state === "unproven" || state === "full" || state === "damaged")) {
      return null;
    }
    return this.#damage !== null && state === "damaged"
      ? damaged(this.#damage)
      : new LemonError(REFUSALS[state]);
  }

  verified(serverId: string, proven: boolean): void {
    this.#verified = { serverId, proven };
    this.changed();
  }

  /** What was proven is in doubt: the server did not answer as one that lives. */
  doubt(): void {
    this.#verified = null;
    this.changed();
  }

  fill(): void {
    this.#fullSince ??= this.serverId ?? "";
    this.changed();
  }

  /** The disk takes more: whether the server does too, the next verification and put will tell. */
  spaceFound(): void {
    this.#fullSince = null;
    this.#verified = null;
    this.changed();
  }

  damaged(reason: Damage): void {
    this.#damage ??= reason;
    this.changed();
  }

  fail(): void {
    this.#failed = true;
    this.changed();
  }

  close(): void {
    this.#closed = true;
    this.changed();
    this.#listeners.clear();
  }

  /** Tells everybody who watches that the state may be another. */
  changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves true once `wanted` holds of the state, false after `deadlineMs` (never, when infinite). */
  until(wanted: (state: StoreState) => boolean, deadlineMs: number): Promise<boolean> {
    if (wanted(this.state)) return Promise.resolve(true);
    return new Promise((resolve) => {
      const settle = (met: boolean): void => {
        unwatch();
        cancel();
        resolve(met);
      };
      const unwatch = this.watch(() => {
        if (wanted(this.state)) settle(true);
      });
      const cancel =
        deadlineMs === Number.POSITIVE_INFINITY
          ? () => {}
          : this.#clock.after(deadlineMs, () => settle(false));
    });
  }
}
