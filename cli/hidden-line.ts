/**
 * Owns the reading of a line that nobody is to see: the terminal is raw meanwhile, and is what it was afterwards,
 * however the reading ends.
 */
import type { Readable } from "node:stream";

/** As long as a pasted key may be, in characters. */
const LONGEST_LINE = 65_536;
const CTRL_C = "\u0003";
const CTRL_D = "\u0004";
const CTRL_U = "\u0015";
const ERASE = new Set(["\u0008", "\u007f"]);

type Keyboard = Readable & { setRawMode(isRaw: boolean): unknown };

/** What was typed before the Enter key; null when it was given up (Ctrl-C, Ctrl-D on an empty line, a hang-up). */
export function readHidden(
  input: Keyboard,
  ask: () => void,
  signal: AbortSignal,
): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  let line: string[] = [];
  const onData = (chunk: Buffer | string): void => {
    for (const character of String(chunk)) {
      if (character === "\r" || character === "\n") resolve(line.join(""));
      else if (character === CTRL_C || (character === CTRL_D && line.length === 0)) resolve(null);
      else if (character === CTRL_U) line = [];
      else if (ERASE.has(character)) line.pop();
      else if (line.length < LONGEST_LINE) line.push(character);
    }
  };
  const onEnd = (): void => resolve(null);
  input.setEncoding("utf8");
  input.setRawMode(true);
  input.on("data", onData);
  input.once("end", onEnd).once("close", onEnd);
  signal.addEventListener("abort", onEnd, { once: true });
  if (signal.aborted) onEnd();
  // Only now: what is typed at once is not shown either.
  ask();
  return promise.finally(() => {
    if (!input.destroyed) input.setRawMode(false);
    input.pause();
    input.off("data", onData).off("end", onEnd).off("close", onEnd);
    signal.removeEventListener("abort", onEnd);
  });
}
