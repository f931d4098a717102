/** Owns how what one connection says to the others is told, whoever it is (control-plane-wire.md 3.10). */
import { LemonError } from "../../protocol/errors.ts";
import type { EventOf, EventPayload, PayloadOf } from "../../protocol/events.ts";

/** Every connection gets a copy of what is told, so it is bounded well below a frame. */
export const TOLD_MAX_BYTES = 65_536;
/** In UTF-16 units; the rest is cut off. */
const LOG_MESSAGE_MAX_LENGTH = 500;

/** Errors: `too_large`. */
export function refuseOversized(payload: EventPayload): void {
  if (Buffer.byteLength(JSON.stringify(payload)) > TOLD_MAX_BYTES)
    throw new LemonError("too_large");
}

export type Told = EventOf<"heartbeat" | "metrics" | "log" | "custom">;

/** When it was said, and to which run or session, or by which node. */
type Origin = Pick<
  PayloadOf<"heartbeat" | "metrics" | "log" | "custom">,
  "timestampMs" | "runId" | "sessionKey" | "nodeId"
>;

/** The event that it is told as: one of a type without a name of its own is `custom`. */
export function told(eventType: string, payload: EventPayload, origin: Origin): Told {
  switch (eventType) {
    case "heartbeat": {
      const { agentId, status, response } = payload;
      return {
        event: "heartbeat",
        payload: {
          agentId: textOf(agentId),
          status: textOf(status),
          ...(response === undefined ? {} : { response }),
          ...origin,
        },
      };
    }
    case "metrics":
      return { event: "metrics", payload: { payload, ...origin } };
    case "log": {
      const message = textOf(payload["message"]) ?? "";
      const level = textOf(payload["level"]) ?? "info";
      return {
        event: "log",
        payload: { level, message: message.slice(0, LOG_MESSAGE_MAX_LENGTH), ...origin },
      };
    }
    default:
      return { event: "custom", payload: { type: eventType, payload, ...origin } };
  }
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
