/**
 * Owns the outputs of the runs that ended last: in memory only, at most 16, for 24 hours. What falls out
 * loses its bytes, never its receipt (node-host-io.md, "Receipt meaning and reconciliation").
 */
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { PROCESS_BOUNDS } from "../../protocol/process.ts";
import type { Outputs } from "./receipt.ts";

export class OutputCache {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #kept = new Map<string, { readonly outputs: Outputs; readonly expire: CancelTimer }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** An id ends once, so it is put once. */
  put(id: string, outputs: Outputs): void {
    const expire = this.#clock.after(PROCESS_BOUNDS.cachedOutputMs, () => this.#kept.delete(id));
    this.#kept.set(id, { outputs, expire });
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined && this.#kept.size > PROCESS_BOUNDS.cachedOutputs) this.#drop(oldest);
  }

  get(id: string): Outputs | null {
    return this.#kept.get(id)?.outputs ?? null;
  }

  clear(): void {
    for (const id of [...this.#kept.keys()]) this.#drop(id);
  }

  #drop(id: string): void {
    this.#kept.get(id)?.expire();
    this.#kept.delete(id);
  }
}
