/**
 * Owns, in memory, what was ever acknowledged: for each id the latest witnessed revision. The witness
 * file is its copy on disk, and what the stream says is always held against it.
 *
 * 1. An entry only moves to a higher sequence, or to lost.
 * 2. Lost is for good: a revision that turns up again later does not make it known.
 * 3. Announcements are open that the file holds and nothing followed: those of an earlier life, until
 *    the first comparison of this one has told what became of them. Of each id there is at most one.
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
  readonly #open = new Map<string, string>();
  #losses = 0;
  #witnessed = 0;

  constructor(entries: readonly WitnessEntry[]) {
    let witnessed = 0;
    for (const { kind, id, sequence, digest } of entries) {
      if (kind === "announced") this.#open.set(id, digest);
      else if (kind === "withdrawn") this.#close(id, digest);
      else {
        if (kind === "revision") this.note(id, sequence, digest, null);
        else if (kind === "missing") this.miss(id, digest);
        else this.lose(id);
        witnessed += 1;
      }
    }
    this.#witnessed = witnessed;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Acknowledged revisions that were lost. */
  get losses(): number {
    return this.#losses;
  }

  /**
   * How many revisions, losses and missing records there ever were. It only grows, by one with each
   * acknowledgement; whenever the process dies, what is on disk makes at least as many at the next
   * opening, since each announcement that is open then becomes one of them.
   */
  get witnessed(): number {
    return this.#witnessed;
  }

  /** Digests of the records that are announced and neither confirmed nor withdrawn, by hash of the id. */
  get open(): ReadonlyMap<string, string> {
    return this.#open;
  }

  get(id: string): LedgerEntry | undefined {
    return this.#entries.get(id);
  }

  entries(): IterableIterator<[string, LedgerEntry]> {
    return this.#entries.entries();
  }

  note(id: string, sequence: number, digest: string, seen: LedgerEntry["seen"]): void {
    this.#close(id, digest);
    const entry = this.#entries.get(id);
    if (entry !== undefined && (entry.lost || entry.sequence > sequence)) return;
    if (entry?.sequence !== sequence) this.#witnessed += 1;
    this.#entries.set(id, { sequence, digest, lost: false, seen: seen ?? entry?.seen ?? null });
  }

  lose(id: string): void {
    const entry = this.#entries.get(id);
    if (entry?.lost === true) return;
    const { sequence, digest } = entry ?? { sequence: 0, digest: "" };
    this.#entries.set(id, { sequence, digest, lost: true, seen: null });
    this.#losses += 1;
    this.#witnessed += 1;
  }

  /**
   * The stream lacks what was announced. It may have been acknowledged: an id of which nothing else is
   * known is spent. It counts as none of the losses, since every crash can leave some.
   */
  miss(id: string, digest: string): void {
    this.#close(id, digest);
    this.#witnessed += 1;
    if (this.#entries.has(id)) return;
    this.#entries.set(id, { sequence: 0, digest, lost: true, seen: null });
  }

  #close(id: string, digest: string): void {
    if (this.#open.get(id) === digest) this.#open.delete(id);
  }
}
