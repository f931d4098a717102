/**
 * Owns what a command gets of the process around it, as small interfaces, and the real ones. A test
 * hands in others; no other file of the CLI touches `process`.
 */
import { closeSync, openSync } from "node:fs";
import { homedir } from "node:os";
import type { Readable, Writable } from "node:stream";
import { isatty, ReadStream, WriteStream } from "node:tty";
import { platformTimers, type Timers } from "../client/timers.ts";
import { readHidden } from "./hidden-line.ts";
import { LEMON } from "./roles/build.ts";

export interface Output {
  /**
   * Resolves when the bytes have left, or when they can not. Never rejects: see `failure`.
   */
  write(bytes: string | Uint8Array): Promise<void>;
  /**
   * Why bytes were lost, as a system error code (`ENOSPC`); null while none were. A closed pipe is the
   * reader's choice and no failure of ours.
   */
  readonly failure: string | null;
  readonly isTerminal: boolean;
  /** Width of the terminal, in characters; absent when there is none. */
  readonly columns?: number;
  /** Whether colours are wanted here (a terminal; https://no-color.org). */
  readonly coloured: boolean;
}

/** The terminal in front of the user, whatever the standard streams are. */
export interface Terminal {
  write(text: string): void;
  /** The next line without its end; null when there is none to come. */
  readLine(signal: AbortSignal): Promise<string | null>;
  /** Asks, and reads a line that is not shown, from the question's first letter on; null also when the user gives up. */
  readHidden(question: string, signal: AbortSignal): Promise<string | null>;
  close(): void;
}

export type ShellSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

export interface Shell {
  /** What the user types for `lemon` here. */
  readonly lemon: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Where the user stands; relative paths are resolved from here. */
  readonly cwd: string;
  readonly homeDirectory: string;
  readonly stdin: Readable;
  /** Whether a person is at the other end of it. */
  readonly stdinIsTerminal: boolean;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly timers: Timers;
  /** Takes over what the signal does; answers the way to give it back. */
  onSignal(signal: ShellSignal, listener: () => void): () => void;
  /** Null when there is no terminal to ask on. */
  openTerminal(): Terminal | null;
}

export function processShell(): Shell {
  return {
    lemon: LEMON,
    environment: process.env,
    cwd: process.cwd(),
    homeDirectory: homedir(),
    // A getter: touching it opens the stream, and most commands never read.
    get stdin() {
      return process.stdin;
    },
    stdinIsTerminal: isatty(0),
    stdout: streamOutput(process.stdout),
    stderr: streamOutput(process.stderr),
    timers: platformTimers,
    onSignal(signal, listener) {
      process.on(signal, listener);
      return () => process.off(signal, listener);
    },
    openTerminal: () => (process.stderr.isTTY ? controllingTerminal() : null),
  };
}

function streamOutput(
  stream: Writable & { readonly isTTY?: boolean; readonly columns?: number },
): Output {
  const isTerminal = stream.isTTY === true;
  let broken: string | null = null;
  stream.on("error", (error: Error & { readonly code?: unknown }) => {
    broken ??= typeof error.code === "string" ? error.code : error.name;
  });
  return {
    isTerminal,
    ...(isTerminal && stream.columns !== undefined ? { columns: stream.columns } : {}),
    coloured: isTerminal && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb",
    write: (bytes) =>
      new Promise((resolve) => {
        if (broken !== null || bytes.length === 0) resolve();
        else stream.write(bytes, () => resolve());
      }),
    get failure() {
      return broken === "EPIPE" ? null : broken;
    },
  };
}

/** tty(4): `/dev/tty` is the controlling terminal, also when stdin is a pipe or has ended. */
function controllingTerminal(): Terminal | null {
  let input: number;
  let output: number;
  try {
    input = openSync("/dev/tty", "r");
  } catch {
    return null;
  }
  try {
    output = openSync("/dev/tty", "w");
  } catch {
    closeSync(input);
    return null;
  }
  return terminalOn(new ReadStream(input), new WriteStream(output));
}

function terminalOn(input: ReadStream, output: WriteStream): Terminal {
  // A terminal that hangs up ends both; there is nobody left to tell.
  input.on("error", () => {});
  output.on("error", () => {});
  return {
    write(text) {
      output.write(text);
    },
    readLine: (signal) => readLine(input, signal),
    readHidden: (question, signal) => readHidden(input, () => output.write(question), signal),
    close() {
      input.destroy();
      output.destroy();
    },
  };
}

/** Longest line that is kept; an answer is a letter. */
const LONGEST_LINE = 1_024;

function readLine(input: Readable, signal: AbortSignal): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  let line = "";
  const onData = (chunk: Buffer | string): void => {
    line = (line + String(chunk)).slice(0, LONGEST_LINE);
    const end = line.indexOf("\n");
    if (end >= 0 || line.length === LONGEST_LINE) resolve(end >= 0 ? line.slice(0, end) : line);
  };
  const onEnd = (): void => resolve(null);
  input.on("data", onData);
  input.once("end", onEnd).once("close", onEnd);
  signal.addEventListener("abort", onEnd, { once: true });
  if (signal.aborted) onEnd();
  return promise.finally(() => {
    input.pause();
    input.off("data", onData).off("end", onEnd).off("close", onEnd);
    signal.removeEventListener("abort", onEnd);
  });
}
