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
