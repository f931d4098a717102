/**
 * Owns the shape of a call and of its answer on the link.
 *
 *   call    [2, generation, deadlineMs, method, params]
 *   answer  [0, result] or [1, failure]; with many bytes, several messages (`parts.ts`)
 *
 * The first element of a call is the format's version: a peer that speaks another one refuses.
 */
import { LemonError } from "../../protocol/errors.ts";
import { decode, encode } from "./codec.ts";
import { fromWire, invalidAnswer, toWire } from "./failure.ts";
import { Assembly, HEAD, inParts, PART } from "./parts.ts";

/** 2: a caller takes answers in parts. */
const VERSION = 2;
const DONE = 0;
const FAILED = 1;

/** The longest deadline any method may have (a 30 min run and its margins fit many times), in ms. */
export const MAX_DEADLINE_MS = 24 * 60 * 60 * 1_000;

export interface Call {
  /** The worker life the caller means; any other refuses. */
  readonly generation: number;
  /** How long the caller will wait from when it sent this, in ms. */
  readonly deadlineMs: number;
  readonly method: string;
  readonly params: unknown;
}

export function encodeCall(call: Call): Uint8Array {
  return encode([VERSION, call.generation, call.deadlineMs, call.method, call.params]);
}

/** Throws `invalid_request` on anything that is not a call of this version. */
export function decodeCall(bytes: Uint8Array): Call {
  const value = decodeOr(bytes, () => new LemonError("invalid_request"));
  if (!Array.isArray(value) || value.length !== 5 || value[0] !== VERSION) {
    throw new LemonError("invalid_request");
  }
  const [, generation, deadlineMs, method, params]: unknown[] = value;
  if (
    typeof generation !== "number" ||
    !Number.isSafeInteger(generation) ||
    typeof deadlineMs !== "number" ||
    !(deadlineMs > 0 && deadlineMs <= MAX_DEADLINE_MS) ||
    typeof method !== "string"
  ) {
    throw new LemonError("invalid_request");
  }
  return { generation, deadlineMs, method, params };
}

export function encodeDone(result: unknown): Uint8Array {
  return encode([DONE, result]);
}

export function encodeFailed(error: unknown): Uint8Array {
  return encode([FAILED, toWire(error)]);
}

/** The answer, or in its place the failure that says that it does not fit the link. */
export function fitting(answer: Uint8Array, maxPayload: number | undefined): Uint8Array {
  return maxPayload === undefined || answer.length <= maxPayload
    ? answer
    : encodeFailed(new LemonError("response_too_large"));
}

/** The messages that answer a call; `maxPayload` bounds what they carry together. */
export function answerMessages(
  result: unknown,
  maxPayload: number | undefined,
): readonly Uint8Array[] {
  const parts = inParts(result);
  if (parts === null) return [fitting(encodeDone(result), maxPayload)];
  const bytes = parts.reduce((sum, part) => sum + part.length, 0);
  return maxPayload === undefined || bytes <= maxPayload
    ? parts
    : [encodeFailed(new LemonError("response_too_large"))];
}

/** Reads the messages that answer one call. */
export class AnswerReader {
  readonly #mutation: boolean;
  #assembly: Assembly | null = null;

  constructor(mutation: boolean) {
    this.#mutation = mutation;
  }

  /** The result in a list of its own, or null while more has to come; the failure thrown. */
  take(bytes: Uint8Array, maxBytes: number): readonly [result: unknown] | null {
    const value = decodeOr(bytes, () => invalidAnswer(this.#mutation));
    const [kind, ...rest]: unknown[] = Array.isArray(value) ? value : [];
    if (this.#assembly === null && kind === HEAD && rest.length === 3) {
      this.#assembly = Assembly.begin(rest, maxBytes);
      if (this.#assembly !== null) return null;
    } else if (this.#assembly !== null && kind === PART && rest.length === 1) {
      const isPart = this.#assembly.add(rest[0]);
      if (isPart) return this.#assembly.isWhole ? [this.#assembly.result] : null;
    } else if (this.#assembly === null || kind === FAILED) {
      return [contentOf(value, this.#mutation)];
    }
    throw invalidAnswer(this.#mutation);
  }
}

/** The result, or the failure thrown. `mutation` says what an answer that is none has to mean. */
export function readAnswer(bytes: Uint8Array, mutation: boolean): unknown {
  return contentOf(
    decodeOr(bytes, () => invalidAnswer(mutation)),
    mutation,
  );
}

function contentOf(value: unknown, mutation: boolean): unknown {
  if (!Array.isArray(value) || value.length !== 2) throw invalidAnswer(mutation);
  const [kind, content]: unknown[] = value;
  if (kind === DONE) return content;
  throw kind === FAILED ? fromWire(content, mutation) : invalidAnswer(mutation);
}

function decodeOr(bytes: Uint8Array, failure: () => LemonError): unknown {
  try {
    return decode(bytes);
  } catch {
    throw failure();
  }
}
