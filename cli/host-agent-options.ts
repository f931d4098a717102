/** Owns what `lemon host-agent` is started with: exact options made of flags, environment and who starts it. */
import { join, resolve } from "node:path";
import { durationMs, variable } from "./arguments.ts";
import { UsageError } from "./exit.ts";
import type { Shell } from "./shell.ts";
import { lemonHome } from "./target.ts";

export interface HostAgentOptions {
  /** The state folder, `LEMON_HOME`. */
  readonly home: string;
  readonly json: boolean;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Absolute. */
  readonly socket: string;
  readonly group: string;
  /** The group was asked for by name: without it there is no start, also of a fake. */
  readonly groupIsChosen: boolean;
  /** Another number of members of the group than one is no start. */
  readonly strictGroup: boolean;
  /** Whom nats-server runs as, when root starts it. */
  readonly storeAccount: string;
  readonly storeAccountIsChosen: boolean;
  /** Null: the real machine. */
  readonly fake: FakeOptions | null;
}

export interface FakeOptions {
  /** Where accounts, network and settings are kept; null keeps them in memory. */
  readonly stateFile: string | null;
  /** How long a job's work takes, in ms. */
  readonly jobMs: number | null;
  readonly gpu: boolean;
  /** The boot reporter's file behind the storage category. */
  readonly storageReport: string | null;
}

export interface HostAgentFlags {
  readonly json?: boolean;
  readonly socket?: string;
  readonly group?: string;
  readonly strictGroup?: boolean;
  readonly storeAccount?: string;
  readonly fake?: boolean;
  readonly state?: string;
  readonly fakeJobMs?: string;
}

const SOCKET = "/var/run/malmo/agent.sock";
const GROUP = "malmo";
const STORE_ACCOUNT = "malmo-store";
const ROOTS_HOME = "/var/lib/malmo/agent";

/** `isRoot`: whether this account may make the default places. Errors: `UsageError`. */
export function hostAgentOptions(
  shell: Shell,
  flags: HostAgentFlags,
  isRoot: boolean,
): HostAgentOptions {
  const { environment } = shell;
  const named = flags.socket ?? variable(environment, "MALMO_AGENT_SOCK");
  if (named === null && !isRoot) {
    throw new UsageError(`only root can serve ${SOCKET}`, "name another place with --socket");
  }
  const fake = flags.fake === true;
  if (!fake && (flags.state !== undefined || flags.fakeJobMs !== undefined)) {
    throw new UsageError("--state and --fake-job-ms have a meaning only together with --fake");
  }
  if (flags.storeAccount !== undefined && !isRoot) {
    throw new UsageError("only root can run nats-server as another account (--store-account)");
  }
  const atHome = variable(environment, "LEMON_HOME") !== null || !isRoot || fake;
  return {
    home: atHome ? lemonHome(shell) : ROOTS_HOME,
    json: flags.json ?? false,
    environment,
    socket: resolve(shell.cwd, named ?? SOCKET),
    group: flags.group ?? GROUP,
    groupIsChosen: flags.group !== undefined,
    strictGroup: flags.strictGroup ?? false,
    storeAccount: flags.storeAccount ?? STORE_ACCOUNT,
    storeAccountIsChosen: flags.storeAccount !== undefined,
    fake: fake ? fakeOptions(shell, flags) : null,
  };
}

function fakeOptions({ cwd, environment }: Shell, flags: HostAgentFlags): FakeOptions {
  const folder = variable(environment, "MALMO_STATE_DIR");
  const state = flags.state ?? (folder === null ? null : join(folder, "fake-host.json"));
  const report = variable(environment, "MALMO_HEALTH_PATH");
  return {
    stateFile: state === null ? null : resolve(cwd, state),
    jobMs: flags.fakeJobMs === undefined ? null : milliseconds(flags.fakeJobMs),
    gpu: variable(environment, "MALMO_FAKE_NO_GPU") !== "1",
    storageReport: report === null ? null : resolve(cwd, report),
  };
}

/** The flag's name says the unit. */
function milliseconds(text: string): number {
  return durationMs("--fake-job-ms", /^\d+$/.test(text) ? `${text}ms` : text);
}
