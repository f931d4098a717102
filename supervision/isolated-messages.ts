/**
 * Owns what goes between a process and its isolated child:
 *
 *   request  { serial, content, elsewhere? }
 *   answer   { serial, content, elsewhere? } or { serial, failure }
 *
 * Bytes stay bytes (serialization "advanced"); many of them are elsewhere (`isolated-bytes.ts`). An error
 * would lose what makes it one of the table.
 */
import {
  type ErrorDetails,
  isErrorCode,
  LemonError,
  WIRE_CODES,
  type WireCode,
} from "../protocol/errors.ts";
import { pack, readElsewhere, unpack } from "./isolated-bytes.ts";

export interface IsolatedRequest {
  readonly serial: number;
  readonly request: unknown;
}

interface IsolatedAnswer {
  readonly serial: number;
  readonly result: unknown;
  readonly failure: LemonError | null;
}

/** `memory`: what both sides have open; null when they have none. */
export function asked(serial: number, request: unknown, memory: number | null): object {
  return { serial, ...pack(request, memory) };
}

export function readRequest(message: unknown, memory: number | null): IsolatedRequest | null {
  if (!isRecord(message)) return null;
  const { serial } = message;
  const request = readContent(message, memory);
  return typeof serial === "number" && request !== null ? { serial, request: request.is } : null;
}

export function done(serial: number, result: unknown, memory: number | null): object {
  return { serial, ...pack(result, memory) };
}

/** Anything that is not a `LemonError` is a fault of ours, and nobody knows how far it got. */
export function failed(serial: number, error: unknown): object {
  const known = error instanceof LemonError ? error : new LemonError("internal_error");
  const { code, message, wire, retrySafe, mutationMayHaveApplied, details } = known;
  return { serial, failure: { code, message, wire, retrySafe, mutationMayHaveApplied, details } };
}

/** Null: it is no answer. */
export function readAnswer(message: unknown, memory: number | null): IsolatedAnswer | null {
  if (!isRecord(message)) return null;
  const { serial, failure } = message;
  if (typeof serial !== "number") return null;
  if (failure === undefined) {
    const result = readContent(message, memory);
    return result === null ? null : { serial, result: result.is, failure: null };
  }
  const error = readFailure(failure);
  return error === null ? null : { serial, result: undefined, failure: error };
}

/** With its bytes; null when they are not where they should be. */
function readContent(
  { content, elsewhere }: Readonly<Record<string, unknown>>,
  memory: number | null,
): { readonly is: unknown } | null {
  if (elsewhere === undefined) return { is: content };
  const where = readElsewhere(elsewhere);
  if (where === null) return null;
  try {
    return { is: unpack({ content, elsewhere: where }, memory) };
  } catch {
    return null;
  }
}

function readFailure(value: unknown): LemonError | null {
  if (!isRecord(value)) return null;
  const { code, message, wire, retrySafe, mutationMayHaveApplied, details } = value;
  if (
    !isErrorCode(code) ||
    typeof message !== "string" ||
    !isWireCode(wire) ||
    typeof retrySafe !== "boolean" ||
    typeof mutationMayHaveApplied !== "boolean" ||
    !isDetails(details)
  ) {
    return null;
  }
  return new LemonError(code, { message, wire, retrySafe, mutationMayHaveApplied, details });
}

function isDetails(value: unknown): value is ErrorDetails {
  return (
    isRecord(value) &&
    Object.values(value).every(
      (detail) => detail === null || ["string", "number", "boolean"].includes(typeof detail),
    )
  );
}

function isWireCode(value: unknown): value is WireCode {
  return WIRE_CODES.some((code) => code === value);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
