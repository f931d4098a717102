/**
 * Owns the hub that is somebody else's NATS system: how the controller reaches it, what it is allowed
 * there, and what it refuses for want of more.
 *
 * 1. What is given has to be right: a wrong address, refused credentials, a foreign operator's key or a
 *    server that is too old end the start, in one line.
 * 2. What is not given, and what the system lacks for nodes, is said at the start; the controller serves
 *    without it and refuses joins, saying the same.
 * 3. Nothing of the system is changed but the accounts that are made for nodes.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { NatsConnection } from "@nats-io/transport-node";
import { LemonError } from "../../protocol/errors.ts";
import {
  type ConnectAs,
  connectRefusal,
  openConnection,
  type RemoteSystem,
} from "../../transport/connection.ts";
import type { AccountSigner } from "../../transport/keys/authority.ts";
import {
  type HandedCredentials,
  openCredentials,
  openOperatorKey,
} from "../../transport/keys/handed-keys.ts";
import type { NoAuthority } from "../../transport/link/accounts.ts";
import { type SystemApi, type SystemServer, systemApi } from "../../transport/link/system-api.ts";
import {
  lacksOfAccount,
  lacksOfAuthority,
  lacksOfServers,
  refuseOldServers,
  systemServers,
} from "../../transport/link/vetting.ts";
import { leafUrls, natsSystem } from "../../transport/nats-address.ts";
import type { ExternalNats } from "../options.ts";
import type { RoleContext } from "./context.ts";
import type { ControllerFolders } from "./home.ts";
import { type Hub, type HubEvents, openHubParts } from "./hub.ts";

/** Copies of what a controller must not lose: one server may be lost. */
const WANTED_REPLICAS = 3;

export interface ExternalHubOptions {
  readonly nats: ExternalNats;
  /** PEM of the authorities to trust instead of the system's. */
  readonly caFile: string | null;
  readonly folders: ControllerFolders;
  readonly events: HubEvents;
}

