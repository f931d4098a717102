/**
 * Owns what can be seen of the control plane from inside: its own log, and a snapshot of what it runs.
 *
 * What does not exist in this build is an entry in `errors`, never an empty list that means "none".
 */
import type { Clock } from "../../host/clock.ts";
import type { LogLevel } from "../../protocol/methods/config.ts";
import { LOGS_TAIL } from "../../protocol/methods/insight.ts";
import { redactedMap } from "../../protocol/redaction.ts";
import type { MethodHandlers } from "../session/handler.ts";

export interface InsightMethodsOptions {
  readonly clock: Clock;
  /** The latest lines of the log as pino wrote them, oldest first. */
  readonly recentLines: () => readonly string[];
}

/** pino's numbers of its levels. */
type Level = Exclude<LogLevel, "silent">;
const LEVEL_NUMBERS: Readonly<Record<Level, number>> = {
  trace: 10,
  debug: 20,
  info: 30,
  warn: 40,
  error: 50,
  fatal: 60,
};
const LEVELS = new Map<string, Level>([
  ["trace", "trace"],
  ["debug", "debug"],
  ["info", "info"],
  ["warn", "warn"],
  ["warning", "warn"],
  ["error", "error"],
  ["fatal", "fatal"],
]);
const LEVEL_NAMES = new Map(Object.entries(LEVEL_NUMBERS).map(([name, number]) => [number, name]));

const SECTIONS = ["agents", "sessions", "activeSessions", "channels", "transports"] as const;

export function insightMethods(
  options: InsightMethodsOptions,
): MethodHandlers<"logs.tail" | "introspection.snapshot"> {
  const { clock, recentLines } = options;
  return {
    "logs.tail"({ limit: asked, lines, level: named, filter }) {
      const limit = Math.min(Math.max(asked ?? lines ?? LOGS_TAIL.limit, 1), LOGS_TAIL.most);
      const level = levelNamed(named ?? filter);
      const least = level === null ? 0 : LEVEL_NUMBERS[level];
      const matching = recentLines().flatMap((line) => rowOf(line, least) ?? []);
      const logs = matching.slice(-limit);
      const levelCounts: Record<string, number> = {};
      for (const { level } of logs) levelCounts[level] = (levelCounts[level] ?? 0) + 1;
      return {
        logs,
        total: matching.length,
        filters: { limit, level },
        summary: { count: logs.length, limit, level, levelCounts },
      };
    },

    "introspection.snapshot"(params) {
      const includes = {
        agents: params.includeAgents ?? true,
        sessions: params.includeSessions ?? true,
        activeSessions: params.includeActiveSessions ?? true,
        channels: params.includeChannels ?? true,
        transports: params.includeTransports ?? true,
      };
      const errors = SECTIONS.filter((section) => includes[section]).map((section) => ({
        section,
        code: "unavailable",
      }));
      const { agentId = null } = params;
      return {
        generatedAtMs: clock.nowMs(),
        includes,
        filters: { agentId },
        agents: [],
        sessions: [],
        activeSessions: [],
        channels: [],
        transports: [],
        runs: { active: null, queued: null, completed_today: null },
        counts: {
          agents: null,
          sessions: null,
          activeSessions: null,
          channels: null,
          transports: null,
          enabledTransports: null,
        },
        errors,
        summary: { errorCount: errors.length },
      };
    },
  };
}

/** What is no level falls back to the default, all of them (control-plane-wire.md 3); the answer says which it was. */
function levelNamed(name: string | undefined): Level | null {
  return LEVELS.get(name?.toLowerCase() ?? "") ?? null;
}

interface LogRow extends Record<string, unknown> {
  readonly timestampMs: number;
  readonly level: string;
  readonly message: string;
}

/** A line as clients read it; null for one below `least`, or that is none of the log's. */
function rowOf(line: string, least: number): LogRow | null {
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof record !== "object" || record === null) return null;
  const { time, level, msg, ...fields }: { time?: unknown; level?: unknown; msg?: unknown } =
    record;
  if (typeof time !== "number" || typeof level !== "number" || level < least) return null;
  return {
    ...redactedMap(fields),
    timestampMs: time,
    level: LEVEL_NAMES.get(level) ?? String(level),
    message: typeof msg === "string" ? msg : "",
  };
}
