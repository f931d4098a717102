/** Owns prctl(2). */
import { checked, native } from "./library.ts";

const prctl = native("int prctl(int option, ...)");

/** Makes this process the one that its descendants' orphans are handed to, for good (Linux only). */
export function becomeSubreaper(): void {
  const PR_SET_CHILD_SUBREAPER = 36;
  checked("prctl", prctl(PR_SET_CHILD_SUBREAPER, "ulong", 1));
}
