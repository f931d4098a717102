/** Owns the page of the command line: the help of every command, as `lemon COMMAND --help` prints it. */
import { Readable } from "node:stream";
import { Command } from "commander";
import { addCommands } from "../../cli/commands.ts";
import { lemon } from "../../cli/program.ts";
import { Report } from "../../cli/report.ts";
import type { Output, Shell } from "../../cli/shell.ts";
import { platformTimers } from "../../client/timers.ts";
import { anchor, code, NOTICE, page, table } from "./markdown.ts";

const COLUMNS = 100;

export async function cliPage(): Promise<string> {
  const commands = leaves(commandTree());
  const sections = await Promise.all(
    commands.map(async ({ path }) => [
      `## ${path.join(" ")}`,
      code("text", await help(path.slice(1))),
    ]),
  );
  return page(
    "# The command `lemon`",
    NOTICE,
    "What `lemon COMMAND --help` prints. In a checkout `lemon` is `npm run --silent lemon --`.",
    table(
      ["command", "what it does"],
      commands.map(({ path, summary }) => {
        const name = path.join(" ");
        return [`[\`${name}\`](${anchor(name)})`, summary];
      }),
    ),
    "## lemon",
    code("text", await help([])),
    ...sections.flat(),
  );
}

interface Leaf {
  readonly path: readonly string[];
  readonly summary: string;
}

function commandTree(): Command {
  const program = new Command("lemon");
  const { shell } = quietShell();
  const report = new Report(shell, false);
  addCommands(program, { shell, report, remote: [], finish: () => {} });
  return program;
}

/** The commands that do something, in the order of the help. */
function leaves(command: Command, above: readonly string[] = []): readonly Leaf[] {
  const path = [...above, command.name()];
  if (command.commands.length === 0) return [{ path, summary: command.description() }];
  return command.commands.flatMap((inner) => leaves(inner, path));
}

async function help(words: readonly string[]): Promise<string> {
  const { shell, said } = quietShell();
  const exitCode = await lemon([...words, "--help"], shell);
  if (exitCode !== 0) throw new Error(`no help of lemon ${words.join(" ")}`);
  return said().trimEnd();
}

/** No terminal, no environment, no files: what help must not depend on. */
function quietShell(): { readonly shell: Shell; readonly said: () => string } {
  let text = "";
  const stdout: Output = {
    columns: COLUMNS,
    isTerminal: false,
    coloured: false,
    failure: null,
    write: async (bytes) => {
      text += String(bytes);
    },
  };
  return {
    said: () => text,
    shell: {
      lemon: "lemon",
      environment: {},
      cwd: "/",
      homeDirectory: "/",
      stdin: Readable.from([]),
      stdinIsTerminal: false,
      stdout,
      stderr: { ...stdout, write: async () => {} },
      timers: platformTimers,
      onSignal: () => () => {},
      openTerminal: () => null,
    },
  };
}
