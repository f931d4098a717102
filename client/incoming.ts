/**
 * Owns the reading of what the peer sends. Everything is hostile until read.
 *
 * 1. Never throws.
 * 2. What is not one JSON object with a known shape has no effect beyond its kind: `foreign` (from a
 *    newer peer: ignored) or `unreadable` (no peer of ours: the connection ends).
 */
import { z } from "zod";
import { POLICY, type Policy } from "../protocol/frames.ts";
import type { WireFailure } from "./errors.ts";

/** What the peer says of itself, of us and of its limits (control-plane-wire.md 1.4). */
export interface Hello {
  readonly protocol: number;
  readonly version: string;
  readonly commit: string | null;
  readonly host: string;
  readonly connectionId: string;
  readonly methods: readonly string[];
  readonly events: readonly string[];
  readonly policy: Policy;
  /** Who the token proved us to be; for a node `clientId` is its durable id. */
  readonly role: string;
  readonly scopes: readonly string[];
  readonly clientId: string | null;
}

/** One event, as the control plane numbered it (control-plane-wire.md 1.6). */
export interface IncomingEvent {
  readonly event: string;
  readonly seq: number;
  /** Null when there is none. */
  readonly payload: unknown;
  readonly stateVersion: Readonly<Record<string, number>>;
}

export type Incoming =
  | { readonly kind: "hello"; readonly hello: Hello }
  | { readonly kind: "answer"; readonly id: string; readonly payload: unknown }
  | { readonly kind: "failure"; readonly id: string; readonly failure: WireFailure }
  | { readonly kind: "event"; readonly event: IncomingEvent }
  /** An answer to `id` that can not be read. */
  | { readonly kind: "garbled"; readonly id: string }
  | { readonly kind: "foreign" }
  | { readonly kind: "unreadable" };

const FOREIGN: Incoming = { kind: "foreign" };
const UNREADABLE: Incoming = { kind: "unreadable" };

export function readFrame(text: string): Incoming {
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return UNREADABLE;
  }
  if (!isRecord(frame)) return UNREADABLE;
  if (frame["type"] === "res") return readAnswer(frame);
  if (frame["type"] === "hello-ok") return readHello(frame);
  if (frame["type"] === "event") return readEvent(frame);
  return FOREIGN;
}

function readAnswer(frame: Readonly<Record<string, unknown>>): Incoming {
  const { id, ok, payload, error } = frame;
  if (typeof id !== "string") return FOREIGN;
  if (ok === true && "payload" in frame) return { kind: "answer", id, payload };
  if (ok !== false || !isRecord(error) || typeof error["code"] !== "string")
    return { kind: "garbled", id };
  const { code, message, details } = error;
  return {
    kind: "failure",
    id,
    failure: {
      code,
      message: typeof message === "string" && message !== "" ? message : code,
      details: isRecord(details) ? details : {},
    },
  };
}

const eventFrame = z.looseObject({
  event: z.string().min(1),
  seq: z.int(),
  payload: z.unknown().optional(),
  stateVersion: z.record(z.string(), z.number()).catch({}),
});

function readEvent(frame: unknown): Incoming {
  const parsed = eventFrame.safeParse(frame);
  if (!parsed.success) return FOREIGN;
  const { event, seq, payload = null, stateVersion } = parsed.data;
  return { kind: "event", event: { event, seq, payload, stateVersion } };
}

/** A silence of three ticks is waited for, and platform timers take no more than 24 days. */
const LONGEST_TICK_MS = 86_400_000;

const strings = z.array(z.string());
const bytes = z.int().min(1_024);
const helloFrame = z.looseObject({
  protocol: z.int(),
  server: z.looseObject({
    version: z.string(),
    commit: z.string().nullish(),
    host: z.string().catch(""),
    connId: z.string(),
  }),
  features: z.looseObject({ methods: strings, events: strings.catch([]) }),
  policy: z
    .looseObject({
      maxPayload: bytes.catch(POLICY.maxPayload),
      maxBufferedBytes: bytes.catch(POLICY.maxBufferedBytes),
      tickIntervalMs: z.int().min(1).max(LONGEST_TICK_MS).catch(POLICY.tickIntervalMs),
    })
    .catch({ ...POLICY }),
  auth: z.looseObject({
    role: z.string(),
    scopes: strings.catch([]),
    clientId: z.string().nullish(),
  }),
});

function readHello(frame: unknown): Incoming {
  const parsed = helloFrame.safeParse(frame);
  if (!parsed.success) return UNREADABLE;
  const { protocol, server, features, policy, auth } = parsed.data;
  return {
    kind: "hello",
    hello: {
      protocol,
      version: server.version,
      commit: server.commit ?? null,
      host: server.host,
      connectionId: server.connId,
      methods: features.methods,
      events: features.events,
      policy: {
        maxPayload: policy.maxPayload,
        maxBufferedBytes: policy.maxBufferedBytes,
        tickIntervalMs: policy.tickIntervalMs,
      },
      role: auth.role,
      scopes: auth.scopes,
      clientId: auth.clientId ?? null,
    },
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
