/**
 * Owns what goes between a process and its isolated child:
 *
 *   request  { serial, request }
 *   answer   { serial, result } or { serial, failure }
 *
 * Bytes stay bytes (serialization "advanced"); an error would lose what makes it one of the table.
 */
import {
  type ErrorDetails,
  isErrorCode,
  LemonError,
  WIRE_CODES,
  type WireCode,
} from "../protocol/errors.ts";

export interface IsolatedRequest {
  readonly serial: number;
  readonly request: unknown;
}

interface IsolatedAnswer {
  readonly serial: number;
  readonly result: unknown;
  readonly failure: LemonError | null;
}

export function readRequest(message: unknown): IsolatedRequest | null {
  if (!isRecord(message)) return null;
  const { serial, request } = message;
  return typeof serial === "number" ? { serial, request } : null;
}

export function done(serial: number, result: unknown): object {
  return { serial, result };
}

/** Anything that is not a `LemonError` is a fault of ours, and nobody knows how far it got. */
export function failed(serial: number, error: unknown): object {
  const known = error instanceof LemonError ? error : new LemonError("internal_error");
  const { code, message, wire, retrySafe, mutationMayHaveApplied, details } = known;
  return { serial, failure: { code, message, wire, retrySafe, mutationMayHaveApplied, details } };
}

/** Null: it is no answer. */
export function readAnswer(message: unknown): IsolatedAnswer | null {
  if (!isRecord(message)) return null;
  const { serial, result, failure } = message;
  if (typeof serial !== "number") return null;
  if (failure === undefined) return { serial, result, failure: null };
  const error = readFailure(failure);
  return error === null ? null : { serial, result: undefined, failure: error };
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
