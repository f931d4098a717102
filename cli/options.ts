/**
 * Owns what a role is started with: exact options made of flags, environment and the place where the
 * user stands. Every path in them is absolute. A flag goes before its variable.
 */
import { statSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { nodeName } from "../protocol/methods/nodes.ts";
import { port, switchedOn, variable } from "./arguments.ts";
import { controllerUrl, isReadableOnTheWay } from "./controller-url.ts";
import { type DoorFlags, type DoorOptions, doorOptions } from "./door-options.ts";
import { UsageError } from "./exit.ts";
import type { Shell } from "./shell.ts";
import { caFileOf, lemonHome, readTokenFile } from "./target.ts";

/** A NATS cluster in place of the embedded hub. What is null is refused by what needs it, with its reason. */
export interface ExternalNats {
  readonly url: string;
  /** Credentials of the controller's account. */
  readonly credsFile: string | null;
  /** Credentials of the system account: proves durability, pushes accounts. */
  readonly sysCredsFile: string | null;
  /** Seed of the operator's signing key: makes an account a node. */
  readonly operatorKeyFile: string | null;
  /** Where nodes' leafs connect. */
  readonly leafUrl: string | null;
}

/** Options of every role. */
interface RoleOptions {
  /** The state folder, `LEMON_HOME`. */
  readonly home: string;
  /** Print JSON lines instead of text. */
  readonly json: boolean;
  /** For what its own room reads: the operator's token, the loopback opt-in, `LEMON_NATS_SERVER`. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** PEM of the authorities to trust instead of the system's. */
  readonly caFile: string | null;
}

export interface StartOptions extends RoleOptions, DoorOptions {
  readonly host: string;
  /** 0 asks for a free one. */
  readonly port: number;
  /** Null: the embedded hub. */
  readonly nats: ExternalNats | null;
}

/** What a node may touch on its machine. */
interface NodePlace {
  /** Existing folder that relative paths of requests start from. */
  readonly cwd: string;
  /** Existing folders, the home directory first, then what `--allowed-root` added. */
  readonly allowedRoots: readonly string[];
}

export interface UpOptions extends StartOptions, NodePlace {}

export interface JoinOptions extends RoleOptions, NodePlace {
  /** The node's unique name. */
  readonly name: string;
  /** `ws://` or `wss://` URL of the controller's `/ws`. */
  readonly controller: string;
  /** An operator's token: pairs, or repairs. */
  readonly operatorToken: string | null;
  /** A node session token that is already there. */
  readonly token: string | null;
  /** Pair anew, whatever credentials are stored. */
  readonly pair: boolean;
  /** Recover this durable id. */
  readonly nodeId: string | null;
  /** Take an id over by the operator's authority instead of the recovery token. */
  readonly repair: boolean;
  /** The opt-in to `ws://` beyond loopback. */
  readonly allowInsecureController: boolean;
}

const DEFAULT_PORT = 4_040;
const MAX_ROOTS = 64;

interface RoleFlags {
  readonly json?: boolean;
  readonly caFile?: string;
}

interface NatsFlags {
  readonly nats?: string;
  readonly natsCreds?: string;
  readonly natsSysCreds?: string;
  readonly natsOperatorKey?: string;
  readonly natsLeafUrl?: string;
}

interface PlaceFlags {
  readonly cwd?: string;
  readonly allowedRoot?: readonly string[];
}

export interface StartFlags extends RoleFlags, NatsFlags, DoorFlags {
  readonly host?: string;
  readonly port?: string;
}

export interface UpFlags extends StartFlags, PlaceFlags {}

export interface JoinFlags extends RoleFlags, PlaceFlags {
  readonly name: string;
  readonly controller?: string;
  readonly operatorToken?: string;
  readonly operatorTokenFile?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly pair?: boolean;
  readonly nodeId?: string;
  readonly repair?: boolean;
  readonly allowInsecureController?: boolean;
}

export function startOptions(shell: Shell, flags: StartFlags): StartOptions {
  const portText = flags.port ?? variable(shell.environment, "LEMON_CONTROL_PLANE_PORT");
  const portFlag = flags.port === undefined ? "LEMON_CONTROL_PLANE_PORT" : "--port";
  return {
    ...roleOptions(shell, flags),
    host: listenHost(flags.host),
    port: portText === null ? DEFAULT_PORT : port(portFlag, portText),
    nats: externalNats(shell, flags),
    ...doorOptions(shell, flags),
  };
}

/** Blank is refused: to the system it is every address there is. */
function listenHost(given = "127.0.0.1"): string {
  if (given.trim() === "") throw new UsageError("--host wants an address");
  return given;
}

export function upOptions(shell: Shell, flags: UpFlags): UpOptions {
  return { ...startOptions(shell, flags), ...place(shell, flags, shell.cwd) };
}

export async function joinOptions(shell: Shell, flags: JoinFlags): Promise<JoinOptions> {
  const { environment } = shell;
  const name = nodeName.safeParse(flags.name);
  if (!name.success) throw new UsageError(`--name ${name.error.issues[0]?.message}`);
  const named = flags.controller ?? variable(environment, "LEMON_CONTROLLER");
  if (named === null)
    throw new UsageError("node join needs --controller URL (or LEMON_CONTROLLER)");
  const controller = controllerUrl(
    flags.controller === undefined ? "LEMON_CONTROLLER" : "--controller",
    named,
  );
  const allowInsecureController =
    flags.allowInsecureController ??
    switchedOn(environment, "LEMON_NODE_ALLOW_INSECURE_CONTROLLER");
  if (isReadableOnTheWay(controller) && !allowInsecureController)
    throw new UsageError(
      "the controller's URL is ws://, so tokens and data would cross the network readable",
      "use wss://, or pass --allow-insecure-controller on a network that is encrypted by other means",
    );

  const tokenFlags = [flags.token, flags.tokenFile].filter((flag) => flag !== undefined);
  const operatorFlags = [flags.operatorToken, flags.operatorTokenFile].filter(
    (flag) => flag !== undefined,
  );
  if (tokenFlags.length > 1 || operatorFlags.length > 1)
    throw new UsageError("a token is given once: by its flag or by its file");
  if (tokenFlags.length > 0 && (operatorFlags.length > 0 || flags.pair === true))
    throw new UsageError(
      "--token joins with a session; --operator-token and --pair make a new one",
    );

  return {
    ...roleOptions(shell, flags),
    // The variable is the launcher's word for where the user stood.
    ...place(shell, flags, variable(environment, "LEMON_NODE_LAUNCH_CWD") ?? shell.cwd),
    name: name.data,
    controller,
    operatorToken: await secret(shell, {
      given: flags.operatorToken,
      file: flags.operatorTokenFile,
      fileFlag: "--operator-token-file",
      variable: "LEMON_NODE_OPERATOR_TOKEN",
    }),
    token: await secret(shell, {
      given: flags.token,
      file: flags.tokenFile,
      fileFlag: "--token-file",
      variable: "LEMON_NODE_TOKEN",
    }),
    pair: flags.pair ?? false,
    nodeId: flags.nodeId ?? null,
    repair: flags.repair ?? false,
    allowInsecureController,
  };
}

function roleOptions(shell: Shell, flags: RoleFlags): RoleOptions {
  const ca = caFileOf(shell, flags);
  return {
    home: lemonHome(shell),
    json: flags.json ?? false,
    environment: shell.environment,
    caFile: ca === null ? null : existing(shell, ca.named, ca.path, "file"),
  };
}

function externalNats(shell: Shell, flags: NatsFlags): ExternalNats | null {
  const url = flags.nats ?? variable(shell.environment, "LEMON_NATS_URL");
  const more = ["natsCreds", "natsSysCreds", "natsOperatorKey", "natsLeafUrl"] as const;
  if (url === null) {
    const alone = more.find((flag) => flags[flag] !== undefined);
    if (alone === undefined) return null;
    throw new UsageError(`${NATS_FLAGS[alone]} has a meaning only together with --nats`);
  }
  const file = (flag: "natsCreds" | "natsSysCreds" | "natsOperatorKey"): string | null => {
    const given = flags[flag];
    return given === undefined ? null : existing(shell, NATS_FLAGS[flag], given, "file");
  };
  return {
    url,
    credsFile: file("natsCreds"),
    sysCredsFile: file("natsSysCreds"),
    operatorKeyFile: file("natsOperatorKey"),
    leafUrl: flags.natsLeafUrl ?? null,
  };
}

const NATS_FLAGS = {
  natsCreds: "--nats-creds",
  natsSysCreds: "--nats-sys-creds",
  natsOperatorKey: "--nats-operator-key",
  natsLeafUrl: "--nats-leaf-url",
} as const;

function place(shell: Shell, flags: PlaceFlags, base: string): NodePlace {
  const from = { cwd: resolve(shell.cwd, base) };
  const added = (flags.allowedRoot ?? []).map((path) =>
    existing(from, "--allowed-root", path, "folder"),
  );
  const allowedRoots = [...new Set([shell.homeDirectory, ...added])];
  if (allowedRoots.length > MAX_ROOTS)
    throw new UsageError(`at most ${MAX_ROOTS} allowed roots, the home directory included`);
  return {
    cwd:
      flags.cwd === undefined ? shell.homeDirectory : existing(from, "--cwd", flags.cwd, "folder"),
    allowedRoots,
  };
}

function existing(
  from: { readonly cwd: string },
  flag: string,
  path: string,
  kind: "file" | "folder",
): string {
  const absolute = isAbsolute(path) ? path : resolve(from.cwd, path);
  // A blank one (a variable that is not set) would resolve to wherever the user stands.
  if (path.trim() === "" || !stands(absolute, kind))
    throw new UsageError(`${flag} must name an existing ${kind}`);
  return absolute;
}

/** False also for what this account may not even look at. */
function stands(path: string, kind: "file" | "folder"): boolean {
  try {
    const stats = statSync(path);
    return kind === "file" ? stats.isFile() : stats.isDirectory();
  } catch {
    return false;
  }
}

async function secret(
  shell: Shell,
  source: {
    readonly given: string | undefined;
    readonly file: string | undefined;
    readonly fileFlag: string;
    readonly variable: string;
  },
): Promise<string | null> {
  if (source.file !== undefined) return readTokenFile(shell, source.fileFlag, source.file);
  return source.given ?? variable(shell.environment, source.variable);
}
