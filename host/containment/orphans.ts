/**
 * Owns the reaping of orphans that were handed to this process: as subreaper, or as the first process of
 * a container. Each is reaped by its exact pid, and only when nobody else here wants it: libuv reaps its
 * own children in the turn of the event loop that follows their end, so what is a zombie in two looks, a
 * good while apart, is an orphan.
 */
import { setImmediate } from "node:timers/promises";
import type { ChildExits } from "../child-exits.ts";
import { reap } from "../native/wait.ts";
import { childrenOf, hasEnded, readProcessRow } from "../process-table.ts";

/** Between two looks: how long a zombie is left to whoever may want it. */
const LEAVE_MS = 1_000;
/** After so many processes the others have their turn: there may be thousands. */
const AT_ONCE = 64;

/** Begins; returns the way to stop. */
export function reapOrphans(exits: ChildExits, leaveMs = LEAVE_MS): () => void {
  let timer: NodeJS.Timeout | undefined;
  let news = false;
  let stopped = false;
  /** What was a zombie in the last look: its pid, and its start in ticks. */
  let left: ReadonlyMap<number, number> = new Map();

  function lookSoon(): void {
    news = true;
    timer ??= setTimeout(() => void look(), leaveMs).unref();
  }

  async function look(): Promise<void> {
    news = false;
    try {
      left = await reapAgain(exits, left);
    } catch {
      // No descriptor is left to read them through; there will be.
      news = true;
    }
    timer = undefined;
    if (!stopped && (news || left.size > 0)) lookSoon();
  }

  const stop = exits.onNews(lookSoon);
  return () => {
    stopped = true;
    stop();
    clearTimeout(timer);
  };
}

/** Reaps those that were zombies before, and returns those that are now. */
async function reapAgain(
  exits: ChildExits,
  before: ReadonlyMap<number, number>,
): Promise<ReadonlyMap<number, number>> {
  const zombies = new Map<number, number>();
  let seen = 0;
  for (const pid of childrenOf(process.pid)) {
    // Also the first time: after a stall, libuv must have had its turn before.
    if (seen % AT_ONCE === 0) await setImmediate();
    seen += 1;
    const row = exits.children.has(pid) ? null : readProcessRow(pid);
    if (row === null || !hasEnded(row) || row.parent !== process.pid) continue;
    if (before.get(pid) === row.startTicks) reap(pid);
    else zombies.set(pid, row.startTicks);
  }
  return zombies;
}
