/** Owns how what one connection says to the others is told, whoever it is (control-plane-wire.md 3.10). */
import { LemonError } from "../../protocol/errors.ts";
import type { EventPayload } from "../../protocol/events.ts";

/** Every connection gets a copy of what is told, so it is bounded well below a frame. */
export const TOLD_MAX_BYTES = 65_536;
const LOG_MESSAGE_MAX_LENGTH = 500;

/** Errors: `too_large`. */
export function refuseOversized(payload: EventPayload): void {
  if (Buffer.byteLength(JSON.stringify(payload)) > TOLD_MAX_BYTES)
    throw new LemonError("too_large");
}

/** The event that it is told as: one of a type without a name of its own is `custom`. */
export function told(
  eventType: string,
  payload: EventPayload,
): ["heartbeat" | "metrics" | "log" | "custom", EventPayload] {
  switch (eventType) {
    case "heartbeat": {
      const { agentId, status, response } = payload;
      return [
        "heartbeat",
        {
          agentId: textOf(agentId),
          status: textOf(status),
          ...(response === undefined ? {} : { response }),
        },
      ];
    }
    case "metrics":
      return ["metrics", { payload }];
    case "log": {
      const message = textOf(payload["message"]) ?? "";
      const level = textOf(payload["level"]) ?? "info";
      return ["log", { level, message: message.slice(0, LOG_MESSAGE_MAX_LENGTH) }];
    }
    default:
      return ["custom", { type: eventType, payload }];
  }
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
