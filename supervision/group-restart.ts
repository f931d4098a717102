/**
 * Owns `one_for_all` and `rest_for_one`: the children that fall with a failed one. Invariants:
 * 1. They are stopped in reverse order, wait out one back-off together, and start in order, each when the
 *    one before it is up.
 * 2. A member that fails while its group is being stopped or waits fell with the group: it costs no restart
 *    of its own. One that fails while the group starts is a new failure, and so is a child before the group.
 * 3. At most one recovery at a time; a new failure makes it begin again from where that failure reaches.
 * 4. First starts happen one at a time, and not during a recovery: what they depend on may be down.
 */
import type { Child } from "./child.ts";
import type { Family, RestartPlan } from "./restart-plan.ts";

type Phase = "idle" | "stopping" | "waiting" | "starting";

export class GroupRestart implements RestartPlan {
  readonly #family: Family;
  readonly #all: boolean;
  #phase: Phase = "idle";
  #cancelled = false;
  /** The group: every child of this order and later. */
  #from = Number.NEGATIVE_INFINITY;
  #delayMs = 0;
  /** A failure came in during the recovery: begin again. */
  #again = false;
  /** Ends whatever the recovery waits for. */
  #interrupt: () => void = () => {};
  #recovered: Promise<void> = Promise.resolve();
  #lastFirstStart: Promise<unknown> = Promise.resolve();

  constructor(family: Family, strategy: "one_for_all" | "rest_for_one") {
    this.#family = family;
    this.#all = strategy === "one_for_all";
  }

  inTurn<T>(start: () => Promise<T>): Promise<T> {
    const started = this.#lastFirstStart.then(async () => {
      while (this.#phase !== "idle" && !this.#cancelled) await this.#recovered;
      return start();
    });
    // The next in turn does not care how this one came out; its caller does.
    this.#lastFirstStart = started.catch(() => {});
    return started;
  }

  startAll(): Promise<void> {
    this.#recovered = this.#recover({ startOnly: true });
    return this.#recovered;
  }

  childFailed(child: Child, uptimeMs: number): void {
    const falling = this.#phase === "stopping" || this.#phase === "waiting";
    if (falling && child.order >= this.#from) return;
    const delayMs = this.#family.spend(child, uptimeMs);
    if (delayMs === null) return;
    this.#from = this.#all ? Number.NEGATIVE_INFINITY : child.order;
    this.#delayMs = delayMs;
    if (this.#phase === "idle") {
      this.#recovered = this.#recover({ startOnly: false });
    } else {
      this.#again = true;
      this.#interrupt();
    }
  }

  forget(): void {}

  cancel(): void {
    this.#cancelled = true;
    this.#interrupt();
  }

  async #recover({ startOnly }: { startOnly: boolean }): Promise<void> {
    if (startOnly) await this.#startGroup();
    else this.#again = true;
    while (this.#again && !this.#cancelled) {
      this.#again = false;
      const stopped = await this.#stopGroup();
      const waited = stopped && (await this.#wait());
      if (waited) await this.#startGroup();
    }
    this.#phase = "idle";
  }

  // Each step says whether the next may follow: no, once a new failure or the supervisor's end came in.

  async #stopGroup(): Promise<boolean> {
    this.#phase = "stopping";
    for (const child of this.#group().reverse()) {
      await child.halt();
      if (this.#interrupted()) return false;
    }
    return true;
  }

  async #wait(): Promise<boolean> {
    this.#phase = "waiting";
    await new Promise<void>((resolve) => {
      const cancelTimer = this.#family.clock.after(this.#delayMs, resolve);
      this.#interrupt = () => {
        cancelTimer();
        resolve();
      };
    });
    return !this.#interrupted();
  }

  async #startGroup(): Promise<boolean> {
    this.#phase = "starting";
    for (const child of this.#group()) {
      if (!child.born || child.alive || child.discarded) continue;
      await this.#unlessInterrupted(child.begin());
      if (this.#interrupted()) return false;
    }
    return true;
  }

  #interrupted(): boolean {
    return this.#again || this.#cancelled;
  }

  async #unlessInterrupted(done: Promise<unknown>): Promise<void> {
    const interrupted = new Promise<void>((resolve) => {
      this.#interrupt = resolve;
    });
    await Promise.race([done, interrupted]);
  }

  #group(): Child[] {
    return [...this.#family.children()].filter((child) => child.order >= this.#from);
  }
}
