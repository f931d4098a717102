/** Owns the words of `lemon fs`: its commands, flags and their help. */
import type { Command } from "commander";
import { type CommandContext, EXIT_CODES, leaf, onController } from "../command-parts.ts";
import type { TargetFlags } from "../target.ts";
import type { MoveFlags } from "./change.ts";
import type { GetFlags } from "./get.ts";
import type { PutFlags } from "./put.ts";
import type { RemoveFlags } from "./remove.ts";
import type { ListFlags } from "./show.ts";

const PLACE = "name or durable id of a node, a colon, a path on it; NODE: is its working directory";

export function addFiles(parent: Command, { shell, report, finish }: CommandContext): void {
  onController(leaf(parent, "ls", "list the first 500 entries of a directory, by name"))
    .argument("<node:path>", PLACE)
    .option("-a, --all", "also names that begin with a dot")
    .action(async (where: string, flags: ListFlags) => {
      const { fsList } = await import("./show.ts");
      finish(await fsList(shell, report, flags, where));
    });

  onController(leaf(parent, "stat", "show what is at a path"))
    .argument("<node:path>", PLACE)
    .action(async (where: string, flags: TargetFlags) => {
      const { fsStat } = await import("./show.ts");
      finish(await fsStat(shell, report, flags, where));
    });

  onController(leaf(parent, "cat", "write a file's bytes to stdout"))
    .argument("<node:path>", PLACE)
    .action(async (where: string, flags: TargetFlags) => {
      const { fsCat } = await import("./cat.ts");
      finish(await fsCat(shell, report, flags, where));
    });

  onController(leaf(parent, "put", "copy a file of this machine to a node"))
    .argument("<file>", "a regular file here; with --recursive, a directory")
    .argument("<node:path>", `${PLACE}; into a directory the file goes under its own name`)
    .option("--overwrite", "replace what is there, in one step")
    .option("-p, --parents", "create missing parent directories")
    .option(
      "-r, --recursive",
      "a directory with all below it; links and special files are left out",
    )
    .addHelpText("after", TRANSFER)
    .action(async (from: string, to: string, flags: PutFlags) => {
      const { fsPut } = await import("./put.ts");
      finish(await fsPut(shell, report, flags, from, to));
    });

  onController(leaf(parent, "get", "copy a file of a node to this machine"))
    .argument("<node:path>", PLACE)
    .argument("[file]", "what it becomes here, or the directory it goes into (default: .)")
    .option(
      "-r, --recursive",
      "a directory with all below it; links and special files are left out",
    )
    .addHelpText("after", TRANSFER)
    .action(async (from: string, to: string | undefined, flags: GetFlags) => {
      const { fsGet } = await import("./get.ts");
      finish(await fsGet(shell, report, flags, from, to));
    });

  onController(leaf(parent, "mkdir", "create a directory and its parents"))
    .argument("<node:path>", PLACE)
    .action(async (where: string, flags: TargetFlags) => {
      const { fsMkdir } = await import("./change.ts");
      finish(await fsMkdir(shell, report, flags, where));
    });

  onController(leaf(parent, "mv", "rename within one file system of a node, in one step"))
    .argument("<node:path>", PLACE)
    .argument("<node:destination>", "its new path on the same node")
    .option("--overwrite", "replace what is there")
    .action(async (from: string, to: string, flags: MoveFlags) => {
      const { fsMove } = await import("./change.ts");
      finish(await fsMove(shell, report, flags, from, to));
    });

  onController(leaf(parent, "rm", "show what would be deleted, ask, and delete exactly that"))
    .argument("<node:path>", PLACE)
    .option("-r, --recursive", "also a directory that is not empty, with all below it")
    .option("-y, --yes", "delete without asking")
    .addHelpText("after", EXIT_CODES)
    .action(async (where: string, flags: RemoveFlags) => {
      const { fsRemove } = await import("./remove.ts");
      finish(await fsRemove(shell, report, flags, where));
    });
}

const TRANSFER = `
A copy takes its place when it is complete. Until then it grows beside it as .lemon-put-… or
.lemon-get-…; the same command goes on with that after a cut. What changed meanwhile is not mixed:
the command ends with 123.
${EXIT_CODES}`;
