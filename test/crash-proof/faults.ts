/** Owns the harm done in a crash run: about one fault a second, each healed by itself. */
import type { CrashFleet, Victim } from "./fleet.ts";
import type { Random } from "./workload.ts";

const VICTIMS: readonly Victim[] = ["controller", "worker", "hub", "leaf"];
const MEAN_GAP_MS = 1_000;
const LONGEST_CUT_MS = 1_500;
const LONGEST_FULL_MS = 1_000;

export class Faults {
  readonly counts = new Map<string, number>();
  readonly #fleet: CrashFleet;
  readonly #random: Random;
  #stopped = false;

  constructor(fleet: CrashFleet, random: Random) {
    this.#fleet = fleet;
    this.#random = random;
  }

  /** Harms until `stop`; resolves when everything that heals by itself is healed. */
  async begin(): Promise<void> {
    while (!this.#stopped) {
      await pause((0.5 + this.#random()) * MEAN_GAP_MS);
      if (!this.#stopped) await this.#harm();
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  async #harm(): Promise<void> {
    const { disk, proxy } = this.#fleet;
    const kind = this.#random();
    if (kind < 0.2) {
      proxy.refuse(true);
      proxy.cut();
      await pause(this.#random() * LONGEST_CUT_MS);
      proxy.refuse(false);
      this.#count("link cut");
    } else if (kind < 0.35 && disk !== null) {
      disk.fill();
      await pause(this.#random() * LONGEST_FULL_MS);
      disk.free();
      this.#count("disk full");
    } else {
      const victim = VICTIMS[Math.floor(this.#random() * VICTIMS.length)] ?? "worker";
      if (await this.#fleet.kill(victim)) this.#count(`kill -9 ${victim}`);
    }
  }

  #count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
