/** Owns what is known of a program's output streams: which are still open, and when something last came. */
import type { Clock } from "./clock.ts";
import type { OutputStream } from "./spawner.ts";

export class OpenStreams {
  /** Resolves when both have ended. */
  readonly ended: Promise<void>;
  readonly #clock: Clock;
  readonly #open = new Set<OutputStream>(["stdout", "stderr"]);
  readonly #end = Promise.withResolvers<void>();
  /** Monotonic time of the last byte. */
  #heardMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#heardMs = clock.monotonicMs();
    this.ended = this.#end.promise;
  }

  /** Whether somebody could still write. */
  get any(): boolean {
    return this.#open.size > 0;
  }

  heard(): void {
    this.#heardMs = this.#clock.monotonicMs();
  }

  end(stream: OutputStream): void {
    this.#open.delete(stream);
    if (this.#open.size === 0) this.#end.resolve();
  }

  /** Resolves when both have ended, or nothing came for `graceMs`. */
  async quiet(graceMs: number): Promise<void> {
    let silentMs = 0;
    while (this.any && silentMs < graceMs) {
      await this.endedWithin(graceMs - silentMs);
      silentMs = this.#clock.monotonicMs() - this.#heardMs;
    }
  }

  /** Resolves when both have ended, after `withinMs` at the latest. */
  async endedWithin(withinMs: number): Promise<void> {
    if (!this.any) return;
    let cancel = (): void => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.#clock.after(withinMs, resolve);
    });
    await Promise.race([this.ended, late]);
    cancel();
  }
}
