/**
 * Owns the words of the command line: commands, flags, help, and what a wrong word is answered with.
 * What a command does lies in its own file, which is loaded only when it is called: `lemon version`
 * costs neither a socket nor a schema.
 */
import { Command, CommanderError, Option } from "commander";
import { LEMON_VERSION } from "../protocol/version.ts";
import { EXIT, exitCodeOf, UsageError } from "./exit.ts";
import type { JoinFlags, StartFlags, UpFlags } from "./options.ts";
import type { GetFlags } from "./process/get.ts";
import type { RunFlags } from "./process/run.ts";
import { Report } from "./report.ts";
import type { Shell } from "./shell.ts";
import type { TargetFlags } from "./target.ts";
import type { TreeFlags } from "./tree/tree.ts";

/** Runs one command line; answers its exit code. Never rejects. */
export async function lemon(words: readonly string[], shell: Shell): Promise<number> {
  const line = readLine(words);
  const report = new Report(shell, line.json);
  const said: Said = { out: "", error: "" };
  let exitCode: number = EXIT.ok;
  const program = build(shell, report, line, said, (code) => {
    exitCode = code;
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

const EXIT_CODES = `
Exit codes:
  0    done
  1    failed in another way
  2    the command line is wrong; nothing was sent
  121  refused; nothing happened
  122  not found
  123  conflict with what is already so
  125  the outcome is unknown; the command that asks again is printed
  126  cancelled, and no exit was observed
  process run otherwise ends with the remote exit code; --json tells them apart.
`;

const ENVIRONMENT = `
Environment:
  LEMON_HOME          state folder (default ~/.lemon)
  LEMON_CONTROLLER    URL of the controller, as --controller
  LEMON_WS_TOKEN      operator token, as --operator-token but not visible to others
`;

function build(shell: Shell, report: Report, line: Line, said: Said, finish: Finish): Command {
  const program = new Command("lemon")
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
    })
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help for a command")
    .addHelpText("after", ENVIRONMENT + EXIT_CODES);

  /** A command that does something; its help is one line away from every mistake. */
  const leaf = (parent: Command, words: string, description: string): Command => {
    const command = parent.command(words).description(description).allowExcessArguments(false);
    const path = [...(parent === program ? [] : [parent.name()]), command.name()].join(" ");
    return command
      .option("--json", "print exactly one JSON document on stdout")
      .showHelpAfterError(`lemon: see \`lemon ${path} --help\``);
  };
  const group = (words: string, description: string): Command =>
    program
      .command(words)
      .description(description)
      .helpCommand(false)
      .showHelpAfterError(`lemon: see \`lemon ${words} --help\``);
  program.showHelpAfterError("lemon: see `lemon --help`");

  addRoles(program, shell, report, leaf, finish);
  const node = group("node", "join machines, and look after the joined ones");
  addJoin(node, shell, report, leaf, finish);
  addNodes(node, shell, report, leaf, finish);
  const run = group("process", "run native processes on nodes, and learn what became of them");
  addProcesses(run, shell, report, line, leaf, finish);
  addOverviews(program, shell, report, leaf, finish);
  return program;
}

type Leaf = (parent: Command, words: string, description: string) => Command;
type Finish = (exitCode: number) => void;

function onController(command: Command): Command {
  return command
    .option("--controller <url>", "the controller (default: the one that runs here)")
    .option("--operator-token <token>", "visible in ps to others: prefer LEMON_WS_TOKEN or a file")
    .option("--operator-token-file <file>", "file that holds the operator token")
    .option("--ca-file <file>", "PEM of the authorities to trust instead of the system's");
}

const collect = (value: string, before: readonly string[] = []): string[] => [...before, value];

function place(command: Command): Command {
  return command
    .option("--cwd <dir>", "where relative paths of requests start (default: the home directory)")
    .option(
      "--allowed-root <dir>",
      "folder that requests may use besides the home directory; repeatable",
      collect,
    );
}

function listener(command: Command): Command {
  return command
    .option("--port <port>", "port to listen on; 0 takes a free one (default: 4040)")
    .option("--host <address>", "address to listen on (default: 127.0.0.1)")
    .option("--nats <url>", "use this NATS cluster instead of the embedded server")
    .option("--nats-creds <file>", "credentials of the controller's account there")
    .option("--nats-sys-creds <file>", "credentials of its system account")
    .option("--nats-operator-key <file>", "seed of its operator's signing key")
    .option("--nats-leaf-url <url>", "where nodes connect to it")
    .option("--ca-file <file>", "PEM of the authorities to trust instead of the system's");
}

const LISTENER_ENVIRONMENT = `
Environment:
  LEMON_CONTROL_PLANE_PORT             as --port
  LEMON_CONTROL_PLANE_OPERATOR_TOKEN   the operator token; without it one is kept in LEMON_HOME/run
  LEMON_NATS_URL                       as --nats
  LEMON_NATS_SERVER                    absolute path of the nats-server to run
`;

function addRoles(
  program: Command,
  shell: Shell,
  report: Report,
  leaf: Leaf,
  finish: Finish,
): void {
  place(
    listener(leaf(program, "up", "start a controller with a node of its own, in the foreground")),
  )
    .addHelpText("after", LISTENER_ENVIRONMENT)
    .action(async (flags: UpFlags) => {
      const { upOptions } = await import("./options.ts");
      const options = upOptions(shell, flags);
      const { runUp } = await import("./roles/up.ts");
      finish(await role(report, EXIT.failure, () => runUp(options)));
    });

  listener(leaf(program, "start", "start a controller alone, in the foreground"))
    .addHelpText("after", LISTENER_ENVIRONMENT)
    .action(async (flags: StartFlags) => {
      const { startOptions } = await import("./options.ts");
      const options = startOptions(shell, flags);
      const { runStart } = await import("./roles/start.ts");
      finish(await role(report, EXIT.failure, () => runStart(options)));
    });
}

function addJoin(node: Command, shell: Shell, report: Report, leaf: Leaf, finish: Finish): void {
  place(leaf(node, "join", "make this machine a node and serve until stopped"))
    .requiredOption("--name <name>", "the node's unique name")
    .option("--controller <url>", "wss:// URL of the controller (ws:// on loopback)")
    .option("--operator-token <token>", "visible in ps to others: prefer the variable or a file")
    .option("--operator-token-file <file>", "file that holds the operator token")
    .option("--token <token>", "a node session token; visible in ps to others")
    .option("--token-file <file>", "file that holds a node session token")
    .option("--pair", "pair anew, whatever credentials are stored")
    .option("--node-id <id>", "recover this durable id")
    .option("--repair", "recover it by the operator's authority")
    .option("--allow-insecure-controller", "accept ws:// beyond loopback")
    .option("--ca-file <file>", "PEM of the authorities to trust instead of the system's")
    .addHelpText(
      "after",
      `
Environment:
  LEMON_CONTROLLER                       as --controller
  LEMON_NODE_OPERATOR_TOKEN              as --operator-token
  LEMON_NODE_TOKEN                       as --token
  LEMON_NODE_ALLOW_INSECURE_CONTROLLER   true: as the flag
  LEMON_NODE_LAUNCH_CWD                  where relative --cwd and --allowed-root start

Exit codes:
  0  stopped in order
  2  the command line is wrong, or the join was refused
  4  a newer worker serves this node now
`,
    )
    .action(async (flags: JoinFlags) => {
      const { joinOptions } = await import("./options.ts");
      const options = await joinOptions(shell, flags);
      const { runJoin } = await import("./roles/join.ts");
      finish(await role(report, EXIT.usage, () => runJoin(options)));
    });
}

/** A role that could not start is told in one line. */
async function role(report: Report, failure: number, run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    await report.failure(error);
    return error instanceof UsageError ? exitCodeOf(error) : failure;
  }
}

