/** Owns what is said of a tree that was copied: what went, and what was left out and why. */
import { EXIT } from "../exit.ts";
import { bytesText, pathText, printable } from "../printable.ts";
import type { Report } from "../report.ts";

export class TreeReport {
  readonly #report: Report;
  #files = 0;
  #bytes = 0;
  #leftOut = 0;
  #alreadyThere = 0;

  constructor(report: Report) {
    this.#report = report;
  }

  went(size: number): void {
    this.#files += 1;
    this.#bytes += size;
  }

  /** The very same was there before. */
  wasThere(): void {
    this.#alreadyThere += 1;
  }

  async leftOut(path: string, why: string): Promise<void> {
    this.#leftOut += 1;
    await this.#report.message(`left out: ${pathText(path)} (${printable(why)})`);
  }

  /** The exit code: a copy with something left out is not the whole. */
  async end(nodeId: string, from: string, to: string): Promise<number> {
    const document = {
      nodeId,
      from,
      to,
      files: this.#files,
      bytes: this.#bytes,
      alreadyThere: this.#alreadyThere,
      leftOut: this.#leftOut,
    };
    const files = this.#files === 1 ? "1 file" : `${this.#files} files`;
    const before = this.#alreadyThere === 0 ? "" : `; ${this.#alreadyThere} were there already`;
    await this.#report.result(
      document,
      () => `${pathText(to)}: ${files}, ${bytesText(this.#bytes)}${before}\n`,
    );
    return this.#leftOut === 0 ? EXIT.ok : EXIT.failure;
  }
}
