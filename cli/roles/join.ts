/** Composes the role `lemon node join`. */
import { LemonError } from "../../protocol/errors.ts";
import type { JoinOptions } from "../options.ts";

/** Runs until the worker has ended; answers the exit code. */
export function runJoin(_options: JoinOptions): Promise<number> {
  return Promise.reject(new LemonError("not_implemented"));
}
