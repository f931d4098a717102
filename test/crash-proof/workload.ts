/**
 * Owns what is asked of the fleet in a crash run: for each id one story (run, run and cancel at once,
 * cancel first, …), with everything asked and answered written down. It never stops for an error: an
 * error is knowledge of nothing.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Client } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Answer, Call, LedgerLine } from "./checker.ts";

/** Numbers from 0 up to, not including, 1; the same for the same seed. */
export type Random = () => number;

/** mulberry32: small, and good enough to choose with. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Appends to the ledger by itself, sleeps in between, exits with its own code. */
const SCRIPT = 'echo "began $1" >> "$2"; sleep "$3"; echo "exits $1" >> "$2"; exit "$4"';
const LONGEST_SLEEP_MS = 700;
const OFFLINE_PAUSE_MS = 100;
/** Some runs sleep longer than their timeout. */
const TIMEOUT_MS = { short: 1_000, long: 20_000 } as const;

type Reading = Pick<Answer, "state" | "exitCode">;

interface Plan {
  readonly id: string;
  readonly exitCode: number;
  readonly sleepMs: number;
  readonly timeoutMs: number;
}

export class Workload {
  readonly calls: Call[] = [];
  /** Errors by code: what the faults did to the callers. */
  readonly errors = new Map<string, number>();
  readonly #client: Client;
  readonly #nodeId: string;
  readonly #ledger: string;
  readonly #random: Random;
  readonly #plans = new Map<string, Plan>();

  constructor(client: Client, nodeId: string, work: string, random: Random) {
    this.#client = client;
    this.#nodeId = nodeId;
    this.#ledger = join(work, "ledger");
    this.#random = random;
  }

  get ids(): readonly string[] {
    return [...this.#plans.keys()];
  }

  expectedExit(id: string): number {
    return this.#plans.get(id)?.exitCode ?? -1;
  }

  /** Lives one id's story to its end. */
  async story(id: string): Promise<void> {
    const random = this.#random;
    const overtime = random() < 0.08;
    const plan: Plan = {
      id,
      exitCode: Math.floor(random() * 200),
      sleepMs: overtime ? 3_000 : Math.floor(random() * LONGEST_SLEEP_MS),
      timeoutMs: overtime ? TIMEOUT_MS.short : TIMEOUT_MS.long,
    };
    this.#plans.set(id, plan);
    const kind = random();
    if (kind < 0.15) {
      await this.#cancel(id);
      await this.#run(plan);
    } else if (kind < 0.35) {
      const running = this.#run(plan);
      await this.#pause(random() * plan.sleepMs * 1.5);
      await Promise.all([running, this.#cancel(id), this.#get(id)]);
    } else if (kind < 0.55) {
      await Promise.all([this.#run(plan), this.#run(plan), this.#get(id)]);
    } else {
      await this.#run(plan);
    }
    await this.#get(id);
    // The same intent again: it may tell the receipt, and must not run anew.
    if (random() < 0.4) await this.#run(plan);
    if (random() < 0.2) await this.#cancel(id);
    await this.#get(id);
  }

  /** A strict read after the faults; retried by the caller until it is an answer. */
  async read(id: string): Promise<Reading> {
    return await this.#client.call("node.process.get", { nodeId: this.#nodeId, processId: id });
  }

  async ledger(): Promise<LedgerLine[]> {
    const text = await readFile(this.#ledger, "utf8").catch(() => "");
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => {
        const [event, id = ""] = line.split(" ");
        if (event !== "began" && event !== "exits") throw new Error(`a torn ledger line: ${line}`);
        return { event, id };
      });
  }

  #run({ id, exitCode, sleepMs, timeoutMs }: Plan): Promise<void> {
    return this.#ask("run", id, () =>
      this.#client.call("node.process.run", {
        nodeId: this.#nodeId,
        processId: id,
        cwd: ".",
        argv: [
          "sh",
          "-c",
          SCRIPT,
          "sh",
          id,
          this.#ledger,
          String(sleepMs / 1_000),
          String(exitCode),
        ],
        stdinBase64: "",
        timeoutMs,
        maxOutputBytes: 1_024,
      }),
    );
  }

  #get(id: string): Promise<void> {
    return this.#ask("get", id, () => this.read(id));
  }

  #cancel(id: string): Promise<void> {
    return this.#ask("cancel", id, () =>
      this.#client.call("node.process.cancel", { nodeId: this.#nodeId, processId: id }),
    );
  }

  async #ask(
    operation: Call["operation"],
    id: string,
    call: () => Promise<Reading>,
  ): Promise<void> {
    // What the error says is safe to repeat is asked again, as a caller would; anything else never is.
    while (await this.#attempt(operation, id, call)) await this.#pause(OFFLINE_PAUSE_MS);
  }

  /** One call; true when it may be asked again. */
  async #attempt(
    operation: Call["operation"],
    id: string,
    call: () => Promise<Reading>,
  ): Promise<boolean> {
    await this.#client.ready();
    const sentAt = performance.now();
    try {
      const { state, exitCode } = await call();
      const answer = { state, exitCode, receivedAt: performance.now() };
      this.calls.push({ operation, id, sentAt, answer });
      return false;
    } catch (failure) {
      const code = failure instanceof Error && "code" in failure ? String(failure.code) : "foreign";
      this.errors.set(code, (this.errors.get(code) ?? 0) + 1);
      this.calls.push({ operation, id, sentAt, answer: null });
      return failure instanceof LemonError && failure.retrySafe;
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }
}
