/**
 * Owns the count of a supervisor's restarts in a sliding window of monotonic time. Invariants:
 * 1. A restart counts for `windowMs`, that instant included, and then no more.
 * 2. At most `restarts` + 1 of them are remembered.
 */
import type { Intensity } from "./actor.ts";

interface Restarted<C> {
  readonly atMs: number;
  readonly child: C;
}

export class RestartWindow<C> {
  readonly #intensity: Intensity;
  #restarts: Restarted<C>[] = [];

  constructor(intensity: Intensity) {
    this.#intensity = intensity;
  }

  /** Counts a restart of the child; false when it was one more than the window allows. */
  spend(child: C, nowMs: number): boolean {
    this.#forgetBefore(nowMs);
    this.#restarts.push({ atMs: nowMs, child });
    return this.#restarts.length <= this.#intensity.restarts;
  }

  /** How many restarts the window holds: of one child, or of all. */
  spent(nowMs: number, child?: C): number {
    this.#forgetBefore(nowMs);
    if (child === undefined) return this.#restarts.length;
    return this.#restarts.filter((restarted) => restarted.child === child).length;
  }

  left(nowMs: number): number {
    return Math.max(0, this.#intensity.restarts - this.spent(nowMs));
  }

  clear(): void {
    this.#restarts = [];
  }

  #forgetBefore(nowMs: number): void {
    const oldestMs = nowMs - this.#intensity.windowMs;
    const kept = this.#restarts.findIndex((restarted) => restarted.atMs >= oldestMs);
    if (kept !== 0) this.#restarts = kept < 0 ? [] : this.#restarts.slice(kept);
  }
}
