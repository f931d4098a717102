/**
 * Owns the text that goes to a terminal: what came from elsewhere (names, reasons, messages) can
 * neither move the cursor, nor change colours, nor hide or reorder what is read.
 */

/** Control, format (bidi and zero-width too), unassigned and lone surrogate code points; line separators. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Longest text that is shown of a name or the like, in characters. */
const LONGEST = 256;
/** Longer than a path that a system takes (PATH_MAX is 4,096 bytes), in characters, escapes included. */
const LONGEST_PATH = 8_192;

/** `text` on one line, with every unprintable code point as `\u{…}`, cut after `longest` characters. */
export function printable(text: string, longest = LONGEST): string {
  const escaped = text.replace(
    UNPRINTABLE,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
  const characters = [...escaped];
  return characters.length <= longest ? escaped : `${characters.slice(0, longest - 1).join("")}…`;
}

/** A path as `printable` shows it, and whole. */
export function pathText(path: string): string {
  return printable(path, LONGEST_PATH);
}

/** Columns padded to their widest cell, two spaces apart; the last one is left ragged. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, width(cell));
    });
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) =>
        column === row.length - 1 ? cell : cell + " ".repeat((widths[column] ?? 0) - width(cell)),
      )
      .join("  ")
      .trimEnd();
  return rows.map((row) => `${line(row)}\n`).join("");
}

function width(text: string): number {
  return [...text].length;
}

/** `text` as one word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_:./@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** Bytes for a reader: `512 B`, `1.5 KiB`. */
export function bytesText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1_024 && unit < UNITS.length - 1) {
    value /= 1_024;
    unit += 1;
  }
  const digits = unit === 0 || Number.isInteger(value) ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** A length of time for a reader: `850 ms`, `12 s`, `3 min`, `5 h`, `2 d`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** `1 run`, `2 runs`, `0 runs`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
