/**
 * Owns, in memory, what was ever acknowledged: for each id the latest witnessed revision. The witness
 * file is its copy on disk, and what the stream says is always held against it.
 *
 * 1. An entry only moves to a higher sequence, or to lost.
 * 2. Lost is for good: a revision that turns up again later does not make it known.
 */
import type { Fingerprint } from "./fingerprint.ts";
import type { WitnessEntry } from "./witness-format.ts";

export interface LedgerEntry {
  readonly sequence: number;
  readonly digest: string;
  readonly lost: boolean;
  /** What the record holds beside its state; null until the record itself was seen. */
  readonly seen: { readonly ordinal: number; readonly fingerprint: Fingerprint } | null;
}

export class Ledger {
  /** By hash of the id. */
  readonly #entries = new Map<string, LedgerEntry>();
  #losses = 0;

  constructor(entries: readonly WitnessEntry[]) {
    for (const { kind, id, sequence, digest } of entries) {
      if (kind === "loss") this.lose(id);
      else this.note(id, sequence, digest, null);
    }
  }

  get size(): number {
    return this.#entries.size;
  }

  get losses(): number {
    return this.#losses;
  }

  get(id: string): LedgerEntry | undefined {
    return this.#entries.get(id);
  }

  entries(): IterableIterator<[string, LedgerEntry]> {
    return this.#entries.entries();
  }

  note(id: string, sequence: number, digest: string, seen: LedgerEntry["seen"]): void {
    const entry = this.#entries.get(id);
    if (entry !== undefined && (entry.lost || entry.sequence > sequence)) return;
    this.#entries.set(id, { sequence, digest, lost: false, seen: seen ?? entry?.seen ?? null });
  }

  lose(id: string): void {
    const entry = this.#entries.get(id);
    if (entry?.lost === true) return;
    const { sequence, digest } = entry ?? { sequence: 0, digest: "" };
    this.#entries.set(id, { sequence, digest, lost: true, seen: null });
    this.#losses += 1;
  }
}
