/**
 * Owns the way of many bytes between a process and its isolated child: memory that both have open, where the
 * channel would copy them four times over. Without such memory they go through the channel.
 *
 * 1. One message is under way at a time (`isolated-process.ts`), so the memory holds the bytes of one: whoever
 *    takes a message takes its bytes out at once.
 */
import { readSync, writeSync } from "node:fs";

/** What costs less in a message. */
const FEW_BYTES = 16_384;
/** Beyond that it would only stand in memory for the rare one. */
const MOST_BYTES = 2_097_152;

/** Where bytes are missing in a message: the names that lead there; and how many are in the memory. */
interface Elsewhere {
  readonly at: readonly string[];
  readonly length: number;
}

interface Packed {
  readonly content: unknown;
  readonly elsewhere?: Elsewhere;
}

/** How deep many bytes are looked for. */
const DEPTH = 2;

export function pack(content: unknown, memory: number | null): Packed {
  const at = memory === null ? null : placeOfMany(content, DEPTH);
  const bytes = at?.reduce(member, content);
  if (memory === null || at === null || !(bytes instanceof Uint8Array)) return { content };
  if (!isWritten(memory, bytes)) return { content };
  return { content: replaced(content, at, null), elsewhere: { at, length: bytes.length } };
}

/** Throws when there are no such bytes. */
export function unpack({ content, elsewhere }: Packed, memory: number | null): unknown {
  if (elsewhere === undefined) return content;
  const { at, length } = elsewhere;
  if (memory === null || length > MOST_BYTES) throw new TypeError("no such bytes");
  const bytes = Buffer.allocUnsafeSlow(length);
  if (readSync(memory, bytes, 0, length, 0) !== length) throw new TypeError("bytes are missing");
  return replaced(content, at, bytes);
}

/** Null: it is none. */
export function readElsewhere(value: unknown): Elsewhere | null {
  const { at, length } = isRecord(value) ? value : {};
  if (!Array.isArray(at) || !at.every((name) => typeof name === "string")) return null;
  return Number.isSafeInteger(length) && Number(length) >= 0
    ? { at, length: Number(length) }
    : null;
}

function placeOfMany(content: unknown, depth: number): readonly string[] | null {
  if (!isRecord(content) || Array.isArray(content)) return null;
  for (const [name, value] of Object.entries(content)) {
    if (value instanceof Uint8Array) {
      if (value.length >= FEW_BYTES && value.length <= MOST_BYTES) return [name];
    } else if (depth > 1) {
      const below = placeOfMany(value, depth - 1);
      if (below !== null) return [name, ...below];
    }
  }
  return null;
}

function replaced(content: unknown, [name, ...below]: readonly string[], by: unknown): unknown {
  if (name === undefined) return by;
  return {
    ...(isRecord(content) ? content : {}),
    [name]: replaced(member(content, name), below, by),
  };
}

function member(content: unknown, name: string): unknown {
  return isRecord(content) ? content[name] : undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** False where there is no memory left: the bytes go in the message then. */
function isWritten(memory: number, bytes: Uint8Array): boolean {
  try {
    return writeSync(memory, bytes, 0, bytes.length, 0) === bytes.length;
  } catch {
    return false;
  }
}
