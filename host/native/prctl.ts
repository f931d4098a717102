/** Owns prctl(2). */
import { constants } from "node:os";
import { checked, native } from "./library.ts";

const prctl = native("int prctl(int option, ...)");

/** Whether this process is the one that its descendants' orphans are handed to (Linux only). */
export function isSubreaper(): boolean {
  const PR_GET_CHILD_SUBREAPER = 37;
  const answer = Buffer.alloc(4);
  checked("prctl", prctl(PR_GET_CHILD_SUBREAPER, "void *", answer));
  return answer.readInt32LE(0) !== 0;
}

/** Makes it that one, or no longer. */
export function setSubreaper(adopts: boolean): void {
  const PR_SET_CHILD_SUBREAPER = 36;
  checked("prctl", prctl(PR_SET_CHILD_SUBREAPER, "ulong", adopts ? 1 : 0));
}

/** Has the kernel kill this process when the thread that started it ends (Linux only). */
export function dieWithParent(): void {
  const PR_SET_PDEATHSIG = 1;
  checked("prctl", prctl(PR_SET_PDEATHSIG, "ulong", constants.signals.SIGKILL));
}