/** Errors: `invalid_request`, `unavailable`, `nats_server_too_old`; each one line that names the flag. */
export async function openExternalHub(
  options: ExternalHubOptions,
  context: RoleContext,
): Promise<Hub> {
  const { nats, caFile, folders, events } = options;
  await using stack = new AsyncDisposableStack();
  const remote: RemoteSystem = {
    system: natsSystem("--nats", nats.url),
    ca: caFile === null ? null : await readFile(caFile, "utf8"),
  };
  const leafs = nats.leafUrl === null ? null : leafUrls("--nats-leaf-url", nats.leafUrl);
  const keys = openKeys(nats, context.clock.nowMs());

  const open = async (name: string, as: ConnectAs, flag: string): Promise<NatsConnection> => {
    const connection = await connect(remote, name, as, flag);
    stack.defer(() => connection.close());
    return connection;
  };
  const controller = await open("controller", keys.controller ?? "nobody", "--nats-creds");
  refuseOldServers([serverOf(controller)]);
  const system =
    keys.system === null ? null : await open("controller-system", keys.system, "--nats-sys-creds");
  const vetted = await vet(controller, system === null ? null : systemApi(system), keys);
  void followServers(controller, context);
  if (remote.system.readable && controller.info?.tls_required !== true) {
    context.say("what passes between the controller and NATS can be read on the way: use tls://");
  }

  const { accountLacks, nodeLacks } = vetted;
  const localLacks = [...accountLacks, ...nodeLacks];
  const joinLacks = [...localLacks, ...(leafs === null ? [notGiven("--nats-leaf-url")] : [])];
  const account = keys.controller?.account ?? "nobody";
  const parts = stack.use(
    await openHubParts(
      { controller, system },
      {
        authority: authorityOf(keys.signer, accountLacks),
        // Accounts of another system, or of the embedded hub, are none of this one's business.
        recordsFolder: join(folders.external, account, "accounts"),
        keepsStores: false,
      },
      events,
      context,
    ),
  );

  const owned = stack.move();
  return {
    controller,
    link: parts.link,
    caller: parts.caller,
    own: null,
    leafUrl: leafs?.urls.join(",") ?? null,
    replicas: vetted.replicas,
    joinsRefused: sentence("No node can join this controller", joinLacks),
    localNodeRefused: sentence("There is no local node", localLacks),
    connectAs: (name, as, inboxPrefix) =>
      openConnection({
        url: remote,
        name,
        as,
        ...(inboxPrefix === undefined ? {} : { inboxPrefix }),
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Keys {
  readonly controller: HandedCredentials | null;
  readonly system: HandedCredentials | null;
  readonly signer: AccountSigner | null;
  /** What of the keys was not given. */
  readonly missing: readonly string[];
}

function openKeys(nats: ExternalNats, nowMs: number): Keys {
  const credentials = (path: string | null, name: string) =>
    path === null ? null : openCredentials({ path, name }, nowMs);
  const controller = credentials(nats.credsFile, "--nats-creds");
  const { operatorKeyFile: path, sysCredsFile } = nats;
  return {
    controller,
    system: credentials(sysCredsFile, "--nats-sys-creds"),
    // Without an account of ours there is none that a node's could import from.
    signer:
      path === null
        ? null
        : openOperatorKey({ path, name: "--nats-operator-key" }, controller?.account ?? ""),
    missing: [
      ...(nats.credsFile === null ? [notGiven("--nats-creds")] : []),
      ...(sysCredsFile === null ? [notGiven("--nats-sys-creds")] : []),
      ...(path === null ? [notGiven("--nats-operator-key")] : []),
    ],
  };
}

interface Vetted {
  /** What is missing for accounts to be made. */
  readonly accountLacks: readonly string[];
  /** What is missing for a node to be linked, given an account. */
  readonly nodeLacks: readonly string[];
  readonly replicas: number;
}

async function vet(controller: NatsConnection, api: SystemApi | null, keys: Keys): Promise<Vetted> {
  const { missing, signer } = keys;
  if (api === null) {
    const servers = [serverOf(controller)];
    return {
      accountLacks: missing,
      nodeLacks: lacksOfServers(servers),
      replicas: replicasOn(servers),
    };
  }
  const servers = await systemServers(api, "--nats-sys-creds");
  refuseOldServers(servers);
  const ofAuthority =
    signer === null ? [] : await lacksOfAuthority(api, signer, "--nats-operator-key");
  const ofAccount =
    keys.controller === null ? [] : await lacksOfAccount(api, keys.controller.account);
  return {
    accountLacks: [...missing, ...ofAuthority],
    nodeLacks: [...ofAccount, ...lacksOfServers(servers)],
    replicas: replicasOn(servers),
  };
}

function authorityOf(
  signer: AccountSigner | null,
  lacks: readonly string[],
): AccountSigner | NoAuthority {
  const missing = sentence("No account can be changed on this NATS system", lacks);
  if (missing !== null) return { missing };
  if (signer === null) throw new LemonError("internal_error");
  return signer;
}

async function connect(
  url: RemoteSystem,
  name: string,
  as: ConnectAs,
  flag: string,
): Promise<NatsConnection> {
  try {
    return await openConnection({ url, name, as });
  } catch (failure) {
    if (!(failure instanceof LemonError)) throw failure;
    const refusal = connectRefusal(failure);
    const credentials =
      as === "nobody"
        ? `The NATS system wants credentials; give them with ${flag}`
        : `The NATS system refuses the credentials of ${flag}`;
    const message = {
      credentials,
      tls: "TLS with the NATS system fails; --ca-file names the authorities to trust instead of the machine's",
      no_answer: "No NATS server answers where --nats says",
    }[refusal];
    throw new LemonError("unavailable", { message, cause: failure });
  }
}

/** The server that answers, as it describes itself to everybody. */
function serverOf({ info }: NatsConnection): SystemServer {
  return {
    name: info?.server_name ?? "",
    version: info?.version ?? "",
    maxPayloadBytes: info?.max_payload ?? 0,
    // As many as it names; that they all have JetStream is likely, not known.
    jetStreamPeers: info?.cluster === undefined ? 1 : (info.connect_urls?.length ?? 1),
  };
}

function replicasOn(servers: readonly SystemServer[]): number {
  const peers = Math.max(...servers.map(({ jetStreamPeers }) => jetStreamPeers));
  return Math.min(WANTED_REPLICAS, peers);
}

/** What the system does to the controller's connection later on. */
async function followServers(connection: NatsConnection, { log }: RoleContext): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === "error") {
      log.warn({ error: status.error.name }, "NATS refused something to the controller");
    } else if (status.type === "reconnect") {
      const { name, version } = serverOf(connection);
      log.info({ server: name, version }, "the controller is connected to NATS again");
    }
  }
}

function notGiven(flag: string): string {
  return `${flag} is not given`;
}

function sentence(what: string, lacks: readonly string[]): string | null {
  return lacks.length === 0 ? null : `${what}: ${lacks.join("; ")}`;
}
