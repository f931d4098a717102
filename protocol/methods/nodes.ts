/** Declares the fleet: enrolled nodes, their names, what they can do (control-plane-wire.md 3.2, node-host-io.md). */
import { z } from "zod";
import { method } from "../method.ts";

const count = z.int().nonnegative();
const summary = z.looseObject({});

/** A node as the caller names it: the durable id, or the unique live name where the contract allows. */
export const nodeSelector = z
  .string()
  .min(1, "must not be empty")
  .max(128, "must be at most 128 characters");

/** Unique in the fleet; spaces around it and ways to compose its characters make no other name. */
export const nodeName = z
  .string()
  .trim()
  .normalize("NFC")
  .min(1, "must not be empty")
  .max(128, "must be at most 128 characters")
  .regex(/^[^\p{C}]*$/u, "must not contain control characters");

const nodeRow = z.object({
  nodeId: z.string(),
  name: z.string(),
  type: z.string(),
  /**
   * One key a method or feature; a `{version}` object, or true. As the newest worker life declared
   * them; before the first, as the machine did when it was paired.
   */
  capabilities: z.record(z.string(), z.unknown()),
  /** `online` means that it answers now, not that it once did; `unknown` that it could not be asked. */
  status: z.enum(["online", "offline", "unknown"]),
  pairedAtMs: count,
  lastSeenMs: count.nullable(),
});

export const nodeList = method({
  name: "node.list",
  summary: "All enrolled nodes, sorted by name.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({ nodes: z.array(nodeRow), summary }),
});

export const nodeDescribe = method({
  name: "node.describe",
  summary: "One node: what it is, what it can do, which worker life serves it.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ nodeId: nodeSelector }),
  result: nodeRow.extend({
    metadata: z.looseObject({
      /** The worker life that serves the node; null when none ever did. */
      generation: count.nullable(),
      lemonVersion: z.string().nullable(),
      /** Process ids the destination retains, of the limit; null while it does not answer. */
      receipts: z.object({ retained: count, limit: count }).nullable(),
      /** `ready`, or the classification that keeps the destination from admitting work. */
      receiptStore: z.string().nullable(),
      /** Cut off by an operator, until it is joined again. */
      revoked: z.boolean().optional(),
      /** The node inside the controller's own process. */
      local: z.boolean().optional(),
    }),
    summary,
  }),
});

export const nodeRename = method({
  name: "node.rename",
  summary: "Gives a node another unique name; its id stays.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ nodeId: nodeSelector, name: nodeName }),
  result: z.object({ nodeId: z.string(), name: z.string(), renamed: z.literal(true), summary }),
});

export const nodeRevoke = method({
  name: "node.revoke",
  summary:
    "Cuts a node off at once: its link, its session tokens. It may be joined again with --repair.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ nodeId: nodeSelector }),
  result: z.object({ nodeId: z.string(), revoked: z.literal(true) }),
});

export const nodeRemove = method({
  name: "node.remove",
  summary: "Revokes a node and forgets it; its name is free again, its id is not.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ nodeId: nodeSelector }),
  result: z.object({ nodeId: z.string(), removed: z.literal(true) }),
});

export const nodeHostInfo = method({
  name: "node.host.info",
  summary: "Measured facts about the node's machine.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ nodeId: nodeSelector }),
  result: z.object({
    hostname: z.string(),
    os: z.string(),
    osVersion: z.string(),
    arch: z.string(),
    cpuCount: count,
    memTotalBytes: count,
    memFreeBytes: count,
    diskTotalBytes: count,
    diskFreeBytes: count,
    uptimeSec: count,
    lemonVersion: z.string(),
    defaultCwd: z.string(),
    user: z.string(),
  }),
});