function addNodes(node: Command, shell: Shell, report: Report, leaf: Leaf, finish: Finish): void {
  onController(leaf(node, "list", "list the enrolled nodes")).action(async (flags: TargetFlags) => {
    const { nodeList } = await import("./node/list.ts");
    finish(await nodeList(shell, report, flags));
  });

  onController(leaf(node, "show", "show one node, its machine and its spent process ids"))
    .argument("<node>", "name or durable id")
    .action(async (selector: string, flags: TargetFlags) => {
      const { nodeShow } = await import("./node/show.ts");
      finish(await nodeShow(shell, report, flags, selector));
    });

  onController(leaf(node, "rename", "give a node another unique name; its id stays"))
    .argument("<node>", "name or durable id")
    .argument("<name>", "the new name")
    .action(async (selector: string, name: string, flags: TargetFlags) => {
      const { nodeChange } = await import("./node/change.ts");
      finish(await nodeChange(shell, report, flags, selector, { kind: "rename", name }));
    });

  onController(leaf(node, "revoke", "cut a node off at once; it may be joined again with --repair"))
    .argument("<node>", "name or durable id")
    .action(async (selector: string, flags: TargetFlags) => {
      const { nodeChange } = await import("./node/change.ts");
      finish(await nodeChange(shell, report, flags, selector, { kind: "revoke" }));
    });

  onController(leaf(node, "remove", "revoke a node and forget it; its name is free again"))
    .argument("<node>", "name or durable id")
    .action(async (selector: string, flags: TargetFlags) => {
      const { nodeChange } = await import("./node/change.ts");
      finish(await nodeChange(shell, report, flags, selector, { kind: "remove" }));
    });
}

