/** Owns the words between a supervisor and the plan by which it restarts its children. */
import type { Clock } from "../host/clock.ts";
import type { Child } from "./child.ts";

/** What a plan may ask of its supervisor. */
export interface Family {
  readonly clock: Clock;
  /** The children in the order in which they were added. */
  children(): Iterable<Child>;
  /**
   * Counts a restart of this child. Returns how long to wait before it, in ms, or null when that was one
   * too many: the supervisor is then ending, and the plan is cancelled.
   */
  spend(child: Child, uptimeMs: number): number | null;
}

/** One plan serves one life of a supervisor. */
export interface RestartPlan {
  /** Runs the first start of a new child when the order of the children allows it. */
  inTurn<T>(start: () => Promise<T>): Promise<T>;
  /** Begins a life for every child, in order: a supervisor that was restarted. Resolves when all had their try. */
  startAll(): Promise<void>;
  /** A life ended that calls for a restart. */
  childFailed(child: Child, uptimeMs: number): void;
  /** The child is gone for good. */
  forget(child: Child): void;
  /** The supervisor is ending: nothing more is started. */
  cancel(): void;
}
