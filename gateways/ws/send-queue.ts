/**
 * Owns what one socket still has to send. Answers and events leave in the order they came.
 *
 * 1. The socket is handed little more than `HANDED_BYTES` at a time; the rest waits here, counted.
 * 2. A large text leaves in fragments (RFC 6455 5.4), so that progress shows, control frames get through
 *    between them, and a slow reader is told from a dead one.
 * 3. A reader is too slow when nothing moved for `stallMs` though something waited, or when more than
 *    `maxEventBytes` of events wait (rulings: "A slow reader"). Answers wait as long as they move.
 * 4. `onPressure` is told true when the answers that wait exceed `maxAnswerBytes`, false when half is left:
 *    whoever causes answers has to stop meanwhile.
 */
import type { LongText } from "../../actors/session/answer-text.ts";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import type { Backlog, Holder } from "./backlog.ts";

/** What the queue needs of a WebSocket. */
export interface Outlet {
  /** Bytes handed over that the system has not taken yet. */
  readonly bufferedAmount: number;
  /** Sends a text, or (`fin` false) a part that others follow; `flushed` is called once, later. */
  send(data: string | Buffer, fin: boolean, flushed: () => void): void;
}

export interface SendBounds {
  readonly maxEventBytes: number;
  readonly maxAnswerBytes: number;
  readonly stallMs: number;
}

export interface SendListener {
  onPressure(high: boolean): void;
  /** Some of the answers that waited have left. */
  onAnswersSent(): void;
  /** Told once; the queue sends nothing after it. */
  onSlow(): void;
}

/** As much as a slow line carries within the stall time: less would cut honest readers, more hides progress. */
const HANDED_BYTES = 65_536;
const FRAGMENT_BYTES = 65_536;
/** No UTF-16 unit becomes more bytes of UTF-8 than this. */
const UTF8_BYTES_PER_UNIT = 3;

type Kind = "answer" | "event";

interface Waiting {
  readonly sinceMs: number;
  readonly text: string | LongText;
  readonly bytes: number;
  readonly kind: Kind;
}

interface Rest {
  readonly sinceMs: number;
  readonly kind: Kind;
  readonly fragments: Iterator<Buffer, void>;
  leftBytes: number;
}

export class SendQueue implements Holder {
  readonly #outlet: Outlet;
  readonly #bounds: SendBounds;
  readonly #backlog: Backlog;
  readonly #clock: Clock;
  readonly #listener: SendListener;

  #waiting = new Fifo<Waiting>();
  /** What is left of the large text that is leaving in fragments. */
  #rest: Rest | null = null;
  /** Bytes that wait, those of `#rest` included. */
  readonly #bytes: Record<Kind, number> = { answer: 0, event: 0 };
  /** Frames handed over that the system has not taken yet. */
  #unflushed = 0;
  #pressed = false;
  #ended = false;

  #cancelWatch: CancelTimer | null = null;
  #progressAtMs = 0;
  #whenFlushed: (() => void)[] = [];

  constructor(
    outlet: Outlet,
    bounds: SendBounds,
    backlog: Backlog,
    clock: Clock,
    listener: SendListener,
  ) {
    this.#outlet = outlet;
    this.#bounds = bounds;
    this.#backlog = backlog;
    this.#clock = clock;
    this.#listener = listener;
  }

  /** Of the answers that wait. */
  get answerBytes(): number {
    return this.#bytes.answer;
  }

