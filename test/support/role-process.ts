/** Owns a role of the real program (`lemon up`, `start`, `node join`) as a child that tests start, kill and restart. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

const LAUNCHER = join(import.meta.dirname, "../../bin/lemon.mjs");

/** As `npm start` and `bin/lemon` start it. */
const AS_STARTED = "--max-semi-space-size=4";

export type RoleEvent = Readonly<Record<string, unknown>> & { readonly event: string };

export interface RoleOptions {
  readonly home: string;
  readonly environment?: Readonly<Record<string, string>>;
}

const living = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

export class RoleProcess {
  readonly child: ChildProcess;
  /** Everything it wrote to stderr: its log. */
  readonly #log: string[] = [];
  readonly #events: RoleEvent[] = [];
  readonly #listeners = new Set<() => void>();
  readonly #exited: Promise<unknown>;

  /** Starts `lemon <words> --json`. */
  constructor(words: readonly string[], options: RoleOptions) {
    const { PATH = "", HOME = "", LEMON_NATS_SERVER = "" } = process.env;
    this.child = spawn(process.execPath, [AS_STARTED, LAUNCHER, ...words, "--json"], {
      // A group of its own: what a terminal would send to the test does not reach it.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH, HOME, LEMON_NATS_SERVER, LEMON_HOME: options.home, ...options.environment },
    });
    living.add(this.child);
    this.#exited = once(this.child, "close").then(() => {
      living.delete(this.child);
      this.#wake();
    });
    if (this.child.stdout !== null) {
      createInterface(this.child.stdout).on("line", (line) => {
        this.#events.push(JSON.parse(line));
        this.#wake();
      });
    }
    this.child.stderr?.on("data", (chunk: Buffer) => {
      this.#log.push(chunk.toString("utf8"));
      this.#wake();
    });
  }

  get log(): string {
    return this.#log.join("");
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** The first event of this name; rejects with the log when it ends before. */
  async said(name: string): Promise<RoleEvent> {
    return await this.until(() => this.#events.find(({ event }) => event === name));
  }

  /** Resolves with the first value that `look` gives, asked whenever something was written. */
  async until<T>(look: () => T | undefined): Promise<T> {
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      if (!living.has(this.child)) throw new Error(`the role ended\n${this.log}`);
      await new Promise<void>((resolve) => this.#listeners.add(resolve));
    }
  }

  async ended(): Promise<{
    readonly exitCode: number | null;
    readonly signal: NodeJS.Signals | null;
  }> {
    await this.#exited;
    return { exitCode: this.child.exitCode, signal: this.child.signalCode };
  }

  /** Sends a signal and waits for the end. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    this.child.kill(signal);
    return (await this.ended()).exitCode;
  }

  #wake(): void {
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const wake of listeners) wake();
  }
}
