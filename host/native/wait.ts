/**
 * Owns the question what became of a child (waitid(2), waitpid(2)), asked for exact pids only: asking
 * for "any child" would take libuv's children away from it.
 *
 * While a child that ended is not reaped, its pid stands for nobody else, and neither does the group
 * it led: that is what makes a signal to the group safe.
 */
import { checked, native } from "./library.ts";

/** How a process ended, as the kernel told. */
export interface Exit {
  /** 0 to 255; null after a death by signal. */
  readonly code: number | null;
  /** The number of the deadly signal; null after an exit. */
  readonly signal: number | null;
}

const onDarwin = process.platform === "darwin";
const P_PID = 1;
const WNOHANG = 1;
const WEXITED = 4;
const WNOWAIT = onDarwin ? 0x20 : 0x0100_0000;
const CLD_EXITED = 1;
const SIGINFO_BYTES = 128;
/** Place of `si_status` in `siginfo_t` on 64-bit systems. */
const STATUS_AT = onDarwin ? 20 : 24;

const waitid = native("int waitid(int type, uint id, void *info, int options)");
const waitpid = native("int waitpid(int pid, void *status, int options)");

/** How a child ended, without reaping it; null while it runs. `SystemError` ECHILD: no child of ours. */
export function peekExit(pid: number): Exit | null {
  const info = Buffer.alloc(SIGINFO_BYTES);
  checked("waitid", waitid(P_PID, pid, info, WEXITED | WNOHANG | WNOWAIT));
  if (info.readInt32LE(0) === 0) return null;
  const status = info.readInt32LE(STATUS_AT);
  return info.readInt32LE(8) === CLD_EXITED
    ? { code: status, signal: null }
    : { code: null, signal: status };
}

/** Reaps a child that has ended: its pid is free from now on. False while it runs. */
export function reap(pid: number): boolean {
  return checked("waitpid", waitpid(pid, null, WNOHANG)) === pid;
}
