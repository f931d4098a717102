/**
 * Owns the memory that waits for readers, over all connections: when it exceeds one bound, the connection
 * that holds most of it is given up. Each reader's own bounds come first (`send-queue.ts`); this one is for
 * many slow readers at once.
 */

/** Something that holds bytes for one reader and can let go of them all. */
export interface Holder {
  /** Releases everything, and gives it back here. */
  shed(): void;
}

export class Backlog {
  readonly #maxBytes: number;
  readonly #held = new Map<Holder, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  take(holder: Holder, bytes: number): void {
    this.#held.set(holder, (this.#held.get(holder) ?? 0) + bytes);
    this.#bytes += bytes;
    if (this.#bytes > this.#maxBytes) this.#largest()?.shed();
  }

  giveBack(holder: Holder, bytes: number): void {
    const left = (this.#held.get(holder) ?? 0) - bytes;
    if (left > 0) this.#held.set(holder, left);
    else this.#held.delete(holder);
    this.#bytes -= bytes;
  }

  #largest(): Holder | null {
    let largest: Holder | null = null;
    let most = 0;
    for (const [holder, bytes] of this.#held) {
      if (bytes > most) [largest, most] = [holder, bytes];
    }
    return largest;
  }
}
