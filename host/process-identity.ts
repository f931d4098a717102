/**
 * Owns the identity of a process: its pid AND its start time, since a pid alone is given out again.
 *
 * 1. No proof of identity, no kill: a signal is sent only after the start time was compared, through a
 *    pidfd opened before the comparison where the kernel has one (5.3), so that nothing can slip in.
 * 2. A process that ended and was not reaped yet is not alive.
 *
 * Linux: `/proc/<pid>/stat` and the boot's id, so that a stored identity means nothing after a reboot.
 * macOS: `proc_pidinfo(PROC_PIDTBSDINFO)`, not tried here.
 */
import { closeSync, readFileSync } from "node:fs";
import { constants } from "node:os";
import { z } from "zod";
import { LemonError } from "../protocol/errors.ts";
import { checked, native, nativeBlocking } from "./native/library.ts";
import { hasEnded, type ProcessRow, readProcessRow } from "./process-table.ts";
import { errnoOf, systemFailure } from "./system-error.ts";

/** For files that hold an identity over restarts: JSON `{pid, startTime}`. */
export const processIdentity = z.strictObject({
  pid: z.int().positive(),
  /** Opaque; equal only for the same process of the same boot. */
  startTime: z.string().min(1).max(128),
});
export type ProcessIdentity = z.infer<typeof processIdentity>;

export type Signal = "SIGKILL" | "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR2";

/** The identity of the live process with this pid; null when there is none. */
export function identify(pid: number): ProcessIdentity | null {
  const startTime = process.platform === "darwin" ? darwinStartTime(pid) : linuxStartTime(pid);
  return startTime === null ? null : { pid, startTime };
}

let own: ProcessIdentity | undefined;

export function ownIdentity(): ProcessIdentity {
  own ??= identify(process.pid) ?? undefined;
  if (own === undefined) throw new LemonError("internal_error");
  return own;
}

/** Whether this very process lives. */
export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startTime === identity.startTime;
}

/**
 * Signals this very process. False: it had ended, nothing was sent. Throws `permission_denied` when it
 * lives and may not be signalled.
 */
export function signalProcess(identity: ProcessIdentity, signal: Signal): boolean {
  try {
    const pidfd = openPidfd(identity.pid);
    if (pidfd === "unsupported") {
      return isAlive(identity) && process.kill(identity.pid, signal);
    }
    if (pidfd === "ended") return false;
    try {
      if (!isAlive(identity)) return false;
      sendThroughPidfd(pidfd, signal);
      return true;
    } finally {
      closeSync(pidfd);
    }
  } catch (failure) {
    if (errnoOf(failure) === "ESRCH") return false;
    throw systemFailure(failure);
  }
}

/** How often a platform without pidfds looks again, in ms. */
const LOOK_AGAIN_MS = 50;

/**
 * Waits until this very process has ended, child of ours or not: true when it has, false after
 * `deadlineMs`. Waits on a pidfd where the kernel has one, and looks again and again where not.
 */
export async function waitForEnd(identity: ProcessIdentity, deadlineMs: number): Promise<boolean> {
  const pidfd = openPidfd(identity.pid);
  if (pidfd === "ended") return true;
  if (pidfd !== "unsupported") {
    try {
      if (isAlive(identity) && deadlineMs > 0) await pollPidfd(pidfd, deadlineMs);
    } finally {
      closeSync(pidfd);
    }
    return !isAlive(identity);
  }
  const until = performance.now() + deadlineMs;
  while (isAlive(identity)) {
    if (performance.now() >= until) return false;
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
  return true;
}

// System call numbers from 424 on are the same on every Linux architecture (syscalls(2)).
const SYS_PIDFD_SEND_SIGNAL = 424;
const SYS_PIDFD_OPEN = 434;
const syscall = native("long syscall(long number, ...)");
const poll = nativeBlocking("int poll(void *descriptors, ulong count, int timeoutMs)");

/**
 * A descriptor that stands for the process which has the pid now, close-on-exec (pidfd_open(2)).
 * The caller closes it.
 */
function openPidfd(pid: number): number | "ended" | "unsupported" {
  if (process.platform !== "linux") return "unsupported";
  try {
    return checked("pidfd_open", syscall(SYS_PIDFD_OPEN, "int", pid, "uint", 0));
  } catch (failure) {
    const errno = errnoOf(failure);
    if (errno === "ESRCH") return "ended";
    // An old kernel, or a sandbox that knows no pidfd.
    if (errno === "ENOSYS" || errno === "EPERM") return "unsupported";
    throw systemFailure(failure);
  }
}

function sendThroughPidfd(pidfd: number, signal: Signal): void {
  const number = constants.signals[signal];
  checked(
    "pidfd_send_signal",
    syscall(SYS_PIDFD_SEND_SIGNAL, "int", pidfd, "int", number, "void *", null, "uint", 0),
  );
}

/** A pidfd becomes readable when its process ends. */
async function pollPidfd(pidfd: number, timeoutMs: number): Promise<void> {
  const POLLIN = 1;
  const descriptor = Buffer.alloc(8);
  descriptor.writeInt32LE(pidfd, 0);
  descriptor.writeInt16LE(POLLIN, 4);
  await poll(descriptor, 1, Math.min(Math.ceil(timeoutMs), 2_147_483_647));
}

let boot: string | undefined;

function linuxStartTime(pid: number): string | null {
  const row = readProcessRow(pid);
  return row === null || hasEnded(row) ? null : identityOfRow(row).startTime;
}

/** The identity of the process that a row of the process table was read from. */
export function identityOfRow(row: ProcessRow): ProcessIdentity {
  boot ??= readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  return { pid: row.pid, startTime: `${boot}:${row.startTicks}` };
}

const procPidinfo = native(
  "int proc_pidinfo(int pid, int flavor, uint64_t arg, void *buffer, int size)",
);

/** `struct proc_bsdinfo` of `<sys/proc_info.h>`: 136 bytes, status at 4, start seconds at 120, microseconds at 128. */
function darwinStartTime(pid: number): string | null {
  const PROC_PIDTBSDINFO = 3;
  const SIZE = 136;
  const ZOMBIE = 5;
  const info = Buffer.alloc(SIZE);
  if (procPidinfo(pid, PROC_PIDTBSDINFO, 0, info, SIZE) !== SIZE) return null;
  if (info.readUInt32LE(4) === ZOMBIE) return null;
  return `${info.readBigUInt64LE(120)}.${info.readBigUInt64LE(128)}`;
}
