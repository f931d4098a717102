/** Owns what goes wrong with the user's own files: told by the system's code, as a failure of this side. */
import { LemonError } from "../../protocol/errors.ts";

/** Runs `work`; a system error becomes one sentence with its code. */
export async function localFailure<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LemonError || !(error instanceof Error) || !("code" in error)) throw error;
    throw new LemonError("internal_error", {
      message: `the local file can not be used (${String(error.code)})`,
      mutationMayHaveApplied: false,
      cause: error,
    });
  }
}
