/** Owns the doctor's look for what a move or a delete of files left when it was cut off. */
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
  const { paths, entries, complete } = await findLeftovers(roots, home, bounds);
  const seen = complete ? "" : ` among the ${COUNT.format(entries)} entries looked at`;
  if (paths.length === 0) return ok(name, `none is left${seen}`);
  const shown = paths.slice(0, MOST_SHOWN).map(shellWord).join(" ");
  const more = paths.length > MOST_SHOWN ? ` and ${paths.length - MOST_SHOWN} more` : "";
  return warn(
    name,
    `${paths.length} left${seen}: ${shown}${more}`,
    "each is a file or folder under a temporary name (a delete may have emptied it in part): move it back to its old name, or remove it",
  );
}
