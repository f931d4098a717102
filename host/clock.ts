/**
 * Owns time. Everything that waits, expires or stamps takes a `Clock`, so that a test can bend it.
 * Intervals are always measured on the monotonic reading: the wall clock may jump.
 */

/** Cancels a timer; calling it again, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

export interface Clock {
  /** Wall-clock time in Unix milliseconds. */
  nowMs(): number;
  /** Milliseconds on a clock that never goes back; its zero means nothing. */
  monotonicMs(): number;
  /** Calls `fire` once after `delayMs`. A timer never keeps the process alive by itself. */
  after(delayMs: number, fire: () => void): CancelTimer;
}

/** `setTimeout` fires at once for a longer delay (2^31 - 1 ms), so a longer wait is taken in parts. */
const LONGEST_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(delayMs, fire) {
    let timer: NodeJS.Timeout;
    const arm = (leftMs: number): void => {
      const partMs = Math.min(leftMs, LONGEST_TIMER_MS);
      timer = setTimeout(() => (leftMs > partMs ? arm(leftMs - partMs) : fire()), partMs);
      timer.unref();
    };
    arm(Math.max(0, delayMs));
    return () => clearTimeout(timer);
  },
};
