/** Owns the bar that a transfer draws: on a terminal only, on one line of stderr, and gone when it is over. */
import { bytesText, printable } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";

/** No more often than this, in ms: a terminal may be slow. */
const DRAW_EVERY_MS = 100;
const BAR_COLUMNS = 24;
const LABEL_COLUMNS = 32;

export class Progress {
  readonly #shell: Shell;
  readonly #label: string;
  readonly #total: number;
  readonly #isShown: boolean;
  #drawnAtMs = Number.NEGATIVE_INFINITY;

  constructor(shell: Shell, report: Report, label: string, totalBytes: number) {
    this.#shell = shell;
    this.#label = printable(label, LABEL_COLUMNS);
    this.#total = totalBytes;
    this.#isShown = shell.stderr.isTerminal && !report.json;
  }

  async at(bytes: number): Promise<void> {
    const nowMs = this.#shell.timers.monotonicMs();
    if (!this.#isShown || nowMs - this.#drawnAtMs < DRAW_EVERY_MS) return;
    this.#drawnAtMs = nowMs;
    const share = this.#total === 0 ? 1 : Math.min(1, bytes / this.#total);
    const full = Math.round(share * BAR_COLUMNS);
    const bar = "#".repeat(full) + "-".repeat(BAR_COLUMNS - full);
    const percent = String(Math.floor(share * 100)).padStart(3);
    const of = `${bytesText(bytes)} of ${bytesText(this.#total)}`;
    await this.#shell.stderr.write(`\r\u001b[K${this.#label}  [${bar}] ${percent}%  ${of}`);
  }

  async end(): Promise<void> {
    if (this.#isShown) await this.#shell.stderr.write("\r\u001b[K");
  }
}
