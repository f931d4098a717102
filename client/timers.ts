/** Owns the client's view of time: monotonic, and bendable by a test. `host/clock.ts` fits it too. */

export interface Timers {
  /** Milliseconds on a clock that never goes back. */
  monotonicMs(): number;
  /** Calls `fire` once after `delayMs`; the answer cancels it. */
  after(delayMs: number, fire: () => void): () => void;
}

/** The platform's timers. They keep a Node process alive: a client that waits to reconnect is at work. */
export const platformTimers: Timers = {
  monotonicMs: () => performance.now(),
  after(delayMs, fire) {
    const timer = setTimeout(fire, delayMs);
    return () => clearTimeout(timer);
  },
};
