/** Owns what controller and worker say on the node link besides the `/ws` methods that are passed on. */
import { z } from "zod";
import { lemonVersion } from "./methods/enrolment.ts";
import { hostIo } from "./methods/nodes.ts";

const count = z.int().nonnegative();

/** Asked every few seconds of each worker life; its answer is what "online" means. No parameters. */
export const NODE_PING = "node.ping";

/** Small live facts about a worker life. */
export const nodePing = z.object({
  lemonVersion,
  /** Spent process ids, of the limit; null while the receipt store is not open. */
  receipts: z.object({ retained: count, limit: count }).nullable(),
  /** `ready`, or the classification that keeps the worker from admitting work. */
  receiptStore: z.string().regex(/^[a-z_]{1,64}$/),
  /** Identity of the receipt store and its highest witnessed revision; null while it is not open. */
  storeId: z.string().max(64).nullable(),
  storeSequence: count.nullable(),
  /** What it has answered of files, processes and secrets so far. Workers of before 2026.12 do not say. */
  hostIo: hostIo.optional(),
});
export type NodePing = Readonly<z.infer<typeof nodePing>>;

/** The worker's own supervision tree (`TreeRow` of protocol/methods/system.ts). No parameters. */
export const NODE_TREE = "supervision.tree";

/** What a worker asks of its controller once it takes calls, so that it is online at once. No parameters. */
export const NODE_SERVING = "serving";
