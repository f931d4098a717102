/** Declares the fleet: enrolled nodes, their names, what they can do (control-plane-wire.md 3.2, node-host-io.md). */
import { z } from "zod";
import { method, settledBy } from "../method.ts";

const count = z.int().nonnegative();
const timeMs = count.describe("Unix time in ms.");
const summary = z.looseObject({}).describe("A digest for people; its members may change.");

/** A node as the caller names it. */
export const nodeSelector = z
  .string()
  .min(1, "must not be empty")
  .max(128, "must be at most 128 characters")
  .describe("The node's durable id; where the contract allows, its unique live name.");

/** What people call a thing; unique or not. */
export const displayName = z
  .string()
  .trim()
  .normalize("NFC")
  .min(1, "must not be empty")
  .max(128, "must be at most 128 characters")
  // No pattern: readers of the AsyncAPI document would match it without Unicode, as another one.
  .refine((name) => !/\p{C}/u.test(name), "must not contain control characters");

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const nodeName = displayName
  .refine((name) => !UUID.test(name), "must not look like a node's id")
  .refine(
    (name) => !/^[.-]|[/\\]/.test(name),
    "must not contain / or \\, nor begin with a dot or a dash",
  )
  .describe(
    "Unique in the fleet; spaces around it and ways to compose its characters make no other name.",
  );

const nodeRow = z.object({
  nodeId: z.string().describe("Durable: never changes, never used again."),
  name: z.string(),
  type: z.string(),
  capabilities: z
    .record(z.string(), z.unknown())
    .describe(
      "One key a method or feature; a `{version}` object, or true. As the newest worker life declared them; before the first, as the machine did when it was paired.",
    ),
  status: z
    .enum(["online", "offline", "unknown"])
    .describe(
      "`online` means that it answers now, not that it once did; `unknown` that it could not be asked.",
    ),
  pairedAtMs: timeMs,
  lastSeenMs: timeMs.nullable(),
});

export const nodeList = method({
  name: "node.list",
  summary: "All enrolled nodes, sorted by name.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({ nodes: z.array(nodeRow), summary }),
});

/** Calls answered: done, refused with nothing happened, or with what may have happened unknown. */
const hostIoCounts = z.object({ done: count, refused: count, unknown: count });
export type HostIoCounts = Readonly<z.infer<typeof hostIoCounts>>;

const MOST_AUDITED_METHODS = 32;
/** What a worker life has answered, by method. */
export const hostIo = z
  .record(z.string().regex(/^node\.(?:fs|process|secrets)\.[a-z.]{1,32}$/), hostIoCounts)
  .refine((methods) => Object.keys(methods).length <= MOST_AUDITED_METHODS, "has too many methods");

export const nodeDescribe = method({
  name: "node.describe",
  summary: "One node: what it is, what it can do, which worker life serves it.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ nodeId: nodeSelector }),
  result: nodeRow.extend({
    metadata: z.looseObject({
      generation: count
        .nullable()
        .describe("The worker life that serves the node; null when none ever did."),
      lemonVersion: z.string().nullable(),
      receipts: z
        .object({ retained: count, limit: count })
        .nullable()
        .describe(
          "Process ids the destination retains, of the limit; null while it does not answer.",
        ),
      receiptStore: z
        .string()
        .nullable()
        .describe("`ready`, or the classification that keeps the destination from admitting work."),
      hostIo: hostIo
        .nullish()
        .describe(
          "Calls for its files, processes and secrets that the worker life has answered, by method; null while it does not answer.",
        ),
      revoked: z.boolean().optional().describe("Cut off by an operator, until it is joined again."),
      local: z.boolean().optional().describe("The node inside the controller's own process."),
    }),
    summary,
  }),
});

export const nodeRename = method({
  name: "node.rename",
  summary: "Gives a node another unique name; its id stays.",
  scopes: ["admin"],
  effect: "mutation",
  settledBy: settledBy(nodeDescribe, "nodeId"),
  params: z.object({ nodeId: nodeSelector, name: nodeName }),
  result: z.object({ nodeId: z.string(), name: z.string(), renamed: z.literal(true), summary }),
});

const nodeRevoke = method({
  name: "node.revoke",
  summary:
    "Cuts a node off at once: its link, its session tokens. It may be joined again with --repair.",
  scopes: ["admin"],
  effect: "mutation",
  settledBy: settledBy(nodeDescribe, "nodeId"),
  params: z.object({ nodeId: nodeSelector }),
  result: z.object({ nodeId: z.string(), revoked: z.literal(true) }),
});

const nodeRemove = method({
  name: "node.remove",
  summary: "Revokes a node and forgets it; its name is free again, its id is not.",
  scopes: ["admin"],
  effect: "mutation",
  settledBy: settledBy(nodeList),
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
    arch: z.string().describe("Triple, such as `x86_64-unknown-linux-gnu`."),
    cpuCount: count,
    memTotalBytes: count,
    memFreeBytes: count,
    diskTotalBytes: count.describe("Of the file system that holds `defaultCwd`."),
    diskFreeBytes: count.describe("As `diskTotalBytes`."),
    uptimeSec: count,
    lemonVersion: z.string(),
    defaultCwd: z.string().describe("Where relative paths of requests start."),
    user: z.string().describe("The account that runs the node and what is started on it."),
  }),
});

export const NODE_METHODS = [
  nodeList,
  nodeDescribe,
  nodeRename,
  nodeRevoke,
  nodeRemove,
  nodeHostInfo,
] as const;
