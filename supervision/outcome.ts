/**
 * Owns the questions about what an actor's code returned or threw. Both may be anything, down to a proxy
 * whose traps throw; only `isThenable` lets that out, to where it counts as the actor's crash.
 */
import { LemonError } from "../protocol/errors.ts";

/** Whether what was returned is still to come. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    (typeof value === "object" || typeof value === "function") &&
    value !== null &&
    "then" in value &&
    typeof value.then === "function"
  );
}

/** Whether what was thrown is an answer, and no crash. */
export function isRefusal(error: unknown): error is LemonError {
  return unlessItThrows(() => error instanceof LemonError, false);
}

/** What an error is asked for may throw in turn: then it says nothing. */
export function unlessItThrows<T>(ask: () => T, nothing: T): T {
  try {
    return ask();
  } catch {
    return nothing;
  }
}
