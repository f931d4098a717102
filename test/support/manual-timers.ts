/** Owns the client's time in a test: it moves only when the test says so. */
import type { Timers } from "../../client/index.ts";

export class ManualTimers implements Timers {
  #nowMs = 0;
  readonly #armed = new Set<{ readonly atMs: number; readonly fire: () => void }>();
  readonly #waiting: (() => void)[] = [];

  monotonicMs(): number {
    return this.#nowMs;
  }

  after(delayMs: number, fire: () => void): () => void {
    const timer = { atMs: this.#nowMs + delayMs, fire };
    this.#armed.add(timer);
    for (const resolve of this.#waiting.splice(0)) resolve();
    return () => this.#armed.delete(timer);
  }

  /** Delays of the timers that are armed, in ms from now, soonest first. */
  get delaysMs(): number[] {
    return [...this.#armed].map(({ atMs }) => atMs - this.#nowMs).sort((a, b) => a - b);
  }

  /** Resolves when a timer is armed whose delay is met by `wanted`. */
  async armed(wanted: (delayMs: number) => boolean): Promise<number> {
    for (;;) {
      const delayMs = this.delaysMs.find(wanted);
      if (delayMs !== undefined) return delayMs;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Moves time on at a stroke, as after a suspension: what fell due on the way fires late. */
  oversleep(ms: number): void {
    this.#nowMs += ms;
    this.advance(0);
  }

  /** Moves time on and fires, in order, what falls due on the way. */
  advance(ms: number): void {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      const [due] = [...this.#armed]
        .filter(({ atMs }) => atMs <= untilMs)
        .sort((a, b) => a.atMs - b.atMs);
      if (due === undefined) break;
      this.#armed.delete(due);
      this.#nowMs = Math.max(this.#nowMs, due.atMs);
      due.fire();
    }
    this.#nowMs = untilMs;
  }
}
