/** Declares what a connection can ask the control plane about itself (control-plane-wire.md 3.1, system-methods.md). */
import { z } from "zod";
import { method } from "../method.ts";

const count = z.int().nonnegative();
const timeMs = count.describe("Unix time in ms.");
const summary = z
  .looseObject({ action: z.string() })
  .describe("A digest for people; its members may change.");
const memory_mb = z.number().describe("Resident memory of the control plane's process, in MiB.");
const schedulers = count.describe("Processors that it may use.");

const health = method({
  name: "health",
  summary: "Says that the control plane answers.",
  scopes: [],
  effect: "read",
  params: z.object({}),
  result: z.object({
    ok: z.literal(true),
    uptime_ms: count,
    memory_mb,
    schedulers,
    summary,
  }),
});

const availability = z.object({ status: z.enum(["available", "unavailable"]) });
const runCount = count.nullable().describe("Null is unknown, never zero.");

const provider = z.object({
  id: z.string(),
  configured: z.boolean(),
  credential: z.enum(["present", "missing", "not_required"]),
  default: z.boolean(),
  lastError: z.object({ message: z.string(), atMs: timeMs }).nullable(),
  circuit: z.object({
    state: z.enum(["closed", "open", "half_open", "not_started", "unknown"]),
    failureCount: count.nullable(),
    timeUntilRecoveryMs: count.nullable(),
  }),
});

const status = method({
  name: "status",
  summary: "Counts of connections and runs; null is unknown, never zero.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    server: z.object({
      version: z.string(),
      uptime_ms: count,
      memory_mb,
      otp_release: z.null().describe("Of old control planes; always null here."),
      schedulers,
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
    providers: z
      .array(provider)
      .describe("Of models; empty also when `subsystems` says that they are unavailable."),
    lifecycle: z
      .object({
        restart: z.boolean().describe("Whether `system.restart` would be accepted."),
        stop: z.boolean().describe("Whether `system.stop` would be."),
        reason: z.string().nullable().describe("Why one of them would not be."),
      })
      .describe("What can be done to the control plane's process from here."),
    subsystems: z.record(
      z.string(),
      z.union([availability, availability.extend({ fields: z.record(z.string(), z.string()) })]),
    ),
    summary: summary.extend({
      cleanup: z.record(z.string(), z.boolean()).describe("What kinds of data the answer holds."),
    }),
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

const treeRow: z.ZodType<TreeRow> = z
  .object({
    path: z.string(),
    kind: z.string(),
    state: z.enum(["starting", "running", "backing_off", "stopping", "ended"]),
    restart: z
      .enum(["permanent", "transient", "temporary"])
      .describe("Whether it is started again after a crash; `temporary` never is."),
    mailboxDepth: count.describe("Messages that wait."),
    oldestMessageAgeMs: z.number().nullable().describe("Null when none waits."),
    startedAtMs: timeMs.nullable(),
    restartsInWindow: count,
    restartsLeft: count
      .nullable()
      .describe("Before its supervisor gives up; null where nothing is counted."),
    lastCrash: z.string().nullable().describe("The classification of the latest crash."),
    get children() {
      return z.array(treeRow);
    },
  })
  .meta({ id: "TreeRow", description: "One actor of a live supervision tree." });

const processTree = z.object({
  source: z.string().describe("`controller`, or the node's durable id."),
  name: z.string(),
  tree: treeRow
    .nullable()
    .describe("Null when the process did not answer; `error` then carries the classification."),
  error: z.string().nullable(),
});

export const supervisionTree = method({
  name: "supervision.tree",
  summary: "The live supervision trees: this control plane's and those of the nodes.",
  scopes: ["read"],
  effect: "read",
  params: z.object({
    nodeId: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe("One node's tree alone; absent: the control plane's and every online node's."),
  }),
  result: z.object({ generatedAtMs: timeMs, trees: z.array(processTree) }),
});

export const SYSTEM_METHODS = [health, status, supervisionTree] as const;
