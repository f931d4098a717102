/** Owns a shell for commands that a test runs in its own process: captured output, scripted signals and terminal. */
import { Readable } from "node:stream";
import { lemon } from "../../cli/program.ts";
import type { Output, Shell, ShellSignal, Terminal } from "../../cli/shell.ts";
import { platformTimers, type Timers } from "../../client/timers.ts";

export class CapturedOutput implements Output {
  readonly chunks: Buffer[] = [];
  readonly isTerminal: boolean;
  readonly coloured: boolean;
  failure: string | null = null;
  readonly #waiting: (() => void)[] = [];

  constructor(isTerminal = false) {
    this.isTerminal = isTerminal;
    this.coloured = isTerminal;
  }

  write(bytes: string | Uint8Array): Promise<void> {
    this.chunks.push(Buffer.from(bytes));
    for (const resolve of this.#waiting.splice(0)) resolve();
    return Promise.resolve();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.chunks);
  }

  get text(): string {
    return this.bytes.toString("utf8");
  }

  /** Resolves when `text` has been written. */
  async said(text: string): Promise<void> {
    while (!this.text.includes(text))
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}

/** A person at a terminal, who types what the test says. */
export class ScriptedTerminal implements Terminal {
  readonly output = new CapturedOutput(true);
  readonly #lines: string[] = [];
  #waiting: ((line: string | null) => void) | null = null;
  closed = false;

  write(text: string): void {
    void this.output.write(text);
  }

  type(line: string): void {
    if (this.#waiting === null) this.#lines.push(line);
    else this.#waiting(line);
  }

  hangUp(): void {
    this.#waiting?.(null);
  }

  /** How many of its lines were read without being shown. */
  hidden = 0;

  readHidden(question: string, signal: AbortSignal): Promise<string | null> {
    this.hidden += 1;
    this.write(question);
    return this.readLine(signal);
  }

  readLine(signal: AbortSignal): Promise<string | null> {
    const line = this.#lines.shift();
    if (line !== undefined) return Promise.resolve(line);
    return new Promise((resolve) => {
      this.#waiting = (typed) => {
        this.#waiting = null;
        resolve(typed);
      };
      signal.addEventListener("abort", () => this.#waiting?.(null), { once: true });
    });
  }

  close(): void {
    this.closed = true;
  }
}

interface TestShellOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly homeDirectory?: string;
  readonly stdin?: string | Uint8Array;
  readonly timers?: Timers;
  readonly terminal?: ScriptedTerminal;
  /** Default: when there is a terminal, and nothing stands on stdin. */
  readonly stdinIsTerminal?: boolean;
  readonly stdoutIsTerminal?: boolean;
  readonly stderrIsTerminal?: boolean;
}

export class TestShell implements Shell {
  readonly lemon = "lemon";
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly homeDirectory: string;
  readonly stdin: Readable;
  readonly stdinIsTerminal: boolean;
  readonly stdout: CapturedOutput;
  readonly stderr: CapturedOutput;
  readonly timers: Timers;
  readonly #terminal: ScriptedTerminal | null;
  readonly #listeners = new Map<ShellSignal, Set<() => void>>();

  constructor(options: TestShellOptions = {}) {
    this.environment = options.environment ?? {};
    this.cwd = options.cwd ?? "/nonexistent";
    this.homeDirectory = options.homeDirectory ?? "/nonexistent";
    this.stdin = Readable.from(options.stdin === undefined ? [] : [Buffer.from(options.stdin)]);
    this.stdinIsTerminal =
      options.stdinIsTerminal ?? (options.terminal !== undefined && options.stdin === undefined);
    this.timers = options.timers ?? platformTimers;
    this.#terminal = options.terminal ?? null;
    this.stdout = new CapturedOutput(options.stdoutIsTerminal ?? false);
    this.stderr = new CapturedOutput(options.stderrIsTerminal ?? false);
  }

  onSignal(signal: ShellSignal, listener: () => void): () => void {
    const listeners = this.#listeners.get(signal) ?? new Set();
    this.#listeners.set(signal, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** How many listen: none is the signal's default, which ends the process. */
  listeners(signal: ShellSignal): number {
    return this.#listeners.get(signal)?.size ?? 0;
  }

  send(signal: ShellSignal): void {
    for (const listener of this.#listeners.get(signal) ?? []) listener();
  }

  openTerminal(): Terminal | null {
    return this.#terminal;
  }

  run(...words: readonly string[]): Promise<number> {
    return lemon(words, this);
  }

  /** The one JSON document on stdout; anything more or less fails. */
  get document(): unknown {
    const { text } = this.stdout;
    if (!text.endsWith("\n") || text.indexOf("\n") !== text.length - 1)
      throw new Error(`not exactly one line of JSON: ${JSON.stringify(text)}`);
    return JSON.parse(text);
  }
}
