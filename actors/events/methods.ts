/** Owns the methods about events: what a connection hears, what it tells the others, who they are. */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { isTopic, type Topic } from "../../protocol/events.ts";
import type { MethodHandlers } from "../session/handler.ts";
import type { Roster } from "../session/roster.ts";
import { presenceOf } from "./announcer.ts";
import type { Broadcast } from "./broadcast.ts";
import type { Subscription } from "./subscription.ts";
import { refuseOversized, told } from "./told.ts";

export type EventMethod =
  | "events.subscribe"
  | "events.unsubscribe"
  | "events.subscriptions.list"
  | "events.ingest"
  | "system-presence";

export interface EventMethodsOptions {
  readonly broadcast: Broadcast;
  readonly roster: Roster;
  readonly clock: Clock;
}

/** Rows of `system-presence`. */
const PRESENCE_ROWS = 1_000;

export function eventMethods(options: EventMethodsOptions): MethodHandlers<EventMethod> {
  const { broadcast, roster, clock } = options;
  return {
    "events.subscribe"({ topics = [], runId = null }, { connectionId }) {
      const named = topicsNamed(topics, runId);
      const added: readonly Topic[] = named.length === 0 ? ["all"] : named;
      const subscription = broadcast.subscriptionOf(connectionId);
      subscription.add(added);
      return { subscribed: true, topics: [...added], runId, summary: summaryOf(subscription) };
    },

    "events.unsubscribe"({ topics = [], runId = null }, { connectionId }) {
      const named = topicsNamed(topics, runId);
      const subscription = broadcast.subscriptionOf(connectionId);
      if (named.length === 0) subscription.clear();
      else subscription.remove(named);
      return {
        unsubscribed: true,
        topics: named.length === 0 ? null : [...named],
        runId,
        summary: summaryOf(subscription),
      };
    },

    "events.subscriptions.list"(_params, { connectionId }) {
      const subscription = broadcast.subscriptionOf(connectionId);
      const { topics } = subscription;
      return {
        subscriptions: [...topics],
        runSubscriptions: topics.flatMap((topic) => idIn(topic, "run:") ?? []),
        count: topics.length,
        summary: summaryOf(subscription),
      };
    },

    "events.ingest"({ eventType, payload = {}, target = "system" }) {
      if (target === "all" || !isTopic(target)) throw refusal([target]);
      refuseOversized(payload);
      const timestampMs = clock.nowMs();
      const { event, payload: body } = told(eventType, payload, {
        timestampMs,
        ...addressOf(target),
      });
      broadcast.publish(event, body, [target]);
      return { ingested: true, eventType, target, timestampMs, summary: { event, target } };
    },

    "system-presence"() {
      const { operators, nodes, devices, active } = roster.counts();
      return {
        ...presenceOf(roster.presence(PRESENCE_ROWS)),
        summary: {
          connectionCount: active,
          operatorCount: operators,
          nodeCount: nodes,
          deviceCount: devices,
        },
      };
    },
  };
}

/** Errors: `invalid_request`, naming those that are none. */
function topicsNamed(topics: readonly string[], runId: string | null): readonly Topic[] {
  const wrong = topics.filter((topic) => !isTopic(topic));
  if (wrong.length > 0) throw refusal(wrong);
  const named = topics.filter(isTopic);
  return runId === null ? named : [...named, `run:${runId}`];
}

/** A client's own words go back to it, but bounded and printable. */
function refusal(topics: readonly string[]): LemonError {
  const shown = topics
    .slice(0, 8)
    .map((topic) => topic.slice(0, 64).replace(/[^\x20-\x7e]/g, "?"))
    .join(", ");
  return new LemonError("invalid_request", { message: `Invalid topics: ${shown}` });
}

function summaryOf(subscription: Subscription) {
  return { subscriptionCount: subscription.topics.length };
}

/** The run or session that a target names, as a member of the payload. */
function addressOf(target: Topic): { runId?: string; sessionKey?: string } {
  const runId = idIn(target, "run:");
  if (runId !== null) return { runId };
  const sessionKey = idIn(target, "session:");
  return sessionKey === null ? {} : { sessionKey };
}

function idIn(topic: Topic, kind: "run:" | "session:"): string | null {
  return topic.startsWith(kind) ? topic.slice(kind.length) : null;
}
