/**
 * Owns whether a socket's peer is still there: our pings, its pings, and the time since it last sent a byte.
 *
 * 1. It is pinged each `pingMs`, and given up after `idleMs` without a byte (rulings: "Liveness").
 * 2. While we do not read, the silence is ours and does not count.
 * 3. One pong at a time is under way; of the pings that come meanwhile only the last is answered
 *    (RFC 6455 5.5.3), so that a flood of them costs nothing.
 */
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

  #schedule(): void {
    const nextMs = Math.min(this.#pingAtMs, this.#heardAtMs + this.#times.idleMs);
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
    if (nowMs >= this.#pingAtMs) {
      this.#pingAtMs = nowMs + this.#times.pingMs;
      this.#watched.ping();
    }
    this.#schedule();
  }
}
