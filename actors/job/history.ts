/** Owns what the store knows of the jobs of earlier lives: read when somebody first asks, once. */
import type { JobReceipts } from "./job.ts";
import type { JobState } from "./state.ts";
import { ENDED_LISTED } from "./table.ts";

/** Reads under way at a time: they hide each other's round trip. */
const READERS = 32;

export interface StoredJob {
  readonly id: string;
  readonly state: JobState;
}

export class JobHistory {
  readonly #receipts: Pick<JobReceipts, "read" | "ids">;
  #latest: Promise<readonly StoredJob[]> | null = null;

  constructor(receipts: Pick<JobReceipts, "read" | "ids">) {
    this.#receipts = receipts;
  }

  /** The last 256 that were ended when this was first asked, the latest first. Errors: those of the store. */
  async latest(): Promise<readonly StoredJob[]> {
    this.#latest ??= this.#read();
    try {
      return await this.#latest;
    } catch (failure) {
      // The next one who asks finds out whether the store answers again.
      this.#latest = null;
      throw failure;
    }
  }

  async #read(): Promise<readonly StoredJob[]> {
    const left = [...(await this.#receipts.ids())];
    const found: StoredJob[] = [];
    const readers = Array.from({ length: READERS }, async () => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) {
        const receipt = await this.#receipts.read(id);
        if (receipt?.state.phase === "ended") found.push({ id, state: receipt.state });
      }
    });
    await Promise.all(readers);
    found.sort((a, b) => b.state.queuedAtMs - a.state.queuedAtMs);
    return found.slice(0, ENDED_LISTED);
  }
}
