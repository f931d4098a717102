/** Owns what all commands are made with: what they get, their groups, the flags that many of them take. */
import type { Command } from "commander";
import type { Report } from "./report.ts";
import type { Shell } from "./shell.ts";

export const EXIT_CODES = `
Exit codes:
  0    done
  1    failed in another way
  2    the command line is wrong; nothing was sent
  121  refused; nothing happened
  122  not found
  123  conflict with what is already so
  125  the outcome is unknown; what to do is printed
  126  cancelled, and no exit was observed
  process run otherwise ends with the remote exit code; --json tells them apart.
`;

export interface CommandContext {
  readonly shell: Shell;
  readonly report: Report;
  /** The remote command of `process run`: what stands after `--`. */
  readonly remote: readonly string[];
  /** Takes the exit code of the command that ran. */
  readonly finish: (exitCode: number) => void;
}

export const CA_FILE = "PEM of the authorities to trust instead of the system's";

export function group(program: Command, name: string, summary: string): Command {
  const command = program.command(name).description(summary).helpCommand(false);
  return command.showHelpAfterError(`lemon: see \`lemon ${name} --help\``);
}

/** A command that does something; its help is one line away from every mistake. */
export function leaf(parent: Command, name: string, summary: string): Command {
  const path = parent.parent === null ? name : `${parent.name()} ${name}`;
  return parent
    .command(name)
    .description(summary)
    .allowExcessArguments(false)
    .option("--json", "print exactly one JSON document on stdout")
    .showHelpAfterError(`lemon: see \`lemon ${path} --help\``);
}

export function onController(command: Command): Command {
  return command
    .option("--controller <url>", "the controller (default: the one that runs here)")
    .option("--operator-token <token>", "visible in ps to others: prefer LEMON_WS_TOKEN or a file")
    .option("--operator-token-file <file>", "file that holds the operator token")
    .option("--ca-file <file>", CA_FILE);
}
