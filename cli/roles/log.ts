/**
 * Owns the log of a role: JSON lines on stderr, content-free; its level, which can be changed while it
 * runs; and its latest lines, kept in memory for `logs.tail`.
 */
import { destination, type Logger, pino } from "pino";
import { LemonError } from "../../protocol/errors.ts";
import { LOG_LEVELS, type LogLevel } from "../../protocol/methods/config.ts";
import { LOGS_TAIL } from "../../protocol/methods/insight.ts";

export interface RoleLog {
  readonly log: Logger;
  /** Whether the environment chose the level. */
  readonly levelIsChosen: boolean;
  readonly level: string;
  setLevel(level: LogLevel): void;
  /** The latest lines as they were written, oldest first. */
  recent(): readonly string[];
}

/** A line is content-free and short; whatever is longer is not kept. */
const LINE_MAX_LENGTH = 4_096;

/** The lines that can be asked for. */
export class RecentLines {
  readonly #lines: string[] = [];

  push(line: string): void {
    if (line.length > LINE_MAX_LENGTH) return;
    this.#lines.push(line);
    // In steps, so that a busy log does not move a thousand lines for each one it adds.
    if (this.#lines.length >= 2 * LOGS_TAIL.most) this.#lines.splice(0, LOGS_TAIL.most);
  }

  /** Oldest first. */
  latest(): readonly string[] {
    return this.#lines.slice(-LOGS_TAIL.most);
  }
}

/**
 * `LEMON_LOG_LEVEL` chooses the level; by default a terminal sees warnings, a collector everything from
 * `info` on.
 */
export function openRoleLog(
  environment: Readonly<Record<string, string | undefined>>,
  stderr: { readonly isTTY?: boolean },
): RoleLog {
  const asked = environment["LEMON_LOG_LEVEL"]?.trim() ?? "";
  const wanted = asked !== "" ? asked : stderr.isTTY === true ? "warn" : "info";
  const level = LOG_LEVELS.find((known) => known === wanted);
  if (level === undefined) {
    throw new LemonError("invalid_request", {
      message: `LEMON_LOG_LEVEL must be one of ${LOG_LEVELS.join(", ")}`,
    });
  }
  const recent = new RecentLines();
  // Written at once: what a process says before it is killed is what its operator needs most.
  const file = destination({ fd: 2, sync: true });
  const write = (line: string): void => {
    file.write(line);
    recent.push(line);
  };
  // An actor's own logger takes the level of its parent once, when it is made.
  const children = new Set<WeakRef<Logger>>();
  const forget = new FinalizationRegistry<WeakRef<Logger>>((child) => children.delete(child));
  const log: Logger = pino(
    {
      level,
      base: { pid: process.pid },
      onChild(child) {
        const held = new WeakRef<Logger>(child);
        children.add(held);
        forget.register(child, held);
      },
    },
    { write },
  );
  return {
    log,
    levelIsChosen: asked !== "",
    get level() {
      return log.level;
    },
    setLevel(next) {
      log.level = next;
      for (const child of children) {
        const logger = child.deref();
        if (logger !== undefined) logger.level = next;
      }
    },
    recent: () => recent.latest(),
  };
}
