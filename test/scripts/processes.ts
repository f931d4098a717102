/**
 * Runs a program as a user would and hears all of its end. Every run is bounded, and killed with
 * everything it started when a test gives up on it.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Run {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly end: Promise<End>;
  /** Resolves once stdout or stderr has said `text`; rejects when the program ends before. */
  said(text: string): Promise<void>;
  /** What stdout has said so far. */
  heard(): string;
}

export interface RunOptions {
  readonly env?: Environment;
  readonly cwd?: string;
}

/** Starts a program in a session of its own, so that it has no terminal and can be killed whole. */
export function start(command: string, args: readonly string[], options: RunOptions = {}): Run {
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  const listeners = new Set<() => void>();
  const note = (): void => {
    for (const listener of listeners) listener();
  };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    note();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
    note();
  });
  const end = new Promise<End>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  return {
    child,
    end,
    heard: () => stdout,
    said: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!`${stdout}\n${stderr}`.includes(text)) return;
          listeners.delete(look);
          resolve();
        };
        listeners.add(look);
        look();
        end.then((last) => reject(new Error(`ended without "${text}": ${last.stderr}`)), reject);
      }),
  };
}

export function run(command: string, args: readonly string[], options?: RunOptions): Promise<End> {
  const started = start(command, args, options);
  started.child.stdin.end();
  return started.end;
}

/** Kills a run with everything in its session's first process group, as a power cut would. */
export async function killWhole({ child, end }: Run): Promise<void> {
  if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  await end;
}
