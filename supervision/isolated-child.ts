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

/** The memory that both have open is told as an argument. */
function sharedMemory(): number | null {
  const told = Number(process.argv[2]);
  return Number.isSafeInteger(told) && told > 0 ? told : null;
}

/** Serves the process that started this one. `open` gets the opening and answers what serves the requests. */
export function serveIsolated(open: (opening: unknown) => (request: unknown) => unknown): void {
  process.once("disconnect", () => process.exit(0));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  if (process.platform === "linux") dieWithParent();

  const memory = sharedMemory();
  let serve: ((request: unknown) => unknown) | null = null;
  process.on("message", (message: unknown) => {
    const asked = readRequest(message, memory);
    if (asked === null) return;
    const { serial, request } = asked;
    let answer: object;
    try {
      if (serve === null) {
        serve = open(request);
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
