/**
 * Owns the words of the command line: commands, flags and their help. What a command does lies in its
 * own file, which is loaded only when it is called: `lemon version` costs neither a socket nor a schema.
 */
import { type Command, Option } from "commander";
import {
  CA_FILE,
  type CommandContext,
  EXIT_CODES,
  group,
  leaf,
  onController,
} from "./command-parts.ts";
import { addDevices } from "./device/commands.ts";
import type { DoctorFlags } from "./doctor/doctor.ts";
import { EXIT, exitCodeOf, UsageError } from "./exit.ts";
import { addFiles } from "./files/commands.ts";
import { addHost } from "./host/commands.ts";
import type { HostAgentFlags } from "./host-agent-options.ts";
import type { JoinFlags, StartFlags, UpFlags } from "./options.ts";
import type { GetFlags } from "./process/get.ts";
import { INTERRUPT_POLICIES } from "./process/interrupt.ts";
import type { RunFlags } from "./process/run.ts";
import type { Report } from "./report.ts";
import { addSecrets } from "./secrets/commands.ts";
import type { TargetFlags } from "./target.ts";
import type { TreeFlags } from "./tree/tree.ts";

export function addCommands(program: Command, context: CommandContext): void {
  addRoles(program, context);
  addHostAgent(program, context);
  const node = group(program, "node", "join machines, and look after the joined ones");
  addJoin(node, context);
  addNodes(node, context);
  addDevices(group(program, "device", "see the paired devices, and cut one off"), context);
  const summary = "run native processes on nodes, and learn what became of them";
  addProcesses(group(program, "process", summary), context);
  addFiles(group(program, "fs", "look at, copy, move and delete files on nodes"), context);
  addHost(group(program, "host", "ask the host-agent of this machine"), context);
  addSecrets(
    group(program, "secrets", "put secrets into nodes' vaults, and keep the keys"),
    context,
  );
  addOverviews(program, context);
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
    .option(
      "--tls-cert <file>",
      "serve TLS with this certificate chain (PEM); SIGHUP loads it anew",
    )
    .option("--tls-key <file>", "its private key (PEM, mode 0600)")
    .option(
      "--trusted-proxy <network>",
      "address or CIDR of a proxy whose X-Forwarded-For counts; repeatable",
      collect,
    )
    .option(
      "--allowed-origin <origin>",
      "page that may connect from a browser, besides this machine's own; repeatable",
      collect,
    )
    .option("--nats <urls>", "use this NATS system instead of the embedded server; comma-separated")
    .option("--nats-creds <file>", "credentials of the controller's account there")
    .option("--nats-sys-creds <file>", "credentials of its system account")
    .option("--nats-operator-key <file>", "seed of its operator's signing key")
    .option("--nats-leaf-url <urls>", "where nodes connect to it; comma-separated")
    .option("--ca-file <file>", `${CA_FILE}, for that NATS system`);
}

const LISTENER_ENVIRONMENT = `
Environment:
  LEMON_CONTROL_PLANE_PORT             as --port
  LEMON_TLS_CERT, LEMON_TLS_KEY        as --tls-cert and --tls-key
  LEMON_TRUSTED_PROXIES                as --trusted-proxy; comma-separated
  LEMON_ALLOWED_ORIGINS                as --allowed-origin; comma-separated
  LEMON_CONTROL_PLANE_OPERATOR_TOKEN   the operator token; without it one is kept in LEMON_HOME/run
  LEMON_NATS_URL                       as --nats
  LEMON_NATS_SERVER                    absolute path of the nats-server to run
`;

function addRoles(program: Command, { shell, report, finish }: CommandContext): void {
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

function addHostAgent(program: Command, { shell, report, finish }: CommandContext): void {
  leaf(program, "host-agent", "serve a host to its brain on a UNIX socket, in the foreground")
    .option("--socket <path>", "socket to serve (default: /var/run/malmo/agent.sock)")
    .option("--group <name>", "group that may connect (default: malmo)")
    .option("--strict-group", "refuse to start unless that group has exactly one member")
    .option(
      "--store-account <name>",
      "account that root runs nats-server as (default: malmo-store)",
    )
    .option("--fake", "serve a host that only pretends: nothing of this machine is changed")
    .option("--state <file>", "where the fake keeps its accounts and network; made when missing")
    .option("--fake-job-ms <ms>", "how long the fake's jobs take (default: 2000)")
    .addHelpText(
      "after",
      `
Environment:
  MALMO_AGENT_SOCK     as --socket
  MALMO_STATE_DIR      folder of the fake's state, without --state
  MALMO_FAKE_NO_GPU    1: the fake has no GPU
  MALMO_HEALTH_PATH    file of the boot reporter that the fake's health reads
  LEMON_HOME           state folder (root, of a real host: /var/lib/malmo/agent)
  LEMON_NATS_SERVER    absolute path of the nats-server to run
`,
    )
    .action(async (flags: HostAgentFlags) => {
      const { hostAgentOptions } = await import("./host-agent-options.ts");
      const options = hostAgentOptions(shell, flags, process.geteuid?.() === 0);
      const { runHostAgent } = await import("./roles/host-agent.ts");
      finish(await role(report, EXIT.failure, () => runHostAgent(options)));
    });
}

function addJoin(node: Command, { shell, report, finish }: CommandContext): void {
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
    .option("--ca-file <file>", CA_FILE)
    .addHelpText(
      "after",
      `
Environment:
  LEMON_CONTROLLER                       as --controller
  LEMON_NODE_OPERATOR_TOKEN              as --operator-token
  LEMON_NODE_TOKEN                       as --token
  LEMON_CA_FILE                          as --ca-file
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

function addNodes(node: Command, { shell, report, finish }: CommandContext): void {
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

function addProcesses(parent: Command, { shell, report, remote, finish }: CommandContext): void {
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
        .choices(INTERRUPT_POLICIES)
        .default("ask"),
    )
    .addHelpText(
      "after",
      `
The remote stdout, stderr and exit code are passed through. The command is run once: a lost answer is
settled by reading its receipt, never by sending it again.

Examples:
  lemon process run worker-1 -- uname -a
  lemon process run worker-1 --id backup:2026-12-01 --timeout 10m -- /srv/project/backup --full
  echo hello | lemon process run worker-1 --stdin - -- tr a-z A-Z
${EXIT_CODES}`,
    )
    .action(async (selector: string, flags: RunFlags) => {
      const { processRun } = await import("./process/run.ts");
      finish(await processRun(shell, report, flags, selector, remote));
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

function addOverviews(program: Command, { shell, report, finish }: CommandContext): void {
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
    .option(
      "--allowed-root <dir>",
      "look for interrupted file work there, too, besides the home directory; repeatable",
      collect,
    )
    .action(async (flags: DoctorFlags) => {
      const { doctor } = await import("./doctor/doctor.ts");
      finish(await doctor(shell, report, flags));
    });

  leaf(program, "version", "print the version").action(async () => {
    const { version } = await import("./version.ts");
    finish(await version(report));
  });
}
