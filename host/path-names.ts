/**
 * Owns the reading of paths as text: which are acceptable (node-host-io.md, "Destination policy"), and what
 * components they have. Nothing here asks the machine.
 */
const LONGEST_PATH_BYTES = 4_096;

/** A path as it may stand in a request: nonempty UTF-8 of at most 4,096 bytes, no NUL, no `..`. */
export function isAcceptable(path: string): boolean {
  return (
    path !== "" &&
    path.isWellFormed() &&
    !path.includes("\0") &&
    Buffer.byteLength(path) <= LONGEST_PATH_BYTES &&
    !path.split("/").includes("..")
  );
}

/**
 * Its names, without the idle parts. A last `.` remains of a path that demands a directory
 * (`a/`, `a/.`, `a/..`; path_resolution(7)).
 */
export function components(path: string): string[] {
  const parts = path.split("/");
  const names = parts.filter((name) => name !== "" && name !== ".");
  const last = parts.at(-1);
  return last === "" || last === "." || last === ".." ? [...names, "."] : names;
}

/** The names of a path of a directory. */
export function directoryComponents(path: string): string[] {
  return components(path).filter((name) => name !== ".");
}

export function startsWith(path: readonly string[], prefix: readonly string[]): boolean {
  return prefix.every((name, index) => path[index] === name);
}

export function absolute(names: readonly string[]): string {
  return `/${names.join("/")}`;
}
