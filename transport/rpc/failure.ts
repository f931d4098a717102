/**
 * Owns how a failure crosses the link, and what one means that came from it.
 *
 * 1. What leaves is a `LemonError` of the table: code, sentence, details and flags, never a cause.
 * 2. What arrives is believed only in its shape and bounds. A code that this build does not know (a
 *    newer node) becomes `internal_error` and keeps its flags, so that "may have happened" is not lost.
 * 3. A read never "may have applied" anything, whatever the peer says.
 */
import {
  type ErrorCode,
  type ErrorDetails,
  isErrorCode,
  LemonError,
  WIRE_CODES,
  type WireCode,
} from "../../protocol/errors.ts";

const MAX_MESSAGE_CHARS = 500;
const MAX_DETAILS = 16;
const MAX_DETAIL_CHARS = 256;
const SAFE_CODE = /^[A-Za-z0-9_]{1,64}$/;
const CONTROL = /\p{C}/u;
/** Members that the edge adds from the error itself; a peer can not set them. */
const RESERVED_DETAILS = new Set(["code", "retrySafe", "mutationMayHaveApplied"]);

/** As it stands in an answer. */
export interface WireFailure {
  readonly code: string;
  readonly message: string;
  readonly wire: WireCode;
  readonly retrySafe: boolean;
  readonly mutationMayHaveApplied: boolean;
  readonly details: ErrorDetails;
}

/** Anything that is not a `LemonError` is a fault of ours, and nobody knows how far it got. */
export function toWire(error: unknown): WireFailure {
  const known = error instanceof LemonError ? error : new LemonError("internal_error");
  const { code, message, wire, retrySafe, mutationMayHaveApplied, details } = known;
  return { code, message, wire, retrySafe, mutationMayHaveApplied, details };
}

export function fromWire(value: unknown, mutation: boolean): LemonError {
  if (!isRecord(value)) return invalidAnswer(mutation);
  const { code, message, wire, retrySafe, mutationMayHaveApplied } = value;
  if (
    typeof code !== "string" ||
    !SAFE_CODE.test(code) ||
    typeof retrySafe !== "boolean" ||
    typeof mutationMayHaveApplied !== "boolean"
  ) {
    return invalidAnswer(mutation);
  }
  const known: ErrorCode | null = isErrorCode(code) ? code : null;
  const details = readDetails(value["details"]);
  return new LemonError(known ?? "internal_error", {
    retrySafe,
    mutationMayHaveApplied: mutationMayHaveApplied && mutation,
    details: known === null ? { ...details, remoteCode: code } : details,
    ...(isWireCode(wire) ? { wire } : {}),
    ...(isSentence(message) ? { message } : {}),
  });
}

/** The node answered with something that is no answer: what it did is unknown. */
export function invalidAnswer(mutation: boolean): LemonError {
  return uncertain("invalid_remote_payload", mutation);
}

/** The request was sent and its fate is unknown; a read may simply be sent again. */
export function uncertain(code: ErrorCode, mutation: boolean): LemonError {
  return new LemonError(code, { retrySafe: !mutation, mutationMayHaveApplied: mutation });
}

/** The request never left, or was refused before anything was done. */
export function notSent(code: ErrorCode): LemonError {
  return new LemonError(code, { retrySafe: true, mutationMayHaveApplied: false });
}

function readDetails(value: unknown): ErrorDetails {
  if (!isRecord(value)) return {};
  const read: Record<string, string | number | boolean | null> = {};
  let left = MAX_DETAILS;
  for (const [name, detail] of Object.entries(value)) {
    if (!SAFE_CODE.test(name) || RESERVED_DETAILS.has(name) || left-- <= 0) continue;
    if (typeof detail === "string") {
      if (detail.length <= MAX_DETAIL_CHARS && !CONTROL.test(detail)) read[name] = detail;
    } else if (detail === null || typeof detail === "number" || typeof detail === "boolean") {
      read[name] = detail;
    }
  }
  return read;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Uint8Array)
  );
}

function isWireCode(value: unknown): value is WireCode {
  return WIRE_CODES.some((code) => code === value);
}

/** A peer's sentence may end up on an operator's terminal. */
function isSentence(value: unknown): value is string {
  return (
    typeof value === "string" &&
    value !== "" &&
    value.length <= MAX_MESSAGE_CHARS &&
    !CONTROL.test(value)
  );
}
