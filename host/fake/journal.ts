/** The output of a fake host's containers: a few earlier lines, then two a second, for any name. */
import type { Clock } from "../clock.ts";
import type { Journal, JournalLine } from "../machine/journal.ts";

const EARLIER_LINES = 5;
const LINE_EVERY_MS = 500;
/** One line in so many is an error. */
const ERROR_EVERY = 5;

export class FakeJournal implements Journal {
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async follow(
    _container: string,
    { resumed, signal }: Parameters<Journal["follow"]>[1],
  ): Promise<AsyncIterable<JournalLine>> {
    return this.#lines(resumed ? EARLIER_LINES + 1 : 1, signal);
  }

  async *#lines(first: number, signal: AbortSignal): AsyncGenerator<JournalLine> {
    const startMs = this.#clock.nowMs() - EARLIER_LINES * LINE_EVERY_MS;
    for (let number = first; !signal.aborted; number += 1) {
      if (number > EARLIER_LINES) await this.#pause(signal);
      if (signal.aborted) return;
      const atMs = number > EARLIER_LINES ? this.#clock.nowMs() : startMs + number * LINE_EVERY_MS;
      yield {
        ts: new Date(atMs).toISOString(),
        stream: number % ERROR_EVERY === 0 ? "stderr" : "stdout",
        line: `line ${number} of a container that only pretends to run`,
      };
    }
  }

  #pause(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const go = (): void => {
        cancel();
        signal.removeEventListener("abort", go);
        resolve();
      };
      const cancel = this.#clock.after(LINE_EVERY_MS, go);
      signal.addEventListener("abort", go);
      if (signal.aborted) go();
    });
  }
}
