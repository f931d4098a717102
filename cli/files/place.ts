/** Owns `NODE:PATH`: a path on a node, as the user writes it and as it is written back. */
import { nativePath } from "../../protocol/native-path.ts";
import { UsageError } from "../exit.ts";
import { shellWord } from "../printable.ts";
import type { Shell } from "../shell.ts";
import type { Target } from "../target.ts";

export interface Place {
  /** Name or durable id. */
  readonly node: string;
  readonly path: string;
}

/** Reads `NODE:PATH`; `NODE:` is the node's default working directory. Throws a `UsageError`. */
export function readPlace(text: string): Place {
  const at = text.indexOf(":");
  if (at < 1) {
    throw new UsageError(
      "a place on a node is written NODE:PATH",
      "for example worker-1:results/note.txt; a node whose name holds a colon goes by its id",
    );
  }
  return { node: text.slice(0, at), path: checkedPath(text.slice(at + 1) || ".") };
}

function checkedPath(path: string): string {
  // Node decodes arguments with replacement: another file than the user means.
  if (path.includes("\ufffd"))
    throw new UsageError("the path is not valid UTF-8 (or holds U+FFFD)");
  const read = nativePath.safeParse(path);
  if (read.success) return read.data;
  throw new UsageError(`the path ${read.error.issues[0]?.message ?? "is not valid"}`);
}

/** The name at a path's end; null for one that ends in none. */
export function nameOf(path: string): string | null {
  const name = path.split("/").findLast((part) => part !== "" && part !== ".");
  return name ?? null;
}

/** A path below a directory of a node. */
export function below(directory: string, name: string): string {
  return directory.endsWith("/") ? `${directory}${name}` : `${directory}/${name}`;
}

/** The command that shows what is at a place. */
export function statCommand(shell: Shell, target: Target, nodeId: string, path: string): string {
  return `${shell.lemon} fs stat ${shellWord(`${nodeId}:${path}`)}${target.suffix}`;
}