function addProcesses(
  parent: Command,
  shell: Shell,
  report: Report,
  line: Line,
  leaf: Leaf,
  finish: Finish,
): void {
  onController(leaf(parent, "run", "run a literal command on a node, once"))
    .usage("[options] <node> -- <command> [arguments...]")
    .argument("<node>", "name or durable id")
    .option(
      "--id <id>",
      "process id of your own, spent for ever by its first use (default: a new one)",
    )
    .option("--cwd <dir>", "working directory on the node (default: .)")
    .option("--timeout <duration>", "1s to 30m; in ms, s or m (default: 60s)")
    .option("--max-output <size>", "bound of stdout and stderr together (default: 1MiB)")
    .option("--stdin <file>", "bytes for its standard input; - takes ours (default: none)")
    .addOption(
      new Option("--on-interrupt <what>", "what Ctrl-C does; without a terminal ask means detach")
        .choices(["ask", "cancel", "detach"])
        .default("ask"),
    )
    .addHelpText(
      "after",
      `
The remote stdout, stderr and exit code are passed through. The command is run once: a lost answer is
settled by reading its receipt, never by sending it again.

Examples:
  lemon process run worker-1 -- uname -a
  lemon process run worker-1 --id backup:2026-12-01 --timeout 10m -- ./backup --full
  echo hello | lemon process run worker-1 --stdin - -- tr a-z A-Z
${EXIT_CODES}`,
    )
    .action(async (selector: string, flags: RunFlags) => {
      const { processRun } = await import("./process/run.ts");
      finish(await processRun(shell, report, flags, selector, line.remote ?? []));
    });

  onController(leaf(parent, "get", "show the receipt of a process id; never starts anything"))
    .argument("<node>", "name or durable id")
    .argument("<id>", "process id")
    .option("--output", "pass the captured bytes and the exit code through instead")
    .addHelpText(
      "after",
      `
Exit codes: 0 it completed or runs, 122 no such receipt, 125 its outcome is unknown, 126 it was
cancelled and no exit was observed. With --output: those of \`process run\`.
`,
    )
    .action(async (selector: string, id: string, flags: GetFlags) => {
      const { processGet } = await import("./process/get.ts");
      finish(await processGet(shell, report, flags, selector, id));
    });

  onController(leaf(parent, "cancel", "cancel a run, or make sure that an unused id never starts"))
    .argument("<node>", "name or durable id")
    .argument("<id>", "process id")
    .action(async (selector: string, id: string, flags: TargetFlags) => {
      const { processCancel } = await import("./process/cancel.ts");
      finish(await processCancel(shell, report, flags, selector, id));
    });
}

function addOverviews(
  program: Command,
  shell: Shell,
  report: Report,
  leaf: Leaf,
  finish: Finish,
): void {
  onController(leaf(program, "status", "show what the controller says of itself")).action(
    async (flags: TargetFlags) => {
      const { status } = await import("./status.ts");
      finish(await status(shell, report, flags));
    },
  );

  onController(leaf(program, "tree", "show the live supervision trees"))
    .option("--node <node>", "only this node's (default: the controller's and every online node's)")
    .option("--watch", "draw it again every two seconds, until Ctrl-C")
    .action(async (flags: TreeFlags) => {
      const { tree } = await import("./tree/tree.ts");
      finish(await tree(shell, report, flags));
    });

  onController(
    leaf(program, "doctor", "check what a broken set-up would have, and say how to mend it"),
  )
    .addHelpText(
      "after",
      "\nExit codes: 0 nothing failed (warnings may stand), 1 a check failed.\n",
    )
    .action(async (flags: TargetFlags) => {
      const { doctor } = await import("./doctor/doctor.ts");
      finish(await doctor(shell, report, flags));
    });

  leaf(program, "version", "print the version").action(async () => {
    const { version } = await import("./version.ts");
    finish(await version(report));
  });
}
