/** Owns the doctor's look for what a move, a delete or an upload of files left when it was cut off. */
import { findLeftovers, type LeftoverBounds } from "../../host/files/leftovers.ts";
import { shellWord } from "../printable.ts";
import { type Finding, ok, warn } from "./check.ts";

const MOST_SHOWN = 5;
const COUNT = new Intl.NumberFormat("en-US");

/** `roots`: absolute; `home`: the state folder. */
export async function checkLeftovers(
  roots: readonly string[],
  home: string,
  bounds?: LeftoverBounds,
): Promise<Finding> {
  const name = "interrupted file work";
  const { paths, parts, entries, complete } = await findLeftovers(roots, home, bounds);
  const seen = complete ? "" : ` among the ${COUNT.format(entries)} entries looked at`;
  if (paths.length + parts.length === 0) return ok(name, `none is left${seen}`);
  const ways = [paths.length === 0 ? null : CAPTURED, parts.length === 0 ? null : PARTIAL];
  return warn(
    name,
    `${paths.length + parts.length} left${seen}: ${shown([...paths, ...parts])}`,
    ways.filter((way) => way !== null).join("; "),
  );
}

const CAPTURED =
  "each .lemon-delete-… and .lemon-move-… is a file or folder under a temporary name (a delete may have emptied it in part): move it back to its old name, or remove it";
const PARTIAL =
  "each .lemon-put-… is a part of an upload: unless one is under way, repeat the same lemon fs put to go on with it, or remove it";

function shown(paths: readonly string[]): string {
  const more = paths.length > MOST_SHOWN ? ` and ${paths.length - MOST_SHOWN} more` : "";
  return `${paths.slice(0, MOST_SHOWN).map(shellWord).join(" ")}${more}`;
}
