/** Examples of the methods of `protocol/methods/events.ts`: subscriptions, events of clients and presence. */
import type { EVENT_METHODS } from "../../../protocol/methods/events.ts";
import { atMs, type ExamplesOf } from "./cast.ts";

export const presence = {
  connections: [
    {
      conn_id: "0d9c6a53-9d0c-4a0f-8c43-5a1f3a5f0f7e",
      role: "operator",
      client_id: "my-backend",
      connected_at: atMs,
    },
  ],
  count: 1,
};

export const EVENT_EXAMPLES: ExamplesOf<typeof EVENT_METHODS> = {
  "events.ingest": {
    params: { eventType: "custom_deploy", payload: { stage: "done" }, target: "run:r-17" },
    result: {
      ingested: true,
      eventType: "custom_deploy",
      target: "run:r-17",
      timestampMs: atMs,
      summary: { event: "custom" },
    },
  },
  "events.subscribe": {
    params: { topics: ["nodes"], runId: "r-17" },
    result: {
      subscribed: true,
      topics: ["nodes", "run:r-17"],
      runId: "r-17",
      summary: { subscriptionCount: 2 },
    },
  },
  "events.subscriptions.list": {
    params: {},
    result: {
      subscriptions: ["nodes", "run:r-17"],
      runSubscriptions: ["r-17"],
      count: 2,
      summary: { subscriptionCount: 2 },
    },
  },
  "events.unsubscribe": {
    params: { topics: ["nodes"] },
    result: {
      unsubscribed: true,
      topics: ["nodes"],
      runId: null,
      summary: { subscriptionCount: 1 },
    },
  },
  "system-presence": {
    params: {},
    result: { ...presence, summary: { connectionCount: 1 } },
  },
};
