/** Owns the words between this room and whoever holds the `/ws` connections of nodes. */
import type { EventOf } from "../../protocol/events.ts";
import type { NodeId } from "../../protocol/ids.ts";
import type { Told } from "../events/told.ts";

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
export type NodeEvent = EventOf<"node.pair.requested" | "node.pair.resolved"> | Told;
