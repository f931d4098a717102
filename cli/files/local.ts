/** Owns what goes wrong with the user's own files: told by name and the system's code, as a failure of this side. */
import { LemonError } from "../../protocol/errors.ts";
import { printable } from "../printable.ts";

/** Runs `work`; a system error becomes one sentence with its code. */
export async function localFailure<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LemonError || !(error instanceof Error) || !("code" in error)) throw error;
    const which = "path" in error && typeof error.path === "string" ? ` ${shown(error.path)}` : "";
    throw new LemonError("internal_error", {
      message: `the local file${which} can not be used (${String(error.code)})`,
      mutationMayHaveApplied: false,
      cause: error,
    });
  }
}

const LONGEST_PATH = 4_096;
const shown = (path: string): string => printable(path, LONGEST_PATH);
