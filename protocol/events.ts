/**
 * Owns the events of `/ws`: their names, who hears which, what they carry, how they read on the wire
 * (control-plane-wire.md 1.6 and 3.10).
 */
import { z } from "zod";
import type { Scope } from "./scopes.ts";

/** What this build sends; `hello-ok.features.events`, in the order that clients know. */
export const EVENTS = [
  "presence",
  "tick",
  "shutdown",
  "health",
  "heartbeat",
  "metrics",
  "log",
  "node.pair.requested",
  "node.pair.resolved",
  "node.invoke.request",
  "node.invoke.completed",
  "node.invoke.cancel",
  "device.pair.requested",
  "device.pair.resolved",
  "custom",
] as const;

/** What is only ever told to the one connection it concerns (control-plane-wire.md 3.2, rulings). */
export const PRIVATE_EVENTS = [
  "node.invoke.request",
  "node.invoke.completed",
  "node.invoke.cancel",
] as const;
export type PrivateEventName = (typeof PRIVATE_EVENTS)[number];
/** What is told to all who hear its topics. */
export type EventName = Exclude<AnyEventName, PrivateEventName>;
export type AnyEventName = (typeof EVENTS)[number];

/** Topics that can be named as they are; besides there are `run:<id>` and `session:<key>`. */
export const TOPICS = [
  "all",
  "system",
  "cron",
  "nodes",
  "presence",
  "exec_approvals",
  "channels",
  "goals",
] as const;
export type Topic = (typeof TOPICS)[number] | `run:${string}` | `session:${string}`;

/** Longest topic, in UTF-16 units: the longest session key, and some. */
const TOPIC_MAX_LENGTH = 1_024;

export function isTopic(text: string): text is Topic {
  if ((TOPICS as readonly string[]).includes(text)) return true;
  return text.length <= TOPIC_MAX_LENGTH && /^(run|session):./su.test(text);
}

/** What an event is, declared once. */
export interface EventSpec<Payload extends z.ZodType = z.ZodType> {
  /** When it is told; one sentence for the reference. */
  readonly summary: string;
  /**
   * Those it belongs to by its name; besides there are the run and the session that the payload names.
   * A private event has none.
   */
  readonly topics: readonly Topic[];
  /** Any one of these is enough to hear it; with none of them everybody but a node does. */
  readonly scopes: readonly Scope[];
  readonly payload: Payload;
}

const timeMs = z.int().nonnegative().describe("Unix time in ms.");
/** What another client sent with `events.ingest` says where it was sent to; what a node sent, which node. */
const ingested = {
  timestampMs: timeMs,
  runId: z.string().optional().describe("The run it was sent to."),
  sessionKey: z.string().optional().describe("The session it was sent to."),
  nodeId: z.string().optional().describe("The node that told it of itself."),
};

function event<Payload extends z.ZodType>(
  topics: readonly Topic[],
  scopes: readonly Scope[],
  summary: string,
  payload: Payload,
): EventSpec<Payload> {
  return { summary, topics, scopes, payload };
}

