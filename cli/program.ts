/**
 * Owns one command line from its words to its exit code: what of it is ours and what the remote
 * command's, and what a wrong word is answered with.
 */
import { Command, CommanderError } from "commander";
import { LEMON_VERSION } from "../protocol/version.ts";
import { EXIT_CODES } from "./command-parts.ts";
import { addCommands } from "./commands.ts";
import { EXIT } from "./exit.ts";
import { Report } from "./report.ts";
import type { Shell } from "./shell.ts";

/** Runs one command line; answers its exit code. Never rejects. */
export async function lemon(words: readonly string[], shell: Shell): Promise<number> {
  const exitCode = await runLine(words, shell);
  const { failure } = shell.stdout;
  if (failure === null) return exitCode;
  await shell.stderr.write(`lemon: the result could not be written (${failure})\n`);
  return exitCode === EXIT.ok ? EXIT.failure : exitCode;
}

async function runLine(words: readonly string[], shell: Shell): Promise<number> {
  const line = readLine(words);
  const report = new Report(shell, line.json);
  const said: Said = { out: "", error: "" };
  let exitCode: number = EXIT.ok;
  const program = newProgram(said, shell);
  addCommands(program, {
    shell,
    report,
    remote: line.remote ?? [],
    finish: (code) => {
      exitCode = code;
    },
  });
  try {
    await program.parseAsync(line.own, { from: "user" });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) return report.failure(error);
    await shell.stdout.write(said.out);
    if (error.exitCode === 0) return EXIT.ok;
    return refuse(shell, report, line, error, said.error);
  }
}

/** What commander has to say: help, or what is wrong and where help is. */
interface Said {
  out: string;
  error: string;
}

interface Line {
  /** What is ours: for `process run` only what stands before `--`. */
  readonly own: readonly string[];
  /** What stands after `--` in `process run`; null when there was none. */
  readonly remote: readonly string[] | null;
  readonly json: boolean;
  readonly isRun: boolean;
}

function readLine(given: readonly string[]): Line {
  // `help node join` is `node join --help`: commander's own stops at the first word.
  const words = given[0] === "help" && given.length > 1 ? [...given.slice(1), "--help"] : given;
  const dashes = words.indexOf("--");
  const before = dashes < 0 ? words : words.slice(0, dashes);
  const [first, second] = before.filter((word) => !word.startsWith("-"));
  const isRun = first === "process" && second === "run";
  return {
    own: isRun ? before : words,
    remote: isRun && dashes >= 0 ? words.slice(dashes + 1) : null,
    json: before.includes("--json"),
    isRun,
  };
}

/** Passes on what commander says is wrong; with `--json` the document follows. */
async function refuse(
  shell: Shell,
  report: Report,
  line: Line,
  error: CommanderError,
  text: string,
): Promise<number> {
  await shell.stderr.write(text.replace(/^error: /, "lemon: "));
  if (line.isRun && line.remote === null && error.code !== "commander.help")
    await report.message("the remote command stands after --: lemon process run NODE -- uname -a");
  const message =
    error.code === "commander.help"
      ? "a command is missing"
      : error.message.replace(/^error: /, "");
  if (report.json)
    await report.result(
      { error: { code: "invalid_params", message, exitCode: EXIT.usage } },
      () => "",
    );
  return EXIT.usage;
}

const ENVIRONMENT = `
Environment:
  LEMON_HOME          state folder (default ~/.lemon)
  LEMON_CONTROLLER    URL of the controller, as --controller
  LEMON_WS_TOKEN      operator token, as --operator-token but not visible to others
`;

/** What help is folded to where no terminal says how wide it is. */
const HELP_COLUMNS = 80;

function newProgram(said: Said, { stdout, stderr }: Shell): Command {
  return new Command("lemon")
    .description("Run work on many machines and always know what became of it.")
    .version(LEMON_VERSION, "-V, --version", "print the version")
    .option("--json", "print exactly one JSON document on stdout")
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => {
        said.out += text;
      },
      writeErr: (text) => {
        said.error += text;
      },
      getOutHelpWidth: () => stdout.columns ?? HELP_COLUMNS,
      getErrHelpWidth: () => stderr.columns ?? HELP_COLUMNS,
      getOutHasColors: () => stdout.coloured,
      getErrHasColors: () => stderr.coloured,
    })
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help for a command")
    .addHelpText("after", ENVIRONMENT + EXIT_CODES)
    .showHelpAfterError("lemon: see `lemon --help`");
}
