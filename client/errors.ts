/**
 * Owns the failures a user of the client meets. All are `LemonError`s of the one table.
 *
 * 1. A failure of a read never says that something may have been applied.
 * 2. A mutation that was sent and not clearly refused says `mutationMayHaveApplied`, and its text
 *    names the id and the read that settles it.
 */
import {
  ERRORS,
  type ErrorCode,
  type ErrorDetails,
  isErrorCode,
  LemonError,
  WIRE_CODES,
  type WireCode,
} from "../protocol/errors.ts";
import type { MethodSpec } from "../protocol/method.ts";
import type { MethodName } from "../protocol/methods.ts";
import { type Settlement, settlementOf } from "./settlement.ts";
import type { SocketClose } from "./socket.ts";

/** The call an error belongs to. */
export interface FailedCall {
  readonly spec: MethodSpec & { readonly name: string };
  readonly method: MethodName;
  readonly params: Readonly<Record<string, unknown>>;
}

interface CallErrorOptions {
  readonly answered?: boolean;
  readonly classification?: string;
  readonly message?: string;
  readonly details?: ErrorDetails;
  readonly wire?: WireCode;
  readonly retrySafe?: boolean;
  readonly mutationMayHaveApplied?: boolean;
  readonly cause?: unknown;
}

/** A call that did not succeed. */
export class CallError extends LemonError {
  readonly method: MethodName;
  /** True when the peer answered; false when the client knows by itself (not sent, lost, timed out, aborted). */
  readonly answered: boolean;
  /** `error.details.code` as the peer wrote it: may be newer than this version's table, unlike `code`. */
  readonly classification: string;
  /**
   * The read that settles an uncertain mutation; null when nothing is uncertain, or where no read tells: then
   * the message says what to do.
   */
  readonly settledBy: Settlement | null;

  constructor(code: ErrorCode, call: FailedCall, options: CallErrorOptions = {}) {
    const mutation = call.spec.effect === "mutation";
    const uncertain =
      mutation && (options.mutationMayHaveApplied ?? ERRORS[code].outcome === "unknown");
    const settledBy = uncertain ? settlementOf(call.spec, call.params) : null;
    const message = options.message ?? ERRORS[code].message;
    super(code, {
      ...options,
      message: uncertain ? `${message}. ${uncertainty(call, settledBy)}` : message,
      // Reads may be repeated whatever became of their answer, and some mutations.
      retrySafe:
        options.retrySafe ?? (ERRORS[code].retrySafe || (call.spec.retrySafe && isLost(code))),
      mutationMayHaveApplied: uncertain,
    });
    this.method = call.method;
    this.answered = options.answered ?? false;
    this.classification = options.classification ?? code;
    this.settledBy = settledBy;
  }
}

function isLost(code: ErrorCode): boolean {
  return code === "link_lost" || code === "timeout" || code === "aborted";
}

function uncertainty({ method, spec }: FailedCall, settledBy: Settlement | null): string {
  const what = `What became of ${method} is unknown`;
  if (settledBy === null) return `${what}${unsettled(spec)}`;
  // Only ids belong in an error that may be logged: no path, no secret's name; `settledBy` has them.
  const named = Object.entries(settledBy.params).filter(([name]) => name.endsWith("Id"));
  const ids = named.map(([name, value]) => `${name} ${String(value)}`);
  return `${what}; ${settledBy.method}${ids.length > 0 ? ` (${ids.join(", ")})` : ""} tells, and changes nothing`;
}

function unsettled({ retrySafe, unsettled }: MethodSpec): string {
  if (unsettled !== null) return `, and no read tells: ${unsettled}`;
  return retrySafe ? "; the very same call may be sent again" : "";
}

