/**
 * Owns whether a socket's peer is still there: our pings, its pings, and the time since it last sent a byte.
 *
 * 1. It is pinged each `pingMs`, and given up after `idleMs` without a byte (rulings: "Liveness").
 * 2. While we do not read, the silence is ours and does not count.
 * 3. A peer that is attended to is pinged more often, and its silence is told long before it is given up.
 * 4. One pong at a time is under way; of the pings that come meanwhile only the last is answered
 *    (RFC 6455 5.5.3), so that a flood of them costs nothing.
 */
import type { Attention } from "../../actors/session/connection.ts";
import type { CancelTimer, Clock } from "../../host/clock.ts";

/** What is watched of a socket. */
export interface Watched {
  /** Bytes received so far, those of unfinished frames included. */
  readonly bytesRead: number;
  /** True while we take nothing from it. */
  readonly paused: boolean;
  ping(): void;
  /** `sent` is called when the system has taken it. */
  pong(data: Buffer, sent: () => void): void;
}

export interface LivenessTimes {
  readonly pingMs: number;
  readonly idleMs: number;
}

export class Liveness {
  readonly #watched: Watched;
  readonly #times: LivenessTimes;
  readonly #clock: Clock;
  readonly #onIdle: () => void;
  #heardAtMs = 0;
  #heardBytes = 0;
  #pingAtMs: number;
  #cancelTimer: CancelTimer = () => {};
  #attention: Attention | null = null;
  #answering = true;
  #pongUnderWay = false;
  #owedPong: Buffer | null = null;
  #stopped = false;

  constructor(watched: Watched, times: LivenessTimes, clock: Clock, onIdle: () => void) {
    this.#watched = watched;
    this.#times = times;
    this.#clock = clock;
    this.#onIdle = onIdle;
    this.#pingAtMs = clock.monotonicMs() + times.pingMs;
    this.heard();
    this.#schedule();
  }

  /** Something whole has come, or we begin to read again. */
  heard(): void {
    this.#heardAtMs = this.#clock.monotonicMs();
    this.#heardBytes = this.#watched.bytesRead;
    this.#setAnswering(true);
  }

  /** How long ago it was last heard, in ms. */
  get silentForMs(): number {
    return this.#clock.monotonicMs() - this.#heardAtMs;
  }

  attend(attention: Attention): void {
    if (this.#stopped) return;
    this.#attention = attention;
    this.#pingAtMs = this.#clock.monotonicMs() + attention.pingMs;
    this.#cancelTimer();
    this.#schedule();
  }

  pinged(data: Buffer): void {
    this.heard();
    // A copy: the data is a view of the whole chunk that was read.
    if (this.#pongUnderWay) this.#owedPong = Buffer.from(data);
    else this.#pong(data);
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
  }

  #pong(data: Buffer): void {
    this.#pongUnderWay = true;
    this.#watched.pong(data, () => {
      this.#pongUnderWay = false;
      const owed = this.#owedPong;
      this.#owedPong = null;
      if (owed !== null && !this.#stopped) this.#pong(owed);
    });
  }

  #setAnswering(answering: boolean): void {
    if (this.#answering === answering || this.#stopped) return;
    this.#answering = answering;
    this.#attention?.onAnswering(answering);
  }

  #schedule(): void {
    // Once it is silent, only its end is left to wait for.
    const silenceMs = (this.#answering && this.#attention?.silentMs) || this.#times.idleMs;
    const nextMs = Math.min(this.#pingAtMs, this.#heardAtMs + silenceMs);
    this.#cancelTimer = this.#clock.after(nextMs - this.#clock.monotonicMs(), () => this.#wake());
  }

  #wake(): void {
    // A large frame that comes in slowly is traffic too.
    if (this.#watched.bytesRead !== this.#heardBytes || this.#watched.paused) this.heard();
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#heardAtMs >= this.#times.idleMs) {
      this.#onIdle();
      return;
    }
    if (this.#attention !== null && nowMs - this.#heardAtMs >= this.#attention.silentMs) {
      this.#setAnswering(false);
    }
    if (nowMs >= this.#pingAtMs) {
      this.#pingAtMs = nowMs + (this.#attention?.pingMs ?? this.#times.pingMs);
      this.#watched.ping();
    }
    this.#schedule();
  }
}
