/** Declares what a connection can ask the control plane about itself (control-plane-wire.md 3.1, system-methods.md). */
import { z } from "zod";
import { method } from "../method.ts";

const count = z.int().nonnegative();
const summary = z.looseObject({ action: z.string() });

export const health = method({
  name: "health",
  summary: "Says that the control plane answers.",
  scopes: [],
  effect: "read",
  params: z.object({}),
  result: z.object({
    ok: z.literal(true),
    uptime_ms: count,
    memory_mb: z.number(),
    schedulers: count,
    summary,
  }),
});

const availability = z.object({ status: z.enum(["available", "unavailable"]) });
const runCount = count.nullable();

export const status = method({
  name: "status",
  summary: "Counts of connections and runs; null is unknown, never zero.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    server: z.object({
      version: z.string(),
      uptime_ms: count,
      memory_mb: z.number(),
      otp_release: z.null(),
      schedulers: count,
      build: z.object({
        runtimeMode: z.enum(["source-dev", "release-runtime"]),
        channel: z.string().nullable(),
        commit: z.string().nullable(),
      }),
    }),
    connections: z.object({ active: count, operators: count, nodes: count, devices: count }),
    runs: z.object({
      active: runCount,
      queued: runCount,
      completed_today: runCount,
      failed_today: runCount,
    }),
    channels: z.object({
      configured: z.array(z.string()),
      connected: z.array(z.string()),
      details: z.array(z.unknown()),
    }),
    skills: z.object({ installed: count, enabled: count }),
    subsystems: z.record(
      z.string(),
      z.union([availability, availability.extend({ fields: z.record(z.string(), z.string()) })]),
    ),
    summary,
  }),
});

/** One actor of the live tree; the shape of `supervision`'s snapshot. Times in Unix ms. */
export interface TreeRow {
  path: string;
  kind: string;
  state: "starting" | "running" | "backing_off" | "stopping" | "ended";
  restart: "permanent" | "transient" | "temporary";
  mailboxDepth: number;
  oldestMessageAgeMs: number | null;
  startedAtMs: number | null;
  restartsInWindow: number;
  restartsLeft: number | null;
  lastCrash: string | null;
  children: TreeRow[];
}

const treeRow: z.ZodType<TreeRow> = z.object({
  path: z.string(),
  kind: z.string(),
  state: z.enum(["starting", "running", "backing_off", "stopping", "ended"]),
  restart: z.enum(["permanent", "transient", "temporary"]),
  mailboxDepth: count,
  oldestMessageAgeMs: z.number().nullable(),
  startedAtMs: count.nullable(),
  restartsInWindow: count,
  restartsLeft: count.nullable(),
  lastCrash: z.string().nullable(),
  get children() {
    return z.array(treeRow);
  },
});

const processTree = z.object({
  /** `controller`, or the node's durable id. */
  source: z.string(),
  name: z.string(),
  /** Null when the process did not answer; `error` then carries the classification. */
  tree: treeRow.nullable(),
  error: z.string().nullable(),
});

export const supervisionTree = method({
  name: "supervision.tree",
  summary: "The live supervision trees: this control plane's and those of the nodes.",
  scopes: ["read"],
  effect: "read",
  params: z.object({
    /** One node's tree alone; absent: the control plane and every online node. */
    nodeId: z.string().min(1).max(128).optional(),
  }),
  result: z.object({ generatedAtMs: count, trees: z.array(processTree) }),
});
