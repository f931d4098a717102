/**
 * Owns the output of a run: the head of what both streams bring, in the order of arrival, within one bound
 * for both together and without holes; and the news about the streams.
 */
import type { Clock } from "../../host/clock.ts";
import { OpenStreams } from "../../host/open-streams.ts";
import type { OutputSink, OutputStream } from "../../host/spawner.ts";

export class Output implements OutputSink {
  /** Resolves when both streams have ended. */
  readonly ended: Promise<void>;
  /** Resolves when something came that was not kept; nothing is kept after it. */
  readonly overflowed: Promise<void>;
  readonly #streams: OpenStreams;
  readonly #kept: Record<OutputStream, Growing> = { stdout: new Growing(), stderr: new Growing() };
  readonly #overflow = Promise.withResolvers<void>();
  #leftBytes: number;
  #hasOverflowed = false;

  constructor(maxBytes: number, clock: Clock) {
    this.#leftBytes = maxBytes;
    this.#streams = new OpenStreams(clock);
    this.ended = this.#streams.ended;
    this.overflowed = this.#overflow.promise;
  }

  /** All that was written is kept, and nobody can write any more. */
  get complete(): boolean {
    return !this.#streams.any && !this.#hasOverflowed;
  }

  get hasOverflowed(): boolean {
    return this.#hasOverflowed;
  }

  chunk(stream: OutputStream, bytes: Uint8Array): void {
    this.#streams.heard();
    if (this.#hasOverflowed) return;
    const head = bytes.subarray(0, this.#leftBytes);
    this.#kept[stream].append(head);
    this.#leftBytes -= head.length;
    if (head.length === bytes.length) return;
    this.#hasOverflowed = true;
    this.#overflow.resolve();
  }

  end(stream: OutputStream): void {
    this.#streams.end(stream);
  }

  /** What was kept of a stream. */
  take(stream: OutputStream): Uint8Array<ArrayBuffer> {
    return this.#kept[stream].take();
  }

  /** Resolves when the streams have ended, or nothing came for `graceMs`. */
  async quiet(graceMs: number): Promise<void> {
    await this.#streams.quiet(graceMs);
  }

  /** Resolves when the streams have ended, after `withinMs` at the latest. */
  async endedWithin(withinMs: number): Promise<void> {
    await this.#streams.endedWithin(withinMs);
  }
}

/** Bytes that grow by doubling: a program that writes byte by byte does not cost an object each. */
class Growing {
  #bytes = Buffer.alloc(0);
  #length = 0;

  append(piece: Uint8Array): void {
    const needed = this.#length + piece.length;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    this.#bytes.set(piece, this.#length);
    this.#length = needed;
  }

  /** A copy of its own that holds no more than the bytes. */
  take(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(this.#bytes.subarray(0, this.#length));
  }
}
