/** Owns malloc_trim(3): glibc keeps what was freed, most of it from the start, until it is asked for it. */
import { hasNative, native } from "./library.ts";

const DECLARATION = "int malloc_trim(size_t pad)";
const trim = native(DECLARATION);

/** Gives freed memory back to the system; another C library does that by itself. Once, after a start. */
export function releaseFreedMemory(): void {
  if (process.platform === "linux" && hasNative(DECLARATION)) trim(0);
}
