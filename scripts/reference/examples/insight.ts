/** Examples of the methods of `protocol/methods/insight.ts`: logs and introspection. */
import type { INSIGHT_METHODS } from "../../../protocol/methods/insight.ts";
import { atMs, type ExamplesOf } from "./cast.ts";

export const INSIGHT_EXAMPLES: ExamplesOf<typeof INSIGHT_METHODS> = {
  "introspection.snapshot": {
    params: { includeAgents: true, includeSessions: false },
    result: {
      generatedAtMs: atMs,
      includes: { agents: true, sessions: false },
      filters: { agentId: null },
      agents: [],
      sessions: [],
      activeSessions: [],
      channels: [],
      transports: [],
      runs: { active: null, queued: null, completed_today: null },
      counts: { agents: null },
      errors: [{ section: "agents", code: "unavailable" }],
      summary: { errorCount: 1 },
    },
  },
  "logs.tail": {
    params: { limit: 1, level: "warn" },
    result: {
      logs: [{ timestampMs: atMs, level: "warn", message: "nats-server ended", ordered: false }],
      total: 3,
      filters: { limit: 1, level: "warn" },
      summary: { count: 1, levelCounts: { warn: 1 } },
    },
  },
};
