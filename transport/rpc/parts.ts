/**
 * Owns answers with many bytes on the link: a head, then the bytes in parts.
 *
 *   head  [2, result, field, length]   the field of the result is null, and stands for so many bytes
 *   part  [3, bytes]
 *
 * A server takes a message in whole before it passes it on, and so does a client: in parts, all on the way are
 * at work at once, and nobody collects a megabyte but whoever asked for it.
 *
 * 1. All messages of an answer are sent in one go, so the link keeps their order. One that is lost is an answer
 *    that is lost: what comes is too short for ever.
 * 2. What is announced counts against the same bound as an answer in one message.
 */
import { encode } from "./codec.ts";

export const HEAD = 2;
export const PART = 3;

/** Servers read and write about as much at a time. */
const PART_BYTES = 32_768;
/** Up to this much goes in one message. */
const WHOLE_BYTES = 65_536;

/** The messages of a result, if it is a record with a field of many bytes; else null. */
export function inParts(result: unknown): readonly Uint8Array[] | null {
  if (typeof result !== "object" || result === null || Array.isArray(result)) return null;
  for (const [field, value] of Object.entries(result)) {
    if (!(value instanceof Uint8Array) || value.length <= WHOLE_BYTES) continue;
    const messages = [encode([HEAD, { ...result, [field]: null }, field, value.length])];
    for (let at = 0; at < value.length; at += PART_BYTES) {
      messages.push(encode([PART, value.subarray(at, at + PART_BYTES)]));
    }
    return messages;
  }
  return null;
}

/** Puts one answer together again. */
export class Assembly {
  readonly #result: Readonly<Record<string, unknown>>;
  readonly #field: string;
  readonly #bytes: Buffer;
  #filled = 0;

  /** Of the rest of a head; null when it is none, or announces more than `maxBytes`. */
  static begin([result, field, length]: readonly unknown[], maxBytes: number): Assembly | null {
    if (!isRecord(result) || typeof field !== "string" || result[field] !== null) return null;
    if (typeof length !== "number" || !Number.isSafeInteger(length)) return null;
    if (length < 1 || length > maxBytes) return null;
    return new Assembly(result, field, length);
  }

  private constructor(result: Readonly<Record<string, unknown>>, field: string, length: number) {
    this.#result = result;
    this.#field = field;
    this.#bytes = Buffer.allocUnsafeSlow(length);
  }

  /** False when it is no part of it. */
  add(part: unknown): boolean {
    if (!(part instanceof Uint8Array) || part.length === 0) return false;
    if (part.length > this.#bytes.length - this.#filled) return false;
    this.#bytes.set(part, this.#filled);
    this.#filled += part.length;
    return true;
  }

  get isWhole(): boolean {
    return this.#filled === this.#bytes.length;
  }

  get result(): unknown {
    return { ...this.#result, [this.#field]: this.#bytes };
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
