/**
 * Owns `lemon fs rm`: shows what would be deleted, has it confirmed, and deletes exactly that.
 *
 * 1. Without `--yes` nothing is deleted but by an answer on the terminal; without a terminal, nothing.
 * 2. What changed since it was shown is not deleted: it is to be shown again.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { UsageError } from "../exit.ts";
import { pathText } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell, Terminal } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { change } from "./change.ts";
import { readPlace } from "./place.ts";

export interface RemoveFlags extends TargetFlags {
  readonly recursive?: boolean;
  readonly yes?: boolean;
}

type Preview = ResultOf<"node.fs.delete.preview">;

export async function fsRemove(
  shell: Shell,
  report: Report,
  flags: RemoveFlags,
  where: string,
): Promise<number> {
  const place = readPlace(where);
  const terminal = flags.yes === true ? null : shell.openTerminal();
  if (flags.yes !== true && terminal === null) {
    throw new UsageError("there is no terminal to ask on", "--yes deletes without asking");
  }
  try {
    return await change(shell, report, flags, place, async (client, nodeId, path) => {
      const recursive = flags.recursive === true;
      const preview = await client.call("node.fs.delete.preview", { nodeId, path, recursive });
      if (terminal !== null && !(await isConfirmed(terminal, preview))) {
        throw new LemonError("aborted", {
          message: "Nothing was deleted",
          mutationMayHaveApplied: false,
        });
      }
      const { confirmationToken } = preview;
      const confirmation = { confirm: path, confirmationToken };
      const deleted = await client.call("node.fs.delete", { nodeId, path, ...confirmation });
      const { candidateCount } = preview;
      return {
        document: { ...deleted, candidateCount },
        text: `${pathText(deleted.path)}: deleted, ${entries(candidateCount)}\n`,
      };
    });
  } finally {
    terminal?.close();
  }
}

async function isConfirmed(terminal: Terminal, preview: Preview): Promise<boolean> {
  const { path, stat, childCount, candidateCount } = preview;
  terminal.write(`${pathText(path)}\n`);
  const children = stat.type === "directory" ? `, ${childCount} in it` : `, ${stat.size} bytes`;
  terminal.write(`${stat.type}${children}; ${entries(candidateCount)} in all\n`);
  terminal.write("delete? [y/N] ");
  const answer = await terminal.readLine(new AbortController().signal);
  return /^\s*y(es)?\s*$/i.test(answer ?? "");
}

function entries(count: number): string {
  return count === 1 ? "1 entry" : `${count} entries`;
}