  push(text: string | LongText, kind: Kind): void {
    if (this.#ended) return;
    if (typeof text !== "string") {
      this.#enqueue(text, text.length, kind);
    } else if (this.#mayGoAtOnce(text)) {
      this.#hand(text, true);
    } else {
      this.#enqueue(text, Buffer.byteLength(text), kind);
    }
    if (this.#cancelWatch === null && this.#outlet.bufferedAmount > 0) this.#watch();
  }

  #mayGoAtOnce(text: string): boolean {
    return (
      this.#isEmpty() &&
      text.length * UTF8_BYTES_PER_UNIT <= FRAGMENT_BYTES &&
      this.#outlet.bufferedAmount < HANDED_BYTES
    );
  }

  get waitedMs(): number {
    const first = this.#rest ?? this.#waiting.first;
    return first === undefined ? 0 : this.#clock.monotonicMs() - first.sinceMs;
  }

  /** Resolves when everything has been taken by the system, or the queue has ended. */
  flushed(): Promise<void> {
    if (this.#ended || this.#isFlushed()) return Promise.resolve();
    return new Promise((resolve) => this.#whenFlushed.push(resolve));
  }

  /** Gives its reader up, as one that is too slow. */
  shed(): void {
    if (this.#ended) return;
    this.end();
    this.#listener.onSlow();
  }

  /** Drops what waits and sends nothing any more. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#leaves("answer", this.#bytes.answer);
    this.#leaves("event", this.#bytes.event);
    this.#waiting = new Fifo();
    this.#rest = null;
    this.#cancelWatch?.();
    this.#tellFlushed();
  }

  #enqueue(text: string | LongText, bytes: number, kind: Kind): void {
    this.#waiting.push({ sinceMs: this.#clock.monotonicMs(), text, bytes, kind });
    this.#bytes[kind] += bytes;
    this.#backlog.take(this, bytes);
    this.#pump();
    if (this.#bytes.event > this.#bounds.maxEventBytes) this.shed();
    else this.#tellPressure();
  }

  #leaves(kind: Kind, bytes: number): void {
    this.#bytes[kind] -= bytes;
    this.#backlog.giveBack(this, bytes);
  }

  /** Hands over what the outlet may hold. */
  #pump(): void {
    while (!this.#ended && this.#outlet.bufferedAmount < HANDED_BYTES) {
      if (this.#rest !== null) {
        this.#handFragment(this.#rest);
        continue;
      }
      const next = this.#waiting.shift();
      if (next === undefined) return;
      const { text, bytes, kind, sinceMs } = next;
      if (typeof text !== "string" || bytes > FRAGMENT_BYTES) {
        const fragments = fragmentsOf(text);
        this.#handFragment({ sinceMs, kind, fragments, leftBytes: bytes });
      } else {
        this.#leaves(kind, bytes);
        this.#hand(text, true);
      }
    }
  }

  #handFragment(rest: Rest): void {
    const { value: fragment } = rest.fragments.next();
    if (fragment === undefined) throw new TypeError("a text ended before its length");
    rest.leftBytes -= fragment.length;
    const last = rest.leftBytes === 0;
    this.#rest = last ? null : rest;
    this.#leaves(rest.kind, fragment.length);
    this.#hand(fragment, last);
  }

  #hand(data: string | Buffer, fin: boolean): void {
    // It is from now on that something waits; before, nothing could move.
    if (this.#unflushed === 0) this.#progressed();
    this.#unflushed += 1;
    this.#outlet.send(data, fin, this.#onFlushed);
  }

  /** One function for all frames: a frame on the fast way costs no closure. */
  readonly #onFlushed = (): void => {
    this.#unflushed -= 1;
    if (this.#ended) return;
    this.#progressed();
    if (!this.#isEmpty()) {
      const waited = this.#bytes.answer;
      this.#pump();
      this.#tellPressure();
      if (this.#bytes.answer < waited && !this.#ended) this.#listener.onAnswersSent();
    }
    if (this.#isFlushed()) this.#tellFlushed();
  };

  #isEmpty(): boolean {
    return this.#rest === null && this.#waiting.length === 0;
  }

  #isFlushed(): boolean {
    return this.#unflushed === 0 && this.#isEmpty();
  }

  #tellFlushed(): void {
    if (this.#whenFlushed.length === 0) return;
    const tell = this.#whenFlushed;
    this.#whenFlushed = [];
    for (const flushed of tell) flushed();
  }

  #tellPressure(): void {
    const { maxAnswerBytes } = this.#bounds;
    const high = this.#bytes.answer > (this.#pressed ? maxAnswerBytes / 2 : maxAnswerBytes);
    if (high === this.#pressed || this.#ended) return;
    this.#pressed = high;
    this.#listener.onPressure(high);
  }

  /** At most one timer runs, and only while something waits; progress moves a number, not the timer. */
  #watch(): void {
    this.#progressAtMs = this.#clock.monotonicMs();
    this.#watchFor(this.#bounds.stallMs);
  }

  #progressed(): void {
    if (this.#cancelWatch !== null) this.#progressAtMs = this.#clock.monotonicMs();
  }

  #watchFor(delayMs: number): void {
    this.#cancelWatch = this.#clock.after(delayMs, () => {
      this.#cancelWatch = null;
      if (this.#ended || this.#isFlushed()) return;
      const leftMs = this.#progressAtMs + this.#bounds.stallMs - this.#clock.monotonicMs();
      if (leftMs > 0) this.#watchFor(leftMs);
      else this.shed();
    });
  }
}

function fragmentsOf(text: string | LongText): Iterator<Buffer, void> {
  return typeof text === "string" ? slices(Buffer.from(text)) : text.fragments(FRAGMENT_BYTES);
}

function* slices(data: Buffer): Generator<Buffer, void> {
  for (let at = 0; at < data.length; at += FRAGMENT_BYTES) {
    yield data.subarray(at, at + FRAGMENT_BYTES);
  }
}

/** First in, first out, without moving what is behind at each step. */
class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#items[this.#head] = undefined;
    this.#head += 1;
    if (this.#head === this.#items.length) {
      this.#items = [];
      this.#head = 0;
    } else if (this.#head >= COMPACT_FROM && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

const COMPACT_FROM = 256;
