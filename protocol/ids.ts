/** Owns the ids that cross rooms: branded, so that one kind can not be handed over as another. */
import { z } from "zod";

/** Durable id of an enrolled node (UUID). It never changes and is never used again. */
export const nodeId = z.string().min(1).max(128).brand<"NodeId">();
export type NodeId = z.infer<typeof nodeId>;

/** Public key of a node's NATS account; what subjects are made of. Internal to the fleet. */
export type NodeKey = string & z.$brand<"NodeKey">;

/** The caller's own id of a process run, spent for ever by its first use (node-host-io.md). */
export const processId = z
  .string()
  .regex(/^[A-Za-z0-9_:-]{1,128}$/, "must be 1 to 128 of letters, digits, _, : and -")
  .brand<"ProcessId">()
  .describe("The caller's own id of the run, spent for ever by its first use.");
export type ProcessId = z.infer<typeof processId>;

/** One `/ws` connection. */
export type ConnectionId = string & z.$brand<"ConnectionId">;
