/**
 * Owns how V8 counts the bytes outside its heap. By default some ten megabytes of them (what sockets read, what
 * files hold) make it search the whole heap for garbage at once, whatever the heap's own state: while chunks
 * of files pass through, that was half of a worker's and a controller's time.
 */
import { setFlagsFromString } from "node:v8";

/** The version that has the flag; another may not know it, and would complain on stderr. */
const KNOWN = /^13\./;

/** They count as what is inside does, and are bounded with it. */
export function countOutsideBytesWithHeap(): void {
  if (!KNOWN.test(process.versions.v8)) return;
  setFlagsFromString("--external-memory-accounted-in-global-limit");
}
