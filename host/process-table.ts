/**
 * Owns the reading of Linux's `/proc/<pid>/stat` (proc_pid_stat(5)): who a process is and whose.
 * A row is a moment's view; only together with a start time does a pid name a process.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { errnoOf } from "./system-error.ts";

export interface ProcessRow {
  readonly pid: number;
  /** One letter: `R`, `S`, `Z` (ended, not reaped), `X` (dead), … */
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** Clock ticks since boot; with the pid it names a process for the life of the machine. */
  readonly startTicks: number;
}

/** Reads the line of `/proc/<pid>/stat`; null when it is not one. The name in it may hold anything, `)` too. */
export function parseProcessRow(line: string): ProcessRow | null {
  const nameEnd = line.lastIndexOf(")");
  const pid = Number.parseInt(line, 10);
  if (nameEnd < 0) return null;
  const [state = "", ...rest] = line.slice(nameEnd + 2).split(" ");
  const [parent, group, session] = rest.map(Number);
  const startTicks = Number(rest[18]);
  if (!/^[A-Za-z]$/.test(state) || !isCount(pid) || !isCount(startTicks)) return null;
  if (!isCount(parent) || !isCount(group) || !isCount(session)) return null;
  return { pid, state, parent, group, session, startTicks };
}

function isCount(value: number | undefined): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** The row of a process, zombies included; null when there is none. */
export function readProcessRow(pid: number): ProcessRow | null {
  return unlessGone(() => parseProcessRow(readFileSync(`/proc/${pid}/stat`, "latin1")), null);
}

/** Ended, whether or not its parent has reaped it. */
export function hasEnded(row: ProcessRow): boolean {
  return row.state === "Z" || row.state === "X";
}

/** Every process that can be seen, zombies included. */
export function readAllRows(): ProcessRow[] {
  return readdirSync("/proc").flatMap((name) => {
    const row = /^\d+$/.test(name) ? readProcessRow(Number(name)) : null;
    return row === null ? [] : [row];
  });
}

let childrenAreListed: boolean | undefined;

/**
 * The children of a process, zombies included; empty when there is no such process. Of this process
 * only those of the main thread: it is the one that forks, and that orphans are handed to.
 */
export function childrenOf(pid: number): number[] {
  // Absent from kernels built without CONFIG_PROC_CHILDREN (proc_tid_children(5)).
  childrenAreListed ??= existsSync(childrenFile(process.pid, process.pid));
  if (!childrenAreListed) return childrenByScan(pid);
  if (pid === process.pid) return childrenOfThread(pid, pid);
  return threadsOf(pid).flatMap((thread) => childrenOfThread(pid, thread));
}

/** The same from a look at every process. */
export function childrenByScan(pid: number): number[] {
  return readAllRows().flatMap((row) => (row.parent === pid ? [row.pid] : []));
}

function threadsOf(pid: number): number[] {
  return unlessGone(() => readdirSync(`/proc/${pid}/task`).map(Number), []);
}

function childrenOfThread(pid: number, thread: number): number[] {
  const text = unlessGone(() => readFileSync(childrenFile(pid, thread), "latin1"), "");
  return text.split(" ").filter(Boolean).map(Number);
}

function childrenFile(pid: number, thread: number): string {
  return `/proc/${pid}/task/${thread}/children`;
}

function unlessGone<T>(read: () => T, gone: T): T {
  try {
    return read();
  } catch (failure) {
    const errno = errnoOf(failure);
    if (errno === "ENOENT" || errno === "ESRCH") return gone;
    throw failure;
  }
}