export const EVENT_SPECS = {
  presence: event(
    ["presence"],
    ["read"],
    "Somebody connected or left; changes close together are told once.",
    z.object({
      connections: z
        .array(
          z.object({
            conn_id: z.string(),
            role: z.string(),
            client_id: z
              .string()
              .nullable()
              .describe("An operator's free text; a node's durable id."),
            connected_at: timeMs,
          }),
        )
        .describe("The newest 200."),
      count: z.int().nonnegative().describe("All of them, also those that are not listed."),
    }),
  ),
  tick: event(
    ["cron", "system"],
    [],
    "Time goes on: every `policy.tickIntervalMs`.",
    z.object({ timestampMs: timeMs }),
  ),
  shutdown: event(
    ["system"],
    [],
    "The control plane stops; the socket is closed with 1001 after what is in flight.",
    z.object({ reason: z.string() }),
  ),
  health: event(
    ["system"],
    [],
    "The control plane lost its hub, or has it back.",
    z.object({ ok: z.boolean(), hub: z.enum(["lost", "connected"]) }),
  ),
  heartbeat: event(
    ["system"],
    ["read"],
    "Another client sent it with `events.ingest`, or a node with `node.event`.",
    z.object({
      agentId: z.string().nullable(),
      status: z.string().nullable(),
      response: z.unknown().optional(),
      ...ingested,
    }),
  ),
  metrics: event(
    ["system"],
    ["read"],
    "Another client sent it with `events.ingest`, or a node with `node.event`.",
    z.object({ payload: z.record(z.string(), z.unknown()), ...ingested }),
  ),
  log: event(
    ["system"],
    ["read"],
    "Another client sent it with `events.ingest`, or a node with `node.event`.",
    z.object({
      level: z.string().describe("`info` when none was sent."),
      message: z.string().max(500).describe("Cut after 500 characters."),
      ...ingested,
    }),
  ),
  "node.pair.requested": event(
    ["nodes"],
    ["read", "pairing"],
    "A machine asks to become a node.",
    z.object({
      pairingId: z.string(),
      code: z.string().describe("What an operator compares before the approval."),
      nodeType: z.string(),
      nodeName: z.string(),
      expiresAtMs: timeMs,
    }),
  ),
  "node.pair.resolved": event(
    ["nodes"],
    ["read", "pairing"],
    "It was approved or rejected.",
    z.object({
      pairingId: z.string(),
      nodeId: z.string().nullable().describe("Null when rejected."),
      approved: z.boolean(),
      rejected: z.boolean(),
    }),
  ),
  "node.invoke.request": event(
    [],
    [],
    "Told to a node that is connected to `/ws` itself: do this, and answer with `node.invoke.result`.",
    z.object({
      invokeId: z.string(),
      nodeId: z.string(),
      nodeName: z.string(),
      method: z.string(),
      args: z.record(z.string(), z.unknown()),
      timeoutMs: z.int().positive(),
    }),
  ),
  "node.invoke.completed": event(
    [],
    [],
    "Told to the connection that called `node.invoke`: the outcome.",
    z.object({
      invokeId: z.string(),
      nodeId: z.string(),
      ok: z.boolean(),
      result: z.unknown().describe("What the node answered; null when it failed."),
      error: z.unknown().describe("What went wrong; null when nothing did."),
    }),
  ),
  "node.invoke.cancel": event(
    [],
    [],
    "Told to the node that still works on it: nobody waits for the answer any more.",
    z.object({ invokeId: z.string(), nodeId: z.string(), reason: z.string() }),
  ),
  "device.pair.requested": event(
    ["nodes"],
    ["read", "pairing"],
    "A device asks to be paired.",
    z.object({ pairingId: z.string(), deviceType: z.string(), deviceName: z.string() }),
  ),
  "device.pair.resolved": event(
    ["nodes"],
    ["read", "pairing"],
    "It was approved or rejected.",
    z.object({
      pairingId: z.string(),
      status: z.enum(["approved", "rejected"]),
      deviceType: z.string(),
      deviceName: z.string(),
    }),
  ),
  custom: event(
    ["system"],
    ["read"],
    "Another client sent it with `events.ingest`, or a node with `node.event`.",
    z.object({
      type: z
        .string()
        .describe("`custom` or `custom_<name>`; from a node also `status`, `error` and the like."),
      payload: z.record(z.string(), z.unknown()),
      ...ingested,
    }),
  ),
} satisfies Readonly<Record<AnyEventName, EventSpec>>;

/** The payload of an event as this version knows it. */
export type PayloadOf<E extends AnyEventName> = z.output<(typeof EVENT_SPECS)[E]["payload"]>;

/** An event with its payload, of any of these names. */
export type EventOf<E extends AnyEventName> = {
  readonly [Name in E]: { readonly event: Name; readonly payload: PayloadOf<Name> };
}[E];

export type EventPayload = Readonly<Record<string, unknown>>;

/** The topics that an event belongs to: its name's, and those of the run and the session it names. */
export function topicsOf(event: EventName, payload: EventPayload | null): readonly Topic[] {
  const topics = [...EVENT_SPECS[event].topics];
  for (const [kind, names] of [
    ["run", ["runId", "run_id"]],
    ["session", ["sessionKey", "session_key"]],
  ] as const) {
    for (const name of names) {
      const id = payload?.[name];
      if (typeof id === "string" && id !== "") topics.push(`${kind}:${id}`);
    }
  }
  return topics;
}

/** How often what they count has changed; a client that saw a higher number knows that it missed nothing. */
export interface StateVersion {
  readonly presence: number;
  readonly health: number;
  readonly cron: number;
}

/**
 * The text of an event's frame, but for the number that differs from one connection to the next. A null
 * payload is left out; a null version is empty.
 */
export function eventText(
  event: AnyEventName,
  payload: EventPayload | null,
  stateVersion: StateVersion | null,
): (seq: number) => string {
  const head = `{"type":"event","event":${JSON.stringify(event)},"seq":`;
  const body = payload === null ? "" : `,"payload":${JSON.stringify(payload)}`;
  const tail = `${body},"stateVersion":${JSON.stringify(stateVersion ?? {})}}`;
  return (seq) => `${head}${seq}${tail}`;
}
