/** Owns what a check of the doctor finds, and the line it becomes. */
import { printable } from "../printable.ts";

export type Level = "ok" | "warn" | "fail";

export interface Finding {
  /** What was looked at: `nats-server`, `disk barrier`, `node worker-1`. */
  readonly name: string;
  readonly level: Level;
  /** What was found. */
  readonly finding: string;
  /** What to do about it; null when all is well. */
  readonly mend: string | null;
}

export function ok(name: string, finding: string): Finding {
  return { name, level: "ok", finding, mend: null };
}

export function warn(name: string, finding: string, mend: string): Finding {
  return { name, level: "warn", finding, mend };
}

export function fail(name: string, finding: string, mend: string): Finding {
  return { name, level: "fail", finding, mend };
}

const COLOUR: Readonly<Record<Level, number>> = { ok: 32, warn: 33, fail: 31 };
/** Of a finding and of what mends it, each, in characters. */
const LONGEST_LINE = 1_000;

export function findingLine({ name, level, finding, mend }: Finding, coloured: boolean): string {
  const label = level.padEnd(4);
  const shown = coloured ? `\u001b[${COLOUR[level]}m${label}\u001b[0m` : label;
  const advice = mend === null ? "" : ` -> ${printable(mend, LONGEST_LINE)}`;
  return `${shown}  ${printable(name)}: ${printable(finding, LONGEST_LINE)}${advice}\n`;
}
