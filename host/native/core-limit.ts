/** Owns the limit of core files of this process (RLIMIT_CORE, getrlimit(2)), which what it starts inherits. */
import { checked, native } from "./library.ts";

const RLIMIT_CORE = 4;
/** `struct rlimit` on 64-bit systems: the soft limit, then the hard one. */
const RLIMIT_BYTES = 16;
/**
 * Too small for any file, as 0 is; and unlike 0 it also keeps Linux from piping the memory to a collector
 * (`core_pattern` with `|`), which else happens whatever the limit is (fs/coredump.c).
 */
const NO_CORE = 1n;

const getrlimit = native("int getrlimit(int resource, void *limit)");
const setrlimit = native("int setrlimit(int resource, void *limit)");

/** From now on a crash leaves no copy of the memory. The hard limit stays: a program may ask for its own. Throws `SystemError` when it is refused. */
export function forbidCores(): void {
  const limit = Buffer.alloc(RLIMIT_BYTES);
  checked("getrlimit", getrlimit(RLIMIT_CORE, limit));
  if (limit.readBigUInt64LE(0) <= NO_CORE && limit.readBigUInt64LE(8) <= NO_CORE) return;
  limit.writeBigUInt64LE(NO_CORE, 0);
  checked("setrlimit", setrlimit(RLIMIT_CORE, limit));
}
