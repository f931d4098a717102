/** Owns what every role is given: its log, its clock, what ends it. */
import { type Logger, pino } from "pino";
import { type Clock, systemClock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";

export interface RoleContext {
  /** One line for the person who started the role. */
  readonly say: (line: string) => void;
  readonly log: Logger;
  readonly clock: Clock;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Aborted when the role is asked to end, also before it serves. */
  readonly asked: AbortSignal;
}

export function roleContext(
  environment: Readonly<Record<string, string | undefined>>,
  announcement: { note(text: string): void },
  asked: AbortSignal,
): RoleContext {
  return {
    say: (line) => announcement.note(line),
    log: roleLog(environment, process.stderr),
    clock: systemClock,
    environment,
    asked,
  };
}

const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

/**
 * The log of a role: JSON lines on stderr, content-free. `LEMON_LOG_LEVEL` chooses; by default a
 * terminal sees warnings, a collector everything from `info` on.
 */
function roleLog(
  environment: Readonly<Record<string, string | undefined>>,
  stderr: { readonly isTTY?: boolean },
): Logger {
  const asked = environment["LEMON_LOG_LEVEL"]?.trim();
  const level =
    asked === undefined || asked === "" ? (stderr.isTTY === true ? "warn" : "info") : asked;
  if (!LEVELS.some((known) => known === level)) {
    throw new LemonError("invalid_request", {
      message: `LEMON_LOG_LEVEL must be one of ${LEVELS.join(", ")}`,
    });
  }
  // Written at once: what a process says before it is killed is what its operator needs most.
  return pino({ level, base: { pid: process.pid } }, pino.destination({ fd: 2, sync: true }));
}
