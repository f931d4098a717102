/**
 * Declares raw work on nodes that are connected to `/ws` themselves (control-plane-wire.md 3.2 and 7.3): what a
 * client asks of such a node, what the node answers, what it tells of itself.
 */
import { z } from "zod";
import { method } from "../method.ts";
import { nodeSelector } from "./nodes.ts";

const summary = z.looseObject({});
/** Made by the controller (a UUID). */
const invokeId = z.string().min(1, "must not be empty").max(128, "must be at most 128 characters");
const json = z.unknown();

/** In ms; the longest is that of an agent's run (control-plane-wire.md 5.4). */
const INVOKE_TIMEOUT_MS = { min: 1, max: 1_800_000 } as const;
const TIMEOUT_BOUND = `must be ${INVOKE_TIMEOUT_MS.min} to ${INVOKE_TIMEOUT_MS.max}`;

const nodeInvoke = method({
  name: "node.invoke",
  summary:
    "Has a connected node do something; the outcome comes as the event node.invoke.completed.",
  scopes: ["write"],
  effect: "mutation",
  unsettled:
    "the node may be at it, and its outcome goes to the connection that called; ask the node in a way of its own before it is done again",
  params: z.object({
    nodeId: nodeSelector,
    method: z
      .string()
      .regex(/^[\x21-\x7e]{1,128}$/, "must be 1 to 128 printable characters without spaces")
      .describe("The node's own; none of the control plane's."),
    args: z
      .record(z.string(), json)
      .optional()
      .describe("At most 1 MiB of JSON; `{}` when absent."),
    timeoutMs: z
      .int()
      .min(INVOKE_TIMEOUT_MS.min, TIMEOUT_BOUND)
      .max(INVOKE_TIMEOUT_MS.max, TIMEOUT_BOUND)
      .optional()
      .describe("30,000 when absent."),
  }),
  result: z.object({
    invokeId: z.string(),
    nodeId: z.string(),
    method: z.string(),
    status: z.literal("pending"),
    summary,
  }),
});

const nodeInvokeResult = method({
  name: "node.invoke.result",
  summary: "A node's answer to node.invoke.request, over the connection that was asked.",
  scopes: ["invoke"],
  role: "node",
  effect: "mutation",
  unsettled: "once the connection is lost nobody waits for the result any more; do nothing",
  params: z.object({
    invokeId,
    result: json.optional().describe("At most 1 MiB of JSON."),
    error: json.optional().describe("The same; with one, the invocation has failed."),
  }),
  result: z.object({ invokeId: z.string(), received: z.literal(true), summary }),
});

/** What a node may tell of itself (control-plane-wire.md 3.2). */
const NODE_EVENT_TYPES = [
  "status",
  "heartbeat",
  "error",
  "connected",
  "disconnected",
  "invoke_completed",
  "invoke_failed",
  "capability_changed",
  "metrics",
  "log",
  "custom",
] as const;
const NODE_EVENT = new RegExp(`^(?:${NODE_EVENT_TYPES.join("|")}|custom_[A-Za-z0-9_.-]{1,64})$`);

const nodeEvent = method({
  name: "node.event",
  summary: "Tells all connections that hear `nodes` something about the node.",
  scopes: ["event"],
  role: "node",
  effect: "mutation",
  unsettled: "it may have been told; told again, it is heard twice",
  params: z.object({
    eventType: z
      .string()
      .regex(NODE_EVENT, `must be ${NODE_EVENT_TYPES.join(", ")} or custom_<name>`),
    payload: z.record(z.string(), json).optional().describe("At most 64 KiB of JSON."),
  }),
  result: z.object({ eventType: z.string(), broadcast: z.literal(true), summary }),
});

export const INVOKE_METHODS = [nodeInvoke, nodeInvokeResult, nodeEvent] as const;
