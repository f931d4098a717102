/** Owns prctl(2). */
import { checked, native } from "./library.ts";

const prctl = native("int prctl(int option, ...)");

/** Whether this process is the one that its descendants' orphans are handed to (Linux only). */
export function setSubreaper(adopts: boolean): void {
  const PR_SET_CHILD_SUBREAPER = 36;
  checked("prctl", prctl(PR_SET_CHILD_SUBREAPER, "ulong", adopts ? 1 : 0));
}
