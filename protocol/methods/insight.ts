/** Declares what can be seen of the control plane from inside: its log, and a snapshot (control-plane-wire.md 3.9). */
import { z } from "zod";
import { method } from "../method.ts";

const count = z.int().nonnegative();
const summary = z.looseObject({});

export const LOGS_TAIL = { limit: 100, most: 1_000 } as const;

const logsTail = method({
  name: "logs.tail",
  summary: "The latest lines of the control plane's own log, oldest first, of a level and above.",
  scopes: ["read"],
  effect: "read",
  params: z.object({
    limit: z.int().optional(),
    lines: z.int().optional(),
    level: z.string().optional(),
    filter: z.string().optional(),
  }),
  result: z.object({
    logs: z.array(z.looseObject({ timestampMs: count, level: z.string(), message: z.string() })),
    total: count,
    filters: z.object({ limit: count, level: z.string().nullable() }),
    summary,
  }),
});

const section = z.array(z.unknown());

const introspectionSnapshot = method({
  name: "introspection.snapshot",
  summary:
    "Agents, sessions, channels and transports at once; a part that is not there says so in `errors`.",
  scopes: ["read"],
  effect: "read",
  params: z.object({
    includeAgents: z.boolean().optional(),
    includeSessions: z.boolean().optional(),
    includeActiveSessions: z.boolean().optional(),
    includeChannels: z.boolean().optional(),
    includeTransports: z.boolean().optional(),
    agentId: z.string().optional(),
    limit: z.int().optional(),
    sessionLimit: z.int().optional(),
    activeLimit: z.int().optional(),
  }),
  result: z.object({
    generatedAtMs: count,
    includes: z.record(z.string(), z.boolean()),
    filters: z.looseObject({}),
    agents: section,
    sessions: section,
    activeSessions: section,
    channels: section,
    transports: section,
    runs: z.object({
      active: count.nullable(),
      queued: count.nullable(),
      completed_today: count.nullable(),
    }),
    counts: z.record(z.string(), count.nullable()),
    errors: z.array(z.object({ section: z.string(), code: z.string() })),
    summary,
  }),
});

export const INSIGHT_METHODS = [logsTail, introspectionSnapshot] as const;
