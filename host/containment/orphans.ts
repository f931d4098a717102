/**
 * Owns the reaping of orphans that were handed to this process: as subreaper, or as the first process of
 * a container. Each is reaped by its exact pid, and only when nobody else here wants it: libuv reaps its
 * own children in the turn of the event loop that follows their end, so what is still a zombie a good
 * while later is an orphan.
 */
import type { ChildExits } from "../child-exits.ts";
import { reap } from "../native/wait.ts";
import { childrenOf, hasEnded, type ProcessRow, readProcessRow } from "../process-table.ts";

/** How long a zombie is left to whoever may want it. */
const LEAVE_MS = 1_000;

/** Begins; returns the way to stop. */
export function reapOrphans(exits: ChildExits, leaveMs = LEAVE_MS): () => void {
  let timer: NodeJS.Timeout | undefined;
  let again = false;

  function look(): void {
    if (timer !== undefined) {
      again = true;
      return;
    }
    const zombies = unwantedZombies(exits);
    if (zombies.length === 0) return;
    timer = setTimeout(() => {
      // Once more through the poll phase: after a stall, libuv must have had its turn first.
      setImmediate(() => {
        zombies.forEach(reapIfStill);
        timer = undefined;
        if (again) {
          again = false;
          look();
        }
      });
    }, leaveMs);
    timer.unref();
  }

  const stop = exits.onNews(look);
  return () => {
    stop();
    clearTimeout(timer);
  };
}

function unwantedZombies(exits: ChildExits): ProcessRow[] {
  return childrenOf(process.pid).flatMap((pid) => {
    const row = exits.children.has(pid) ? null : readProcessRow(pid);
    return row !== null && hasEnded(row) ? [row] : [];
  });
}

function reapIfStill(zombie: ProcessRow): void {
  const row = readProcessRow(zombie.pid);
  if (row === null || !hasEnded(row) || row.startTicks !== zombie.startTicks) return;
  if (row.parent === process.pid) reap(zombie.pid);
}
