/** Composes the role `lemon up`. */
import { LemonError } from "../../protocol/errors.ts";
import type { UpOptions } from "../options.ts";

/** Runs until the role has ended; answers the exit code. */
export function runUp(_options: UpOptions): Promise<number> {
  return Promise.reject(new LemonError("not_implemented"));
}
