/**
 * Owns the words of the receipt store: what a kind of work declares, and what the store promises.
 *
 * 1. An id that was ever admitted is spent for ever; it is admitted at most once.
 * 2. `admit` and `advance` resolve only after the revision is synced by the stream AND witnessed.
 * 3. A receipt's state only moves forward.
 * 4. `read` answers `null` only after a successful strict read that found nothing.
 */

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
  /** The state of an id that the witness knows and the stream lost. */
  readonly lost: State;
}

export interface ReceiptStore<State> {
  /**
   * Spends `id` on `intent` (canonical bytes; only a keyed fingerprint is stored).
   * Errors: `receipt_store_unavailable`, `receipt_store_damaged`, `durability_unproven`, `no_space`
   * (nothing admitted), `timeout` (uncertain: `mutationMayHaveApplied`).
   */
  admit(id: string, intent: Uint8Array, state: State): Promise<Admission<State>>;
  /** Compare-and-set on the receipt's revision. Same errors; a lost race is `receipt_store_damaged`-free: it returns the receipt that won. */
  advance(receipt: Receipt<State>, next: State): Promise<Receipt<State>>;
  /** Strict read from the stream's leader. */
  read(id: string): Promise<Receipt<State> | null>;
  /** Ids ever admitted, those the witness alone knows included. */
  readonly retained: number;
}
