/**
 * Owns the writing of what a connection sends.
 *
 * 1. A request that the peer would refuse for its size or shape is refused here, as not sent: the peer's
 *    refusal could name no request, and the call would wait for an answer until its deadline.
 */
import { LemonError } from "../protocol/errors.ts";
import {
  JSON_BOUNDS,
  PROTOCOL_VERSION,
  type RequestFrame,
  withinJsonBounds,
} from "../protocol/frames.ts";
import type { Role } from "../protocol/scopes.ts";
import { CallError, type FailedCall } from "./errors.ts";

/** Who we say we are in `connect` (control-plane-wire.md 1.3). */
export interface Greeting {
  readonly token: string | null;
  readonly clientId: string;
  readonly role?: Role;
  /** Narrows what the token grants; absent asks for all of it. */
  readonly scopes?: readonly string[];
}

const CONNECT_ID = "connect";

const BEYOND_JSON_BOUNDS = `The request is nested deeper than ${JSON_BOUNDS.depth} or has more than ${JSON_BOUNDS.items} members`;

const utf8 = new TextEncoder();

/** The first frame of a connection. Throws `invalid_params` for a greeting that is no JSON. */
export function connectText({ token, clientId, role, scopes }: Greeting): string {
  const params = {
    minProtocol: PROTOCOL_VERSION,
    maxProtocol: PROTOCOL_VERSION,
    client: { id: clientId },
    ...(role === undefined ? {} : { role }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(token === null ? {} : { auth: { token } }),
  };
  return textOf({ type: "req", id: CONNECT_ID, method: "connect", params });
}

/**
 * The frame of a call, within `maxPayload` bytes. Throws `invalid_params` for what is no JSON, and, as not sent,
 * `too_large` and `invalid_request` (beyond what the peer reads of any JSON).
 */
export function requestText(id: string, call: FailedCall, maxPayload: number): string {
  const text = textOf({ type: "req", id, method: call.method, params: call.params });
  if (exceeds(text, maxPayload))
    throw notSent("too_large", call, "The request exceeds the connection's maxPayload");
  if (!withinJsonBounds(text)) throw notSent("invalid_request", call, BEYOND_JSON_BOUNDS);
  return text;
}

/** A refusal of our own, before anything left. */
export function notSent(
  code: "unavailable" | "too_large" | "invalid_request" | "aborted",
  call: FailedCall,
  message: string,
): CallError {
  return new CallError(code, call, {
    message: `${message}; nothing was sent`,
    retrySafe: code === "unavailable" || code === "aborted",
    mutationMayHaveApplied: false,
  });
}

/** No JSON is, for example, a cycle or a bigint. */
function textOf(frame: RequestFrame): string {
  try {
    return JSON.stringify(frame);
  } catch (cause) {
    throw new LemonError("invalid_params", { message: "Invalid params: not JSON", cause });
  }
}

/** Whether `text` is longer than `limit` in UTF-8; encodes it only when that is in doubt. */
function exceeds(text: string, limit: number): boolean {
  if (text.length * 3 <= limit) return false;
  return text.length > limit || utf8.encode(text).length > limit;
}
