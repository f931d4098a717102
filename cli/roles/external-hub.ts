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
import { type SystemApi, systemApi } from "../../transport/link/system-api.ts";
import { refuseOldServers } from "../../transport/link/vetting.ts";
import { leafUrls, natsSystem } from "../../transport/nats-address.ts";
import { isNewEnough } from "../../transport/nats-server/version.ts";
import { handedFiles, openness } from "../handed-files.ts";
import type { ExternalNats } from "../options.ts";
import type { RoleContext } from "./context.ts";
import {
  authorityOf,
  type HandedKeys,
  notGiven,
  openHandedKeys,
  sentence,
  serverOf,
  vet,
} from "./external-vetting.ts";
import type { ControllerFolders } from "./home.ts";
import { type Hub, type HubEvents, openHubParts } from "./hub.ts";

/** What the controller's own connection is called; nobody else's in its account should be. */
const CONTROLLER = "controller";

export interface ExternalHubOptions {
  readonly nats: ExternalNats;
  /** PEM of the authorities to trust instead of the system's. */
  readonly caFile: string | null;
  readonly folders: ControllerFolders;
  readonly events: HubEvents;
}

/** Errors: one line each that names the flag (`invalid_request`, `unavailable`, `nats_server_too_old`, …). */
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
  const keys = openHandedKeys(nats, context.clock.nowMs());
  for (const file of handedFiles(nats)) {
    const open = await openness(file);
    if (open !== null) context.say(`warning: ${open}; chmod 600 it`);
  }

  const open = async (name: string, as: ConnectAs, flag: string): Promise<NatsConnection> => {
    const connection = await connect(remote, name, as, flag);
    stack.defer(() => connection.close());
    return connection;
  };
  const controller = await open(CONTROLLER, keys.controller ?? "nobody", "--nats-creds");
  refuseOldServers([serverOf(controller)]);
  const system =
    keys.system === null ? null : await open("controller-system", keys.system, "--nats-sys-creds");
  const api = system === null ? null : systemApi(system);
  const { accountLacks, nodeLacks, leafLacks, replicas } = await answered(() =>
    vet(controller, api, keys, context.clock),
  );
  const localLacks = [...accountLacks, ...nodeLacks];
  const joinLacks = [
    ...localLacks,
    ...leafLacks,
    ...(leafs === null ? [notGiven("--nats-leaf-url")] : []),
  ];
  const accounts = {
    authority: authorityOf(keys.signer, accountLacks),
    // Accounts of another system, or of the embedded hub, are none of this one's business.
    recordsFolder: join(folders.external, keys.controller?.account ?? "nobody", "accounts"),
    keepsStores: false,
  };
  const parts = stack.use(
    await answered(() => openHubParts({ controller, system }, accounts, events, context)),
  );
  if (remote.system.readable && controller.info?.tls_required !== true) {
    context.say("What passes between the controller and NATS can be read on the way: use tls://");
  }
  if (await answered(() => isContested(api, keys))) {
    context.say(
      "Another controller is connected to the same NATS account: they take each other's nodes",
    );
  }
  void follow(controller, context);

  const owned = stack.move();
  return {
    controller,
    system,
    link: parts.link,
    caller: parts.caller,
    own: null,
    leafUrl: leafs?.urls.join(",") ?? null,
    replicas,
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
    const message = {
      credentials:
        as === "nobody"
          ? `The NATS system wants credentials; give them with ${flag}`
          : `The NATS system refuses the credentials of ${flag}`,
      tls: "TLS with the NATS system fails; --ca-file names the authorities to trust instead of the machine's",
      no_answer: "No NATS server answers where --nats says",
    }[connectRefusal(failure)];
    throw new LemonError("unavailable", { message, cause: failure });
  }
}

/** What is asked through the system account, with the flag to look at when nobody answers. */
async function answered<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (failure) {
    if (!(failure instanceof LemonError) || failure.code !== "unavailable") throw failure;
    throw new LemonError("unavailable", {
      message:
        "The NATS servers do not answer what the user of --nats-sys-creds has to ask of them",
      cause: failure,
    });
  }
}

async function isContested(api: SystemApi | null, { controller }: HandedKeys): Promise<boolean> {
  if (api === null || controller === null) return false;
  const connected = await api.connections(controller.account);
  return connected.filter(({ name }) => name === CONTROLLER).length > 1;
}

/** What the system does to the controller's connection later on. */
async function follow(connection: NatsConnection, { log }: RoleContext): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === "error") {
      log.warn({ error: status.error.name }, "NATS refused something to the controller");
    } else if (status.type === "reconnect") {
      const { name, version } = serverOf(connection);
      const level = isNewEnough(version) ? "info" : "error";
      log[level]({ server: name, version }, "the controller is connected to NATS again");
    }
  }
}
