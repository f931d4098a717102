/** Owns a real pino logger whose lines a test can read: everything down to `trace`, as parsed JSON. */
import pino, { type Logger } from "pino";

export interface LogLines {
  readonly log: Logger;
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  /** All that was written, as text: to search for what must not be there. */
  text(): string;
}

export function logLines(level = "trace"): LogLines {
  const lines: Record<string, unknown>[] = [];
  const written: string[] = [];
  const log = pino(
    { level, base: null },
    {
      write(line: string) {
        written.push(line);
        lines.push(JSON.parse(line));
      },
    },
  );
  return { log, lines, text: () => written.join("") };
}

/** Names that an object in JSON has more than once, at its top: readers keep one of them, and few say which. */
export function doubledNames(line: string): readonly string[] {
  const seen = new Set<string>();
  const doubled: string[] = [];
  let depth = 0;
  for (const [token, text, colon] of line.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\]]/g)) {
    if (token === "{" || token === "[") depth += 1;
    else if (token === "}" || token === "]") depth -= 1;
    else if (depth === 1 && text !== undefined && colon !== undefined) {
      if (seen.has(text)) doubled.push(text);
      seen.add(text);
    }
  }
  return doubled;
}
