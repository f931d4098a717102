/**
 * Owns, in memory, what a store of records holds and what it still has to forget. The witness file is its copy
 * on disk, and what the stream says is always held against it.
 *
 * 1. Of each key at most one record stands: the one that was noted last.
 * 2. What a record replaced, and what was removed, is unerased until the server said that it overwrote it.
 */
import type { WitnessEntry } from "../receipts/witness-format.ts";

export interface Standing {
  readonly sequence: number;
  readonly digest: string;
}

export class RecordLedger {
  /** By hash, as the witness has it. */
  readonly #standing = new Map<string, Standing>();
  /** Hashes by sequence. */
  readonly #unerased = new Map<number, string>();

  constructor(entries: readonly WitnessEntry[]) {
    for (const { kind, id, sequence, digest } of entries) {
      if (kind === "revision") this.note(id, { sequence, digest });
      else if (kind === "removed") this.remove(id);
      else if (kind === "erased") this.erased(sequence);
    }
  }

  get standing(): ReadonlyMap<string, Standing> {
    return this.#standing;
  }

  get unerased(): ReadonlyMap<number, string> {
    return this.#unerased;
  }

  note(hash: string, standing: Standing): void {
    this.remove(hash);
    this.#standing.set(hash, standing);
  }

  remove(hash: string): void {
    const before = this.#standing.get(hash);
    if (before === undefined) return;
    this.#standing.delete(hash);
    this.#unerased.set(before.sequence, hash);
  }

  erased(sequence: number): void {
    this.#unerased.delete(sequence);
  }
}
