/** Owns the real command as a child process: started, fed, signalled, and seen to its end. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const MAIN = join(import.meta.dirname, "../../cli/main.ts");

interface LemonOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** What its stdin gets, then EOF; absent: nothing, from /dev/null. */
  readonly stdin?: Uint8Array;
  /** Where Node.js keeps compiled code, so that only the first child compiles. */
  readonly compileCache: string;
}

export interface Ended {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export class LemonProcess {
  readonly child: ChildProcess;
  readonly #stdout: Buffer[] = [];
  readonly #waiting: (() => void)[] = [];
  #stderr = "";

  constructor(words: readonly string[], options: LemonOptions) {
    const { PATH = "", HOME = "" } = process.env;
    this.child = spawn(process.execPath, [MAIN, ...words], {
      // A group of its own, so that a signal to it is a signal to nobody else.
      detached: true,
      stdio: [options.stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"],
      env: { PATH, HOME, NODE_COMPILE_CACHE: options.compileCache, ...options.environment },
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    });
    this.child.stdout?.on("data", (chunk: Buffer) => this.#stdout.push(chunk));
    this.child.stderr?.on("data", (chunk: Buffer) => {
      this.#stderr += chunk.toString("utf8");
      for (const resolve of this.#waiting.splice(0)) resolve();
    });
    this.child.stdin?.on("error", () => {});
    this.child.stdin?.end(options.stdin);
  }

  get stderr(): string {
    return this.#stderr;
  }

  async said(text: string): Promise<void> {
    while (!this.#stderr.includes(text))
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async ended(): Promise<Ended> {
    const [exitCode, signal]: [number | null, NodeJS.Signals | null] = await onceClosed(this.child);
    return { exitCode, signal, stdout: Buffer.concat(this.#stdout), stderr: this.#stderr };
  }
}

async function onceClosed(child: ChildProcess): Promise<[number | null, NodeJS.Signals | null]> {
  await once(child, "close");
  return [child.exitCode, child.signalCode];
}
