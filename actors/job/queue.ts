/**
 * Owns the order in which jobs begin (host-agent contract, "Per-job declared attributes"). Invariants:
 *
 * 1. Of one class one runs at a time, in the order of arrival; those of class `none` do not wait for each other.
 * 2. A dangerous job begins when nothing runs, and nothing begins beside it.
 * 3. First come, first served across a dangerous job: nothing that came after it begins before it, and it
 *    begins before nothing that came before it. So neither side starves the other.
 * 4. One that is not ready yet holds its place, and does not begin.
 */
import type { JobAttributes } from "./kind.ts";

type Place = Pick<JobAttributes, "dangerous" | "resourceClass">;

export class JobQueue<Job extends Place> {
  /** In order of arrival. */
  readonly #waiting: Job[] = [];
  readonly #running = new Set<Job>();
  readonly #unready = new Set<Job>();

  get size(): number {
    return this.#waiting.length + this.#running.size;
  }

  get waiting(): readonly Job[] {
    return this.#waiting;
  }

  get running(): ReadonlySet<Job> {
    return this.#running;
  }

  /** Takes a place; it is kept for the job until it is `ready`. */
  enter(job: Job): void {
    this.#waiting.push(job);
    this.#unready.add(job);
  }

  ready(job: Job): void {
    this.#unready.delete(job);
  }

  /** It waits no more, or has ended. */
  leave(job: Job): void {
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#running.delete(job);
    this.#unready.delete(job);
  }

  /** Those whose turn it is now, in order: they run from here on. */
  begin(): readonly Job[] {
    const begun: Job[] = [];
    const ahead: Job[] = [];
    for (const job of [...this.#waiting]) {
      const isTurn =
        !this.#unready.has(job) &&
        ahead.every((other) => !excludes(job, other)) &&
        [...this.#running].every((other) => !excludes(job, other));
      if (!isTurn) {
        ahead.push(job);
        continue;
      }
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      this.#running.add(job);
      begun.push(job);
    }
    return begun;
  }

  /** From 1: how many that wait are to begin before this one, and itself. Null when it does not wait. */
  positionOf(job: Job): number | null {
    const at = this.#waiting.indexOf(job);
    if (at < 0) return null;
    const before = this.#waiting.slice(0, at);
    // All that came before a dangerous one begins before what came after it.
    const barrier = job.dangerous ? at : before.findLastIndex((other) => other.dangerous) + 1;
    return barrier + before.slice(barrier).filter((other) => excludes(job, other)).length + 1;
  }
}

/** Whether two jobs may not run at the same time. */
function excludes(a: Place, b: Place): boolean {
  if (a.dangerous || b.dangerous) return true;
  return a.resourceClass !== "none" && a.resourceClass === b.resourceClass;
}
