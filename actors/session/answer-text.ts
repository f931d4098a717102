/**
 * Owns answers that carry many bytes: they become base64 as they are sent, a piece at a time, instead of a
 * text of megabytes that is made, searched for quotes, and copied into bytes again.
 *
 * 1. What a client reads is the very JSON that the text in place of the bytes would have made.
 * 2. Only the pieces that the socket takes exist as base64.
 */
import { base64Bytes } from "../../protocol/base64.ts";
import { responseText } from "../../protocol/frames.ts";

/** What a handler may give for a field `…Base64`. Its bytes must not change any more. */
export class Base64 {
  readonly bytes: Buffer;

  constructor(bytes: Uint8Array) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  toJSON(): string {
    return this.bytes.toString("base64");
  }
}

/** A result as handlers give it. */
export type Given<Result> = Result extends object
  ? { [K in keyof Result]: K extends `${string}Base64` ? Result[K] | Base64 : Result[K] }
  : Result;

/** Up to this much the whole is made at once. */
const SHORT_BYTES = 16_384;
/** A piece of base64 stays in the processor's cache, and begins and ends between groups of three bytes. */
const PIECE_BYTES = 12_288;

/** The text of a successful answer. Throws when the payload is no JSON value (a cycle, a bigint). */
export function answerText(id: string, payload: unknown): string | LongText {
  const long = longField(payload);
  if (long === null) return responseText(id, payload);
  const { name, value, others } = long;
  const closed = responseText(id, { ...others, [name]: "" });
  // The field stands last, and its value is empty.
  return new LongText(closed.slice(0, -CLOSING.length), value.bytes, CLOSING);
}

const CLOSING = '"}}';

function longField(payload: unknown): { name: string; value: Base64; others: object } | null {
  if (typeof payload !== "object" || payload === null) return null;
  for (const [name, value] of Object.entries(payload)) {
    if (!(value instanceof Base64) || value.bytes.length <= SHORT_BYTES) continue;
    const { [name]: _, ...others }: Readonly<Record<string, unknown>> = { ...payload };
    return { name, value, others };
  }
  return null;
}

/** JSON with a long base64 text between its head and its tail. */
export class LongText {
  /** Of the whole, as it is sent. */
  readonly length: number;
  readonly #head: Buffer;
  readonly #content: Buffer;
  readonly #tail: string;

  constructor(head: string, content: Buffer, tail: string) {
    this.#head = Buffer.from(head);
    this.#content = content;
    this.#tail = tail;
    this.length = this.#head.length + base64Bytes(content.length) + tail.length;
  }

  /**
   * All of it, in fragments of at most so many bytes, head and tail not counted. A fragment's bytes hold until
   * the one after the next is taken: there are no more of them in memory, however long the text is.
   */
  *fragments(atMostBytes: number): Generator<Buffer, void> {
    const [head, content, tail] = [this.#head, this.#content, this.#tail];
    const pieces = Math.max(1, Math.floor(atMostBytes / base64Bytes(PIECE_BYTES)));
    const stepBytes = pieces * PIECE_BYTES;
    const room = head.length + base64Bytes(stepBytes) + tail.length;
    const buffers = [0, 1].map(() => Buffer.allocUnsafeSlow(room));
    for (let at = 0, turn = 0; at < content.length; at += stepBytes, turn = 1 - turn) {
      const buffer = buffers[turn] ?? Buffer.alloc(room);
      let end = at === 0 ? head.copy(buffer) : 0;
      end += encode(content.subarray(at, at + stepBytes), buffer.subarray(end));
      if (at + stepBytes >= content.length) end += buffer.write(tail, end, "latin1");
      yield buffer.subarray(0, end);
    }
  }

  toString(): string {
    return Array.from(this.fragments(PIECE_BYTES), String).join("");
  }
}

/** Answers how long it has become. */
function encode(bytes: Buffer, into: Buffer): number {
  let written = 0;
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    const piece = bytes.toString("base64", at, Math.min(bytes.length, at + PIECE_BYTES));
    written += into.write(piece, written, "latin1");
  }
  return written;
}
