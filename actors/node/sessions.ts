/** Owns the words between this room and whoever holds the `/ws` connections of nodes. */
import type { EventPayload } from "../../protocol/events.ts";
import type { NodeId } from "../../protocol/ids.ts";

/**
 * Ends the `/ws` connections of a node: those whose token is of a session generation below
 * `olderThan`, or all of them (null).
 */
export type EndSessions = (
  nodeId: NodeId,
  olderThan: number | null,
  close: { readonly code: number; readonly reason: string },
) => void;

/** Told to whoever hears `nodes`; carries no secret of ours but the code that a human compares. */
export type NodeEvent =
  | {
      readonly event: "node.pair.requested";
      readonly payload: {
        readonly pairingId: string;
        readonly code: string;
        readonly nodeType: string;
        readonly nodeName: string;
        readonly expiresAtMs: number;
      };
    }
  | {
      readonly event: "node.pair.resolved";
      readonly payload: {
        readonly pairingId: string;
        readonly nodeId: string | null;
        readonly approved: boolean;
        readonly rejected: boolean;
      };
    }
  /** What a node tells of itself. */
  | {
      readonly event: "heartbeat" | "metrics" | "log" | "custom";
      readonly payload: EventPayload;
    };
