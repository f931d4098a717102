/** Declares what a connection hears and may say to the others, and who is connected (control-plane-wire.md 1.6 and 3.9). */
import { z } from "zod";
import { method } from "../method.ts";

const count = z.int().nonnegative();
const summary = z.looseObject({});
const topics = z.array(z.string()).optional();
const runId = z.string().min(1, "must not be empty").max(256, "must be at most 256 characters");

export const eventsSubscribe = method({
  name: "events.subscribe",
  summary: "Adds topics to what this connection hears; before the first time it hears everything.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ topics, runId: runId.optional() }),
  result: z.object({
    subscribed: z.literal(true),
    topics: z.array(z.string()),
    runId: z.string().nullable(),
    summary,
  }),
});

export const eventsUnsubscribe = method({
  name: "events.unsubscribe",
  summary: "Takes topics from what this connection hears; without any, all of them.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ topics, runId: runId.optional() }),
  result: z.object({
    unsubscribed: z.literal(true),
    topics: z.array(z.string()).nullable(),
    runId: z.string().nullable(),
    summary,
  }),
});

export const eventsSubscriptionsList = method({
  name: "events.subscriptions.list",
  summary: "What this connection hears.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    subscriptions: z.array(z.string()),
    runSubscriptions: z.array(z.string()),
    count,
    summary,
  }),
});

export const eventsIngest = method({
  name: "events.ingest",
  summary: "Tells an event to all connections that hear its topic.",
  scopes: ["write"],
  effect: "mutation",
  params: z.object({
    eventType: z
      .string()
      .regex(
        /^(heartbeat|metrics|log|custom(_[A-Za-z0-9_.-]{1,64})?)$/,
        "must be custom, heartbeat, metrics, log or custom_<name>",
      ),
    payload: z.record(z.string(), z.unknown()).optional(),
    target: z.string().optional(),
  }),
  result: z.object({
    ingested: z.literal(true),
    eventType: z.string(),
    target: z.string(),
    timestampMs: count,
    summary,
  }),
});

export const systemPresence = method({
  name: "system-presence",
  summary: "Who is connected: the newest thousand, and how many there are.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    connections: z.array(
      z.object({
        conn_id: z.string(),
        role: z.string(),
        client_id: z.string().nullable(),
        connected_at: count,
      }),
    ),
    count,
    summary,
  }),
});
