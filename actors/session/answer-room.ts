/**
 * Owns how much of large answers one connection may have coming: a read whose answer could not be held is not
 * begun before others have left. So a client that asks for hundreds of chunks and takes none costs a few of
 * them, and one that takes them as they come waits for nothing but its own line, and the nodes it asks: what a
 * node that hangs owes is expected until its deadline.
 *
 * 1. Answers that are expected and answers that wait for the reader never exceed `AHEAD_BYTES` together, but
 *    for a single one, and for what was begun otherwise (mutations and small reads, which never wait here).
 * 2. What waits begins in the order it came.
 */

/** Eleven chunks of 1 MiB in base64: more than a long and fast line has under way. */
export const AHEAD_BYTES = 16_777_216;

interface Waiting {
  readonly bytes: number;
  readonly begin: () => void;
}

export class AnswerRoom {
  readonly #unsentBytes: () => number;
  readonly #waiting: Waiting[] = [];
  #expectedBytes = 0;

  /** `unsentBytes`: those of the answers that wait for the reader. */
  constructor(unsentBytes: () => number) {
    this.#unsentBytes = unsentBytes;
  }

  /** Calls `begin` when an answer of so many bytes can be held: now, or from `next`. */
  enter(bytes: number, begin: () => void): void {
    this.#waiting.push({ bytes, begin });
    this.next();
  }

  /** The answer has been given, or there will be none. */
  leave(bytes: number): void {
    this.#expectedBytes -= bytes;
    this.next();
  }

  /** Begins what there is room for now; for when answers have left. */
  next(): void {
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined || !this.#fits(first.bytes)) return;
      this.#waiting.shift();
      this.#expectedBytes += first.bytes;
      first.begin();
    }
  }

  /** Begins nothing any more. */
  end(): void {
    this.#waiting.length = 0;
  }

  #fits(bytes: number): boolean {
    const aheadBytes = this.#expectedBytes + this.#unsentBytes();
    return aheadBytes === 0 || aheadBytes + bytes <= AHEAD_BYTES;
  }
}
