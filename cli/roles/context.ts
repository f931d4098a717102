/** Owns what every role is given: its log, its clock, what ends it. */
import type { Logger } from "pino";
import { type Clock, systemClock } from "../../host/clock.ts";
import { countOutsideBytesWithHeap } from "./collector.ts";
import { openRoleLog, type RoleLog } from "./log.ts";

export interface RoleContext {
  /** One line for the person who started the role. */
  readonly say: (line: string) => void;
  readonly log: Logger;
  /** The level of that log, and its latest lines. */
  readonly logbook: RoleLog;
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
  countOutsideBytesWithHeap();
  const logbook = openRoleLog(environment, process.stderr);
  return {
    say: (line) => announcement.note(line),
    log: logbook.log,
    logbook,
    clock: systemClock,
    environment,
    asked,
  };
}
