/** Composes the role `lemon start`. */
import { LemonError } from "../../protocol/errors.ts";
import type { StartOptions } from "../options.ts";

/** Runs until the role has ended; answers the exit code. */
export function runStart(_options: StartOptions): Promise<number> {
  return Promise.reject(new LemonError("not_implemented"));
}
