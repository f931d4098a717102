/** Owns the words of `lemon host`: its commands and their help. */
import type { Command } from "commander";
import { type CommandContext, leaf } from "../command-parts.ts";
import type { CurlFlags } from "./curl.ts";
import type { FollowFlags } from "./job.ts";
import type { HostFlags } from "./socket.ts";

export function addHost(parent: Command, { shell, report, finish }: CommandContext): void {
  onSocket(leaf(parent, "status", "show the host's name, age, version and disks")).action(
    async (flags: HostFlags) => {
      const { hostStatus } = await import("./status.ts");
      finish(await hostStatus(shell, report, flags));
    },
  );

  onSocket(leaf(parent, "jobs", "list the jobs that the host-agent knows")).action(
    async (flags: HostFlags) => {
      const { hostJobs } = await import("./jobs.ts");
      finish(await hostJobs(shell, report, flags));
    },
  );

  onSocket(leaf(parent, "job", "show a job"))
    .argument("<id>", "job id")
    .option("--follow", "its output, what is kept of it and then live, until it ends")
    .addHelpText(
      "after",
      `
With --follow and --json each line of stdout is one JSON document: a frame of the log, and the job at last.

Exit codes: 0 it completed or has not ended, 1 it failed, 122 no such job, 125 its outcome is unknown or it was
stopped as stalled, 126 it was cancelled.
`,
    )
    .action(async (id: string, flags: FollowFlags) => {
      const { hostJob } = await import("./job.ts");
      finish(await hostJob(shell, report, flags, id));
    });

  onSocket(leaf(parent, "cancel", "ask a job to stop"))
    .argument("<id>", "job id")
    .action(async (id: string, flags: HostFlags) => {
      const { hostCancel } = await import("./cancel.ts");
      finish(await hostCancel(shell, report, flags, id));
    });

  onSocket(leaf(parent, "logs", "follow the output of a container, until Ctrl-C"))
    .argument("<container>", "its name")
    .addHelpText("after", "\nWith --json each line of stdout is one JSON document.\n")
    .action(async (container: string, flags: HostFlags) => {
      const { hostLogs } = await import("./logs.ts");
      finish(await hostLogs(shell, report, flags, container));
    });

  onSocket(leaf(parent, "curl", "send one request as it is, and print the answer as it comes"))
    .argument("<path>", "as /v1/system/status")
    .option("-X, --method <method>", "default: GET, or POST with --data")
    .option("-d, --data <text>", "body; - takes ours from stdin. Visible in ps to others")
    .addHelpText(
      "after",
      `
The same with curl: curl --unix-socket /var/run/malmo/agent.sock http://localhost/v1/system/status

Exit codes: 0 for an answer of success, else that of its status; the answer is printed all the same.
`,
    )
    .action(async (path: string, flags: CurlFlags) => {
      const { hostCurl } = await import("./curl.ts");
      finish(await hostCurl(shell, report, flags, path));
    });
}

function onSocket(command: Command): Command {
  return command.option(
    "--socket <path>",
    "the host-agent's socket (default: MALMO_AGENT_SOCK, else /var/run/malmo/agent.sock)",
  );
}