/** What an error frame carried, unread. */
export interface WireFailure {
  readonly code: string;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** The error of an answer `ok: false`; a foreign or newer peer's words are read with caution. */
export function answeredError(failure: WireFailure, call: FailedCall): CallError {
  const given = failure.details["code"];
  const classification = typeof given === "string" ? given : failure.code;
  const wire = WIRE_CODES.find((known) => known === failure.code);
  const code = isErrorCode(given) ? given : wire === undefined ? "internal_error" : GENERAL[wire];
  const retrySafe = failure.details["retrySafe"];
  const mayHaveApplied = failure.details["mutationMayHaveApplied"];
  return new CallError(code, call, {
    answered: true,
    classification,
    message: failure.message,
    details: scalars(failure.details),
    ...(wire === undefined ? {} : { wire }),
    retrySafe: typeof retrySafe === "boolean" ? retrySafe : false,
    ...(typeof mayHaveApplied === "boolean" ? { mutationMayHaveApplied: mayHaveApplied } : {}),
  });
}

/** What a wire code means when the classification is none we know. */
const GENERAL: Readonly<Record<WireCode, ErrorCode>> = {
  INVALID_REQUEST: "invalid_request",
  INVALID_PARAMS: "invalid_params",
  METHOD_NOT_FOUND: "method_not_found",
  UNAUTHORIZED: "unauthorized",
  FORBIDDEN: "forbidden",
  PERMISSION_DENIED: "forbidden",
  NOT_FOUND: "not_found",
  CONFLICT: "conflict",
  RATE_LIMITED: "rate_limited",
  TIMEOUT: "timeout",
  INTERNAL_ERROR: "internal_error",
  NOT_IMPLEMENTED: "not_implemented",
  HANDSHAKE_REQUIRED: "handshake_required",
  ALREADY_CONNECTED: "already_connected",
  // Not `unavailable`, which promises that nothing was done: only the peer could have said that.
  UNAVAILABLE: "link_lost",
};

function scalars(details: Readonly<Record<string, unknown>>): ErrorDetails {
  const kept: Record<string, string | number | boolean | null> = {};
  for (const [name, value] of Object.entries(details)) {
    if (
      value === null ||
      typeof value === "string" ||
      typeof value === "number" ||
      typeof value === "boolean"
    )
      kept[name] = value;
  }
  return kept;
}

/** No connection came about, or none follows: nothing but (perhaps) the `connect` itself was sent. */
export class ConnectError extends LemonError {
  /**
   * `refused`: the peer answered the handshake with an error; `retrySafe` tells whether the same
   * handshake may succeed later. `unreachable`: there was no usable peer. `aborted`: the caller stopped.
   */
  readonly reason: "refused" | "unreachable" | "aborted";
  /** How the socket ended, when it did. */
  readonly close: SocketClose | null;

  constructor(
    code: ErrorCode,
    reason: ConnectError["reason"],
    options: {
      readonly message: string;
      readonly close?: SocketClose;
      readonly details?: ErrorDetails;
      readonly cause?: unknown;
    },
  ) {
    super(code, {
      message: options.message,
      details: options.details ?? {},
      retrySafe: reason !== "refused" || PASSING.has(ERRORS[code].wire),
      mutationMayHaveApplied: false,
      ...(options.cause === undefined ? {} : { cause: options.cause }),
    });
    this.reason = reason;
    this.close = options.close ?? null;
  }
}

/** Refusals of a handshake that time may change. */
const PASSING: ReadonlySet<WireCode> = new Set<WireCode>([
  "RATE_LIMITED",
  "TIMEOUT",
  "UNAVAILABLE",
  "INTERNAL_ERROR",
]);

/** The handshake was answered with an error frame. */
export function refusedHandshake(failure: WireFailure): ConnectError {
  const given = failure.details["code"];
  const wire = WIRE_CODES.find((known) => known === failure.code);
  const code = isErrorCode(given) ? given : wire === undefined ? "unauthorized" : GENERAL[wire];
  return new ConnectError(code, "refused", {
    message: failure.message,
    details: scalars(failure.details),
  });
}
