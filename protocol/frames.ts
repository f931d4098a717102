/**
 * Owns the frames of `/ws` (control-plane-wire.md 1.2 to 1.5): what a client may send, what it reads.
 * One JSON object a text frame.
 */
import { z } from "zod";
import { type ErrorDetails, LemonError, type WireCode } from "./errors.ts";
import type { Role, Scope } from "./scopes.ts";

export interface RequestFrame {
  readonly type: "req";
  /** Echoed as it came; unique among the connection's requests in flight. */
  readonly id: string;
  readonly method: string;
  readonly params?: unknown;
}

export interface ResponseFrame {
  readonly type: "res";
  readonly id: string;
  readonly ok: true;
  readonly payload: unknown;
}

export interface ErrorFrame {
  readonly type: "res";
  readonly id: string;
  readonly ok: false;
  readonly error: {
    readonly code: WireCode;
    readonly message: string;
    readonly details?: ErrorDetails;
  };
}

export interface EventFrame {
  readonly type: "event";
  readonly event: string;
  /** From 1 on each connection; counts only what was delivered on it. */
  readonly seq: number;
  readonly payload?: unknown;
  readonly stateVersion?: Readonly<Record<string, number>>;
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

/** Nesting and item bounds of one inbound frame (control-plane-wire.md 1.7). */
export const JSON_BOUNDS = { depth: 32, items: 10_000 } as const;

/** A parsed frame, or the sentence that answers it with id `unknown`. */
export type ParsedFrame =
  | { readonly ok: true; readonly frame: RequestFrame }
  | { readonly ok: false; readonly error: LemonError };

function refuse(message: string): ParsedFrame {
  return { ok: false, error: new LemonError("invalid_request", { message }) };
}

/** Reads one text frame. Never throws; the sentences are pinned by existing clients. */
export function parseRequestFrame(text: string): ParsedFrame {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's own message quotes the input, so it is not passed on.
    return refuse("Invalid JSON: the frame is not one JSON value");
  }
  if (!withinJsonBounds(value)) return refuse("Payload violates JSON boundary policy");
  if (typeof value !== "object" || value === null || Array.isArray(value) || !("type" in value)) {
    return refuse("frame must have type field");
  }
  if (value.type !== "req") {
    const shown =
      typeof value.type === "string" && value.type.length <= 64 ? value.type : typeof value.type;
    return refuse(`expected request frame, got: ${shown}`);
  }
  const frame = requestFrame.safeParse(value);
  return frame.success
    ? { ok: true, frame: value as RequestFrame }
    : refuse("request frame must have id and method");
}

const requestFrame = z.looseObject({ id: z.string(), method: z.string() });

/** Walks the value once without recursion, so that a hostile depth can not exhaust the stack. */
function withinJsonBounds(root: unknown): boolean {
  let items = 0;
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > JSON_BOUNDS.depth) return false;
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== "object" || value === null) continue;
      const members: unknown[] = Array.isArray(value) ? value : Object.values(value);
      items += members.length;
      if (items > JSON_BOUNDS.items) return false;
      for (const member of members)
        if (typeof member === "object" && member !== null) next.push(member);
    }
    level = next;
  }
  return true;
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
