/**
 * Owns `one_for_one`: each child waits out its own back-off and is started again by itself, whatever the
 * others do.
 */
import type { Child } from "./child.ts";
import type { Family, RestartPlan } from "./restart-plan.ts";

export class OneForOne implements RestartPlan {
  readonly #family: Family;
  readonly #waiting = new Map<Child, () => void>();
  #cancelled = false;

  constructor(family: Family) {
    this.#family = family;
  }

  inTurn<T>(start: () => Promise<T>): Promise<T> {
    return start();
  }

  async startAll(): Promise<void> {
    // Children that are added meanwhile start by themselves, and wait out their own back-off.
    for (const child of [...this.#family.children()]) {
      if (this.#cancelled) return;
      if (child.born && !child.alive && !child.discarded) await child.begin();
    }
  }

  childFailed(child: Child, uptimeMs: number): void {
    const delayMs = this.#family.spend(child, uptimeMs);
    if (delayMs === null) return;
    const cancelTimer = this.#family.clock.after(delayMs, () => {
      this.#waiting.delete(child);
      void child.begin();
    });
    this.#waiting.set(child, cancelTimer);
  }

  forget(child: Child): void {
    this.#waiting.get(child)?.();
    this.#waiting.delete(child);
  }

  cancel(): void {
    this.#cancelled = true;
    for (const cancelTimer of this.#waiting.values()) cancelTimer();
    this.#waiting.clear();
  }
}
