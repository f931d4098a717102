/**
 * Owns the judgement that a peer is gone although its socket says nothing (a pulled plug, a frozen host).
 *
 * 1. Anything heard is a sign of life; only silence after an unanswered probe is death.
 * 2. One timer, re-armed when it fires: hearing costs one assignment.
 */
import type { Timers } from "./timers.ts";

export interface LivenessPolicy {
  /** Silence after which the peer is probed, in ms. */
  readonly silenceMs: number;
  /** How long the probe may stay unanswered, in ms. */
  readonly probeMs: number;
}

/** What existing clients do (control-plane-wire.md 1.7): three ticks, and never below 10 s. */
export function livenessFor(tickIntervalMs: number): LivenessPolicy {
  return { silenceMs: Math.max(3 * tickIntervalMs, 10_000), probeMs: 10_000 };
}

export class Liveness {
  readonly #timers: Timers;
  readonly #policy: LivenessPolicy;
  readonly #probe: () => void;
  readonly #dead: () => void;
  #heardAtMs: number;
  #cancel: () => void;

  constructor(timers: Timers, policy: LivenessPolicy, probe: () => void, dead: () => void) {
    this.#timers = timers;
    this.#policy = policy;
    this.#probe = probe;
    this.#dead = dead;
    this.#heardAtMs = timers.monotonicMs();
    this.#cancel = timers.after(policy.silenceMs, () => this.#check());
  }

  heard(): void {
    this.#heardAtMs = this.#timers.monotonicMs();
  }

  stop(): void {
    this.#cancel();
  }

  #check(): void {
    const leftMs = this.#heardAtMs + this.#policy.silenceMs - this.#timers.monotonicMs();
    if (leftMs > 0) {
      this.#cancel = this.#timers.after(leftMs, () => this.#check());
      return;
    }
    this.#ask();
  }

  #ask(): void {
    const { probeMs } = this.#policy;
    const heardBefore = this.#heardAtMs;
    const askedAtMs = this.#timers.monotonicMs();
    this.#cancel = this.#timers.after(probeMs, () => {
      if (this.#heardAtMs !== heardBefore) this.#check();
      // A timer this late says that we were held up, not the peer: its answer may lie unread.
      else if (this.#timers.monotonicMs() - askedAtMs > 2 * probeMs) this.#ask();
      else this.#dead();
    });
    this.#probe();
  }
}
