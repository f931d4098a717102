/**
 * Owns the memory that waits for readers, over all connections: when it exceeds one bound, the connection
 * that is furthest behind is given up. Each reader's own bounds come first (`send-queue.ts`); this one is for
 * many slow readers at once.
 */

/** Something that holds bytes for one reader and can let go of them all. */
export interface Holder {
  /** How long the first of what it holds has waited, in ms. */
  readonly waitedMs: number;
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
    while (this.#bytes > this.#maxBytes) this.#furthestBehind().shed();
  }

  giveBack(holder: Holder, bytes: number): void {
    const left = (this.#held.get(holder) ?? 0) - bytes;
    if (left > 0) this.#held.set(holder, left);
    else this.#held.delete(holder);
    this.#bytes -= bytes;
  }

  /**
   * By bytes and the time they have waited: a reader that takes what it asked for has much waiting, but not
   * for long; one that takes nothing has less, since it is given less, but holds it until it is cut.
   */
  #furthestBehind(): Holder {
    let furthest: Holder | null = null;
    let most = 0;
    for (const [holder, bytes] of this.#held) {
      const behind = bytes * (holder.waitedMs + 1);
      if (behind > most) [furthest, most] = [holder, behind];
    }
    if (furthest === null) throw new Error("bytes wait for nobody");
    return furthest;
  }
}
