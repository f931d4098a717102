/**
 * Owns the words of the receipt store: what a kind of work declares, and what the store promises.
 *
 * 1. An id that was ever admitted is spent for ever; it is admitted at most once.
 * 2. `admit` and `advance` resolve only after the revision is synced by the stream AND witnessed, and
 *    refuse as certain only what no later life can find to have happened.
 * 3. A receipt's state only moves forward.
 * 4. `read` answers `null` only after a successful strict read that found nothing, of an id that
 *    nothing was ever acknowledged of.
 */
import type { Damage, StoreState } from "./health.ts";

export type { Damage, StoreState };

/** Who may execute an admitted id: one invocation in one worker life, and nobody else. */
export interface ReceiptOwner {
  readonly generation: number;
  /** Random; made anew for each admission attempt. */
  readonly invocation: string;
}

export interface Receipt<State> {
  /** The caller's own id, as given. */
  readonly id: string;
  readonly state: State;
  readonly owner: ReceiptOwner;
  /** Stream sequence of this state; what `advance` compares. */
  readonly revision: number;
}

export type Admission<State> =
  | { readonly outcome: "admitted"; readonly receipt: Receipt<State> }
  | {
      readonly outcome: "existing";
      readonly receipt: Receipt<State>;
      /** Whether the id was admitted for this very intent; true when that can no longer be told. */
      readonly sameIntent: boolean;
    };

/** What a kind of work (process runs, secret operations, jobs, …) declares once. */
export interface ReceiptKind<State> {
  /** Name of the bucket, `[a-z0-9-]`. */
  readonly bucket: string;
  /** Decodes a stored state; throws on anything foreign. */
  readonly parse: (stored: unknown) => State;
  /** States only move to a higher rank. */
  readonly rank: (state: State) => number;
  /** What the start-up sweep makes of a state an earlier life left unfinished; null when it is final. */
  readonly interrupted: (state: State) => State | null;
  /** The state of an id that the witness knows and the stream lacks: an end. */
  readonly lost: State;
}

export interface ReceiptStore<State> {
  /**
   * Spends `id` (1 to 256 bytes) on `intent` (canonical bytes; only a keyed fingerprint is kept). Only
   * who is answered `admitted` may execute, once.
   * Errors: `receipt_store_unavailable`, `receipt_store_damaged`, `durability_unproven`, `no_space`
   * (nothing admitted), `timeout` (uncertain; should it have been admitted after all, then nobody
   * executes it and it reads as `interrupted`).
   */
  admit(id: string, intent: Uint8Array, state: State): Promise<Admission<State>>;
  /**
   * Compare-and-set on the receipt's revision. Whoever lost the race is given the receipt that won.
   * The end of work (a state that `interrupted` makes nothing of) waits as long as the store is away
   * or full; any other change fails at once, with the errors of `admit` (here without
   * `durability_unproven`) or `receipt_revision_limit`: 62 changes, then an end, fit behind an
   * admission.
   */
  advance(receipt: Receipt<State>, next: State): Promise<Receipt<State>>;
  /**
   * Strict read from the stream's leader. Errors: `receipt_store_unavailable`, and
   * `receipt_store_damaged` where a damaged store can not prove the answer.
   */
  read(id: string): Promise<Receipt<State> | null>;
  /** Ids ever admitted, lost ones and admissions under way included: what a capacity is held against. */
  readonly retained: number;
}

/** A receipt store as `openReceiptStore` returns it. */
export interface OpenReceiptStore<State> extends ReceiptStore<State> {
  /** UUID; for the controller's registry. */
  readonly storeId: string;
  /**
   * Grows by one with each acknowledged revision, and is never less at a later opening. A store that is
   * opened with less is an older copy.
   */
  readonly lastWitnessedSequence: number;
  /**
   * Every id of which the stream holds a revision, in no order; each still is to be read. Error:
   * `receipt_store_unavailable`.
   */
  ids(): Promise<readonly string[]>;
  readonly condition: StoreState;
  /** Why the store is damaged; null while it is not. */
  readonly damage: Damage | null;
  /** Calls `changed` whenever `condition` may have changed; returns the way to stop. */
  watch(changed: () => void): () => void;
  /** Lets go of the files. What is under way fails; the connections stay open. */
  close(): Promise<void>;
}
