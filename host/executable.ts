/** Owns the search for a program (execvp(3)), in the search path of the run and not of this process. */
import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import { LemonError } from "../protocol/errors.ts";

/**
 * The absolute path of a program: `name` itself when it is one, else the first executable file of that
 * name in `searchPath` (folders separated by `:`; those that are not absolute are passed over, since they
 * would depend on where somebody stands). Errors: `executable_not_found`, `permission_denied` (found, and
 * not executable for this account), `invalid_params` (a relative path).
 */
export function findExecutable(name: string, searchPath: string): string {
  refuseRelativeProgram(name);
  if (name.startsWith("/")) return name;
  let found: "nothing" | "forbidden" = "nothing";
  for (const folder of searchPath.split(":")) {
    if (!folder.startsWith("/")) continue;
    const path = join(folder, name);
    if (!isFile(path)) continue;
    if (isExecutable(path)) return path;
    found = "forbidden";
  }
  throw new LemonError(found === "forbidden" ? "permission_denied" : "executable_not_found");
}

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
  } catch {
    // A folder on the way that is none, or may not be entered.
    return false;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** `invalid_params` for a program that is neither a name nor an absolute path. */
export function refuseRelativeProgram(name: string): void {
  if (name.startsWith("/") || !name.includes("/")) return;
  throw new LemonError("invalid_params", {
    message: "Invalid params: argv.0: must be a name in PATH or an absolute path",
  });
}
