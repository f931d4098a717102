/** Owns the reading of single values from the command line: durations, sizes, ports. Each throws a `UsageError`. */
import { UsageError } from "./exit.ts";

const DURATION_UNITS: ReadonlyMap<string, number> = new Map([
  ["ms", 1],
  ["s", 1_000],
  ["m", 60_000],
]);

/** `1500ms`, `60s`, `2m`: in ms. The unit is demanded, since a bare number reads as either. */
export function durationMs(flag: string, text: string): number {
  return amount(flag, text, DURATION_UNITS, "a duration such as 1500ms, 60s or 2m");
}

const SIZE_UNITS: ReadonlyMap<string, number> = new Map([
  ["", 1],
  ["B", 1],
  ["KiB", 1_024],
  ["MiB", 1_048_576],
]);

/** `4096`, `64KiB`, `1MiB`: in bytes. */
export function sizeBytes(flag: string, text: string): number {
  return amount(flag, text, SIZE_UNITS, "a size such as 4096, 64KiB or 1MiB");
}

function amount(
  flag: string,
  text: string,
  units: ReadonlyMap<string, number>,
  wanted: string,
): number {
  const [, digits = "", unit = ""] = /^(\d{1,15}(?:\.\d{1,3})?)([A-Za-z]*)$/.exec(text) ?? [];
  const factor = units.get(unit);
  const value = factor === undefined || digits === "" ? Number.NaN : Number(digits) * factor;
  if (!Number.isInteger(value)) throw new UsageError(`${flag} wants ${wanted}`);
  return value;
}

/** A TCP port; 0 asks for a free one. */
export function port(flag: string, text: string): number {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= 65_535)) throw new UsageError(`${flag} wants a port from 0 to 65535`);
  return value;
}

/** The value of an environment variable; blank counts as unset. */
export function variable(
  environment: Readonly<Record<string, string | undefined>>,
  name: string,
): string | null {
  const value = environment[name]?.trim() ?? "";
  return value === "" ? null : value;
}

/** `true` and `1` switch on; `false`, `0` and nothing do not; anything else is a mistake worth telling. */
export function switchedOn(
  environment: Readonly<Record<string, string | undefined>>,
  name: string,
): boolean {
  const value = variable(environment, name);
  if (value === null || value === "false" || value === "0") return false;
  if (value === "true" || value === "1") return true;
  throw new UsageError(`${name} wants true or false`);
}
