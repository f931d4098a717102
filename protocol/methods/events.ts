/** Declares what a connection hears and may say to the others, and who is connected (control-plane-wire.md 1.6 and 3.9). */
import { z } from "zod";
import { method } from "../method.ts";

const count = z.int().nonnegative();
const timeMs = count.describe("Unix time in ms.");
const summary = z.looseObject({}).describe("A digest for people; its members may change.");
const topics = z.array(z.string()).optional().describe("One that is none is `INVALID_REQUEST`.");
const runId = z
  .string()
  .min(1, "must not be empty")
  .max(256, "must be at most 256 characters")
  .optional()
  .describe("Short for the topic `run:<id>`.");

const eventsSubscribe = method({
  name: "events.subscribe",
  summary: "Adds topics to what this connection hears; before the first time it hears everything.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ topics, runId }),
  result: z.object({
    subscribed: z.literal(true),
    topics: z.array(z.string()).describe("Those asked for; `all` when none was named."),
    runId: z.string().nullable(),
    summary,
  }),
});

const eventsUnsubscribe = method({
  name: "events.unsubscribe",
  summary: "Takes topics from what this connection hears; without any, all of them.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ topics, runId }),
  result: z.object({
    unsubscribed: z.literal(true),
    topics: z.array(z.string()).nullable().describe("Those taken away; null is all of them."),
    runId: z.string().nullable(),
    summary,
  }),
});

const eventsSubscriptionsList = method({
  name: "events.subscriptions.list",
  summary: "What this connection hears.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    subscriptions: z.array(z.string()).describe("Sorted; `all` alone before the first change."),
    runSubscriptions: z.array(z.string()).describe("The ids among them of the form `run:<id>`."),
    count,
    summary,
  }),
});

const eventsIngest = method({
  name: "events.ingest",
  summary: "Tells an event to all connections that hear its topic.",
  scopes: ["write"],
  effect: "mutation",
  unsettled: "it may have been told; told again, it is heard twice",
  params: z.object({
    eventType: z
      .string()
      .regex(
        /^(heartbeat|metrics|log|custom(_[A-Za-z0-9_.-]{1,64})?)$/,
        "must be custom, heartbeat, metrics, log or custom_<name>",
      ),
    payload: z
      .record(z.string(), z.unknown())
      .optional()
      .describe("At most 64 KiB as JSON; absent is `{}`."),
    target: z
      .string()
      .optional()
      .describe("The topic that hears it besides its own, `all` excepted; absent is `system`."),
  }),
  result: z.object({
    ingested: z.literal(true),
    eventType: z.string(),
    target: z.string(),
    timestampMs: timeMs,
    summary,
  }),
});

const systemPresence = method({
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
        client_id: z.string().nullable().describe("An operator's free text; a node's durable id."),
        connected_at: timeMs,
      }),
    ),
    count: count.describe("All of them, also those that are not listed."),
    summary,
  }),
});

export const EVENT_METHODS = [
  eventsSubscribe,
  eventsUnsubscribe,
  eventsSubscriptionsList,
  eventsIngest,
  systemPresence,
] as const;
