/**
 * Owns the frames of `/ws` (control-plane-wire.md 1.2 to 1.5): what a client may send, what it reads.
 * One JSON object a text frame.
 *
 * 1. Reading a frame never throws, costs time linear in its length, and builds no object before its
 *    bounds are known to hold.
 * 2. What is refused is answered with a sentence that existing clients know; it quotes nothing of the
 *    frame but a short type name.
 */
import { type ErrorDetails, LemonError, type WireCode } from "./errors.ts";
import type { Role, Scope } from "./scopes.ts";

export interface RequestFrame {
  readonly type: "req";
  /** Echoed as it came; unique among the connection's requests in flight. */
  readonly id: string;
  readonly method: string;
  readonly params?: unknown;
}

interface ResponseFrame {
  readonly type: "res";
  readonly id: string;
  readonly ok: true;
  readonly payload: unknown;
}

interface ErrorFrame {
  readonly type: "res";
  readonly id: string;
  readonly ok: false;
  readonly error: {
    readonly code: WireCode;
    readonly message: string;
    readonly details?: ErrorDetails;
  };
}

export interface HelloFrame {
  readonly type: "hello-ok";
  readonly protocol: number;
  readonly server: {
    readonly version: string;
    readonly commit: string | null;
    readonly host: string;
    readonly connId: string;
  };
  readonly features: { readonly methods: readonly string[]; readonly events: readonly string[] };
  readonly snapshot: {
    readonly presence: Readonly<Record<string, never>>;
    readonly health: { readonly ok: true };
  };
  readonly policy: Policy;
  readonly auth: {
    readonly role: Role;
    readonly scopes: readonly Scope[];
    readonly clientId?: string;
  };
}

/** Version of the protocol in `hello-ok`. */
export const PROTOCOL_VERSION = 1;

/** The id of an answer to a frame whose own id could not be read. */
export const UNKNOWN_FRAME_ID = "unknown";

export interface Policy {
  /** Largest text frame either side may send, in bytes. */
  readonly maxPayload: number;
  /** Bytes of events that may wait for a slow reader before its socket is closed. */
  readonly maxBufferedBytes: number;
  readonly tickIntervalMs: number;
}

/** 4 MiB, so that a 1 MiB file chunk and a 1 MiB process output fit in base64 (rulings). */
export const POLICY: Policy = {
  maxPayload: 4_194_304,
  maxBufferedBytes: 8_388_608,
  tickIntervalMs: 15_000,
};

/**
 * Bounds of one inbound frame (control-plane-wire.md 1.7). A list or object directly in the frame is
 * at depth 1; each member of any list or object, the frame's own included, is an item.
 */
export const JSON_BOUNDS = { depth: 32, items: 10_000 } as const;

/** Longest request id, in UTF-16 units: ids in flight are kept, and every answer repeats one. */
export const REQUEST_ID_MAX_LENGTH = 4_096;

/** A parsed frame, or the failure that is answered with id `unknown`. */
export type ParsedFrame =
  | { readonly ok: true; readonly frame: RequestFrame }
  | { readonly ok: false; readonly error: LemonError };

function refuse(message: string): ParsedFrame {
  return { ok: false, error: new LemonError("invalid_request", { message }) };
}

/** What a frame that is not text is answered with. */
export function binaryFrameRefusal(): LemonError {
  return new LemonError("invalid_request", { message: "Binary frames not supported" });
}

/** What a text frame larger than `policy.maxPayload` is answered with. */
export function oversizedFrameRefusal(): LemonError {
  return new LemonError("too_large", { message: "Payload exceeds maxPayload policy" });
}

/** Reads one text frame. */
export function parseRequestFrame(text: string): ParsedFrame {
  if (!withinJsonBounds(text)) return refuse("Payload violates JSON boundary policy");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's own message quotes the input, so it is not passed on.
    return refuse("Invalid JSON: the frame is not one JSON value");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return refuse("frame must have type field");
  }
  // What `JSON.parse` makes inherits none of these names; a client's `__proto__` is a member like others.
  const frame: UntrustedFrame = value;
  if (frame.type === undefined) return refuse("frame must have type field");
  if (frame.type !== "req") return refuse(`expected request frame, got: ${shownType(frame.type)}`);
  const { id, method } = frame;
  if (typeof id !== "string" || typeof method !== "string") {
    return refuse("request frame must have id and method");
  }
  if (id.length > REQUEST_ID_MAX_LENGTH) {
    return refuse(`request id must be at most ${REQUEST_ID_MAX_LENGTH} characters`);
  }
  return { ok: true, frame: { type: "req", id, method, params: frame.params } };
}

/** A JSON object of which nothing is known. */
interface UntrustedFrame {
  readonly type?: unknown;
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: unknown;
}

/** A type name short and plain enough to be quoted; else what kind of value stood there. */
function shownType(type: unknown): string {
  if (type === null) return "null";
  if (typeof type !== "string") return Array.isArray(type) ? "list" : typeof type;
  return type.length <= 64 ? type.replace(/[^\x20-\x7e]/g, "?") : "string";
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Whether the text keeps the bounds, found by reading its punctuation alone: `JSON.parse` makes a
 * hundred bytes of objects out of two bytes of text, so the bounds come first. Text that is no JSON
 * may pass or fail; the parser has the last word on it.
 */
export function withinJsonBounds(text: string): boolean {
  let depth = -1;
  let items = 0;
  // Set from an opening until its first member, which no comma announces.
  let opened = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charCodeAt(at);
    switch (char) {
      case COMMA:
        items += 1;
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        if (opened) items += 1;
        opened = true;
        depth += 1;
        if (depth > JSON_BOUNDS.depth) return false;
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        opened = false;
        depth -= 1;
        break;
      default:
        // Space, tab, line feed and carriage return are the only characters that begin no value.
        if (opened && char > 0x20) {
          items += 1;
          opened = false;
        }
        if (char === QUOTE) at = endOfString(text, at);
    }
    if (items > JSON_BOUNDS.items) return false;
  }
  return true;
}

/** The index of the quote that ends the string begun at `start`; the text's length when none does. */
function endOfString(text: string, start: number): number {
  let at = start;
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at === -1) return text.length;
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
}

/** The text of a successful answer. Throws when the payload is no JSON value (a cycle, a bigint). */
export function responseText(id: string, payload: unknown): string {
  const frame: ResponseFrame = { type: "res", id, ok: true, payload: payload ?? null };
  return JSON.stringify(frame);
}

/** The text of a failed answer. */
export function errorText(id: string, error: LemonError, mutation: boolean): string {
  return JSON.stringify(errorFrame(id, error, mutation));
}

/** How a failure reads on the wire: the table's classification and its promises stand in `details`. */
export function errorFrame(id: string, error: LemonError, mutation: boolean): ErrorFrame {
  return {
    type: "res",
    id,
    ok: false,
    error: {
      code: error.wire,
      message: error.message,
      details: {
        ...error.details,
        code: error.code,
        retrySafe: error.retrySafe,
        ...(mutation ? { mutationMayHaveApplied: error.mutationMayHaveApplied } : {}),
      },
    },
  };
}
