/**
 * Owns the limit of file locks of this process (RLIMIT_LOCKS, getrlimit(2)), as a mark on what it starts:
 * inherited by every descendant, whatever happens to its session, its parents and its environment, seen
 * in `/proc/<pid>/limits`, and without any effect since Linux 2.4.25.
 *
 * 1. Outside `withLockLimit` this process has the limit it was started with.
 */
import { readFileSync } from "node:fs";
import { checked, native } from "./library.ts";

const RLIMIT_LOCKS = 10;
/** `struct rlimit` on 64-bit systems: the soft limit, then the hard one. */
const RLIMIT_BYTES = 16;
const LINE = /^Max file locks +(\d+) /m;

const getrlimit = native("int getrlimit(int resource, void *limit)");
const setrlimit = native("int setrlimit(int resource, void *limit)");

/** Does `act`, in this turn of the event loop, under this soft limit. Throws `SystemError` when it is refused. */
export function withLockLimit<T>(soft: bigint, act: () => T): T {
  const own = Buffer.alloc(RLIMIT_BYTES);
  checked("getrlimit", getrlimit(RLIMIT_LOCKS, own));
  const lower = Buffer.from(own);
  lower.writeBigUInt64LE(soft, 0);
  checked("setrlimit", setrlimit(RLIMIT_LOCKS, lower));
  try {
    return act();
  } finally {
    // Never refused: the hard limit stayed as it was.
    setrlimit(RLIMIT_LOCKS, own);
  }
}

/** The soft limit of a live process; null when it is unlimited or not to be seen. */
export function lockLimitOf(pid: number): bigint | null {
  try {
    const digits = LINE.exec(readFileSync(`/proc/${pid}/limits`, "latin1"))?.[1];
    return digits === undefined ? null : BigInt(digits);
  } catch {
    return null;
  }
}
