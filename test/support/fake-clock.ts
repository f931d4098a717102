/**
 * Owns bent time for tests. Nothing happens until `advance`, which fires the timers that come due, in
 * order, each at its own instant, and lets what they set off run before the next.
 */
import type { CancelTimer, Clock } from "../../host/clock.ts";

/**
 * Rounds of the event loop after which work without real input or output has come to rest: the longest
 * chain of hand-overs in the kernel (a supervisor restarting a whole group) takes a handful.
 */
const ROUNDS = 25;

/** Lets promises and immediates run until they have come to rest. Waits for no real timer, file or socket. */
export async function settle(): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

interface Timer {
  readonly atMs: number;
  readonly fire: () => void;
}

export class FakeClock implements Clock {
  #elapsedMs = 0;
  #wallOffsetMs: number;
  readonly #timers = new Set<Timer>();

  /** `startMs` is the wall clock's first reading; the monotonic one begins at 1,000. */
  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#wallOffsetMs = startMs;
  }

  nowMs(): number {
    return this.#wallOffsetMs + this.#elapsedMs;
  }

  monotonicMs(): number {
    return 1_000 + this.#elapsedMs;
  }

  after(delayMs: number, fire: () => void): CancelTimer {
    const timer = { atMs: this.#elapsedMs + Math.max(0, delayMs), fire };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Timers that are set and have neither fired nor been cancelled. */
  get pending(): number {
    return this.#timers.size;
  }

  async advance(byMs: number): Promise<void> {
    const endMs = this.#elapsedMs + byMs;
    await settle();
    for (let next = this.#nextUntil(endMs); next !== null; next = this.#nextUntil(endMs)) {
      this.#timers.delete(next);
      this.#elapsedMs = Math.max(this.#elapsedMs, next.atMs);
      next.fire();
      await settle();
    }
    this.#elapsedMs = endMs;
  }

  /** Moves time without letting a due timer fire, as a busy event loop does; the next `advance` fires it. */
  stall(byMs: number): void {
    this.#elapsedMs += byMs;
  }

  /** Sets the wall clock forward or back; the monotonic reading does not notice. */
  jumpWallClock(byMs: number): void {
    this.#wallOffsetMs += byMs;
  }

  /** The earliest timer due by then; of two at one instant the one that was set first. */
  #nextUntil(endMs: number): Timer | null {
    let next: Timer | null = null;
    for (const timer of this.#timers) {
      if (timer.atMs <= endMs && (next === null || timer.atMs < next.atMs)) next = timer;
    }
    return next;
  }
}
