/**
 * Owns the inside of an isolated process (`isolated-process.ts`): takes one request after the other,
 * answers each, and ends with its parent.
 *
 * 1. When the parent is gone the channel closes, and this ends. Where the system can, it is also killed then:
 *    it may be inside a call that never returns.
 * 2. Signals that ask politely are the parent's to hear: what is under way here may be somebody's write.
 */
import { dieWithParent } from "../host/native/prctl.ts";
import { LemonError } from "../protocol/errors.ts";
import { done, failed, readRequest } from "./isolated-messages.ts";

/** What it was handed is told by its arguments: the memory that both have open (0: none), then the rest. */
function handed(): { readonly memory: number | null; readonly inherited: readonly number[] } {
  const [memory = 0, ...inherited] = process.argv.slice(2).map(Number);
  return { memory: memory > 0 ? memory : null, inherited };
}

/**
 * Serves the process that started this one. `open` gets the opening and the descriptors that were handed on,
 * and answers what serves the requests.
 */
export function serveIsolated(
  open: (opening: unknown, inherited: readonly number[]) => (request: unknown) => unknown,
): void {
  process.once("disconnect", () => process.exit(0));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  if (process.platform === "linux") dieWithParent();

  const { memory, inherited } = handed();
  let serve: ((request: unknown) => unknown) | null = null;
  process.on("message", (message: unknown) => {
    const asked = readRequest(message, memory);
    if (asked === null) return;
    const { serial, request } = asked;
    let answer: object;
    try {
      if (serve === null) {
        serve = open(request, inherited);
        answer = done(serial, null, memory);
      } else {
        answer = done(serial, serve(request), memory);
      }
    } catch (error) {
      answer = failed(serial, error);
    }
    send(answer);
  });
}

function send(answer: object): void {
  if (process.send === undefined) throw new LemonError("internal_error");
  // One that does not leave means that the parent is gone.
  process.send(answer, undefined, undefined, (failure) => {
    if (failure !== null) process.exit(0);
  });
}
