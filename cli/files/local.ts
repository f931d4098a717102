/** Owns what goes wrong with the user's own files: told by name and the system's code, as a failure of this side. */
import { fileFailure } from "../../host/files/failure.ts";
import { errnoOf } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import { LocalFailure } from "../exit.ts";
import { pathText } from "../printable.ts";

/** Runs `work`; a system error becomes one sentence with its code, and the table's error of that code. */
export async function localFailure<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const errno = errnoOf(error);
    if (error instanceof LemonError || !(error instanceof Error) || errno === null) throw error;
    const which =
      "path" in error && typeof error.path === "string" ? ` ${pathText(error.path)}` : "";
    throw new LocalFailure(fileFailure(error).code, {
      message: `the local file${which} can not be used (${errno})`,
      details: { errno, where: "local" },
      retrySafe: false,
      mutationMayHaveApplied: false,
      cause: error,
    });
  }
}
