/** Owns what a node tells the others of itself over its `/ws` connection (control-plane-wire.md 3.2). */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { refuseOversized, told } from "../events/told.ts";
import { type AttemptBound, Buckets } from "../session/buckets.ts";
import type { MethodHandlers } from "../session/handler.ts";
import type { NodeEvent } from "./sessions.ts";
import type { NodeSockets } from "./sockets.ts";

export type NodeEventMethod = "node.event";

/** Of one node: each is told to everybody, so one that never stops must not drown the others. */
export const EVENT_ATTEMPTS: AttemptBound = { burst: 200, refillMs: 50 };

export interface NodeEventMethodsOptions {
  readonly sockets: Pick<NodeSockets, "touch">;
  readonly clock: Clock;
  readonly publish: (event: NodeEvent) => void;
}

export function nodeEventMethods(
  options: NodeEventMethodsOptions,
): MethodHandlers<NodeEventMethod> {
  const { sockets, clock, publish } = options;
  const events = new Buckets(clock, EVENT_ATTEMPTS);
  return {
    "node.event"({ eventType, payload = {} }, { node }) {
      if (node === null) throw new LemonError("forbidden");
      refuseOversized(payload);
      const { nodeId } = node;
      events.spend(nodeId);
      sockets.touch(nodeId);
      const event = told(eventType, payload, { timestampMs: clock.nowMs(), nodeId });
      publish(event);
      return { eventType, broadcast: true, summary: { eventType, event: event.event, nodeId } };
    },
  };
}
