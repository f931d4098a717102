/** Examples of the methods of `protocol/methods/system.ts`: the control plane's state. */
import type { SYSTEM_METHODS } from "../../../protocol/methods/system.ts";
import { LEMON_VERSION } from "../../../protocol/version.ts";
import { atMs, type ExamplesOf, nodeId, nodeName } from "./cast.ts";

export const SYSTEM_EXAMPLES: ExamplesOf<typeof SYSTEM_METHODS> = {
  health: {
    params: {},
    result: {
      ok: true,
      uptime_ms: 61_000,
      memory_mb: 118.2,
      schedulers: 2,
      summary: { action: "health" },
    },
  },
  status: {
    params: {},
    result: {
      server: {
        version: LEMON_VERSION,
        uptime_ms: 61_000,
        memory_mb: 118.2,
        otp_release: null,
        schedulers: 2,
        build: { runtimeMode: "release-runtime", channel: null, commit: null },
      },
      connections: { active: 2, operators: 1, nodes: 1, devices: 0 },
      runs: { active: null, queued: null, completed_today: null, failed_today: null },
      channels: { configured: [], connected: [], details: [] },
      skills: { installed: 0, enabled: 0 },
      providers: [],
      lifecycle: {
        restart: false,
        stop: false,
        reason: "This build is restarted and stopped by whoever started it, not over /ws",
      },
      subsystems: { providers: { status: "unavailable" } },
      summary: { action: "status", cleanup: { includesSecretValues: false } },
    },
  },
  "supervision.tree": {
    params: {},
    result: {
      generatedAtMs: atMs,
      trees: [
        {
          source: "controller",
          name: "controller",
          tree: {
            path: "/controller",
            kind: "supervisor",
            state: "running",
            restart: "permanent",
            mailboxDepth: 0,
            oldestMessageAgeMs: null,
            startedAtMs: atMs - 61_000,
            restartsInWindow: 0,
            restartsLeft: 3,
            lastCrash: null,
            children: [],
          },
          error: null,
        },
        { source: nodeId, name: nodeName, tree: null, error: "node_offline" },
      ],
    },
  },
};
