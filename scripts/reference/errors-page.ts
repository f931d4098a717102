/** Owns the page of all failures. */
import { ERRORS, type WireCode } from "../../protocol/errors.ts";
import { NOTICE, page, table } from "./markdown.ts";

/** What the two outcomes of the table mean to the caller of a mutation. */
const OUTCOME = { refused: "nothing happened", unknown: "**may have happened**" } as const;

export function errorsPage(): string {
  const rows = Object.entries(ERRORS).sort(([a], [b]) => (a < b ? -1 : 1));
  const byWire = Map.groupBy(rows, ([, { wire }]) => wire satisfies WireCode);
  return page(
    "# Errors",
    NOTICE,
    "Every failure that crosses `/ws`, a node link or a command has one of these classifications. On `/ws` it stands in `error.details.code`, beside `retrySafe` and, for a mutation, `mutationMayHaveApplied`; `error.code` is the wire code.",
    [
      "- **repeat**: whether the very same request may be sent again without a read before it.",
      "- **of a mutation**: what the failure says about the change that was asked for. After “may have happened” read before you send anything else; [methods.md](methods.md) names the read.",
      "- The table holds what is true of the classification as such. A failure that is known better says so itself: its own `retrySafe`, `mutationMayHaveApplied` and `message` go before the table, and a classification that a client does not know is to be read by `error.code`.",
      "- A sentence never quotes a path, an argument, a byte of a file, a secret or a token.",
    ].join("\n"),
    table(
      ["classification", "wire code", "repeat", "of a mutation", "sentence"],
      rows.map(([name, { wire, retrySafe, outcome, message }]) => [
        `\`${name}\``,
        `\`${wire}\``,
        retrySafe ? "yes" : "no",
        OUTCOME[outcome],
        message,
      ]),
    ),
    "## By wire code",
    table(
      ["wire code", "classifications"],
      [...byWire]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([wire, those]) => [`\`${wire}\``, those.map(([name]) => `\`${name}\``).join(", ")]),
    ),
  );
}
