/**
 * Owns what the control plane says of itself: `health`, `status`, `supervision.tree`
 * (control-plane-wire.md 3.1, system-methods.md "status", rulings).
 *
 * 1. `health` answers from memory alone, whatever else is slow or down.
 * 2. What does not exist in this build, or is not known, is `unavailable` or null: never a zero that means
 *    "unknown". The channels' lists and the skills' counts stay empty beside it, as existing clients read them.
 */
import { availableParallelism } from "node:os";
import type { Clock } from "../../host/clock.ts";
import type { TreeRow } from "../../protocol/methods/system.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import type { TreeNode } from "../../supervision/actor.ts";
import type { MethodHandlers } from "../session/handler.ts";
import type { ConnectionCounts } from "../session/roster.ts";

/** One process's part of `supervision.tree`. */
export type ProcessTree = ResultOf<"supervision.tree">["trees"][number];

interface BuildIdentity {
  readonly version: string;
  readonly runtimeMode: "source-dev" | "release-runtime";
  readonly channel: string | null;
  readonly commit: string | null;
}

export interface SystemMethodsOptions {
  readonly build: BuildIdentity;
  readonly clock: Clock;
  readonly connections: () => ConnectionCounts;
  /** The tree of this process. */
  readonly tree: () => TreeNode;
  /** The trees of the nodes: of one (its durable id or live name), or of all that are online. */
  readonly nodeTrees: (nodeId: string | undefined) => Promise<readonly ProcessTree[]>;
  /** Resident memory of this process, in bytes. Default: as the system reports it. */
  readonly residentBytes?: () => number;
}

/** Neither `system.restart` nor `system.stop` is served; a service manager does both. */
const LIFECYCLE = {
  restart: false,
  stop: false,
  reason: "This build is restarted and stopped by whoever started it, not over /ws",
} as const;

/** An answer of counts and versions. */
const CLEANUP = {
  includesCredentials: false,
  includesSecretValues: false,
  includesPaths: false,
  includesContent: false,
} as const;

/** Reading the memory opens a file of /proc, so it is read at most this often. */
const MEMORY_SAMPLE_MS = 1_000;

export function systemMethods(
  options: SystemMethodsOptions,
): Pick<MethodHandlers, "health" | "status" | "supervision.tree"> {
  const { build, clock, connections, tree, nodeTrees } = options;
  const schedulers = availableParallelism();
  const startedAtMs = clock.monotonicMs();
  const memoryMb = sampledMemory(clock, options.residentBytes ?? process.memoryUsage.rss);
  const uptimeMs = (): number => Math.floor(clock.monotonicMs() - startedAtMs);

  return {
    health() {
      const uptime_ms = uptimeMs();
      const memory_mb = memoryMb();
      return {
        ok: true,
        uptime_ms,
        memory_mb,
        schedulers,
        summary: {
          action: "health",
          ok: true,
          uptimeMs: uptime_ms,
          memoryMb: memory_mb,
          schedulerCount: schedulers,
        },
      };
    },

    status() {
      const uptime_ms = uptimeMs();
      const memory_mb = memoryMb();
      const { version, runtimeMode, channel, commit } = build;
      const counts = connections();
      return {
        server: {
          version,
          uptime_ms,
          memory_mb,
          otp_release: null,
          schedulers,
          build: { runtimeMode, channel, commit },
        },
        connections: { ...counts },
        runs: { active: null, queued: null, completed_today: null, failed_today: null },
        channels: { configured: [], connected: [], details: [] },
        skills: { installed: 0, enabled: 0 },
        providers: [],
        lifecycle: { ...LIFECYCLE },
        subsystems: {
          presence: { status: "available" },
          router: {
            status: "unavailable",
            fields: {
              active: "unavailable",
              queued: "unavailable",
              completed_today: "unavailable",
              failed_today: "unavailable",
            },
          },
          channels: { status: "unavailable" },
          skills: { status: "unavailable" },
          providers: { status: "unavailable" },
        },
        summary: {
          action: "status",
          version,
          uptimeMs: uptime_ms,
          memoryMb: memory_mb,
          schedulerCount: schedulers,
          connectionCount: counts.active,
          operatorCount: counts.operators,
          nodeCount: counts.nodes,
          deviceCount: counts.devices,
          activeRunCount: null,
          queuedRunCount: null,
          completedTodayCount: null,
          failedTodayCount: null,
          configuredChannelCount: 0,
          connectedChannelCount: 0,
          channelErrorCount: 0,
          installedSkillCount: 0,
          enabledSkillCount: 0,
          providerCount: null,
          providersMissingCredentials: null,
          cleanup: { ...CLEANUP },
        },
      };
    },

    async "supervision.tree"({ nodeId }) {
      const generatedAtMs = clock.nowMs();
      const ours: ProcessTree = {
        source: "controller",
        name: "controller",
        tree: rowOf(tree()),
        error: null,
      };
      const theirs = await nodeTrees(nodeId);
      return { generatedAtMs, trees: nodeId === undefined ? [ours, ...theirs] : [...theirs] };
    },
  };
}

/** Mebibytes with two decimals; the last ones known when the system can not say (no descriptor is left). */
function sampledMemory(clock: Clock, residentBytes: () => number): () => number {
  let sampledAtMs = Number.NEGATIVE_INFINITY;
  let sampleMb = 0;
  const memoryMb = (): number => {
    const nowMs = clock.monotonicMs();
    if (nowMs - sampledAtMs < MEMORY_SAMPLE_MS) return sampleMb;
    sampledAtMs = nowMs;
    try {
      sampleMb = Math.round((residentBytes() / 1_048_576) * 100) / 100;
    } catch {
      // Health is not what memory is: the older figure stays.
    }
    return sampleMb;
  };
  memoryMb();
  return memoryMb;
}

/** The snapshot as the wire has it. */
export function rowOf(node: TreeNode): TreeRow {
  return { ...node, children: node.children.map(rowOf) };
}
