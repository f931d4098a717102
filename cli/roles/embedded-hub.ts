/** Owns the hub that is a child of the controller: its server, and the connections to it. */
import type { NatsConnection } from "@nats-io/transport-node";
import type { SupervisorRef } from "../../supervision/actor.ts";
import { openConnection } from "../../transport/connection.ts";
import { type Credentials, openAuthority } from "../../transport/keys/authority.ts";
import { natsServerActor } from "../../transport/nats-server/child-actor.ts";
import { hubConfig } from "../../transport/nats-server/config.ts";
import type { NatsServerBinary } from "../../transport/nats-server/server.ts";
import type { RoleContext } from "./context.ts";
import type { ControllerFolders } from "./home.ts";
import { type Hub, type HubEvents, openHubParts } from "./hub.ts";

const CURRENT = { deadlineMs: 5_000 } as const;

export interface EmbeddedHubOptions {
  readonly binary: NatsServerBinary;
  readonly folders: ControllerFolders;
  /** The server's supervisor: it is its first child. */
  readonly supervisor: SupervisorRef;
  readonly events: HubEvents;
}

/** Errors: those of the keys, of the server's start and of the first connections. */
export async function openEmbeddedHub(
  options: EmbeddedHubOptions,
  context: RoleContext,
): Promise<Hub> {
  const { binary, folders, supervisor, events } = options;
  await using stack = new AsyncDisposableStack();

  const authority = await openAuthority({
    keysFolder: folders.keys,
    recordsFolder: folders.accounts,
    resolverFolder: folders.resolver,
  });
  const server = await supervisor.startActor(
    natsServerActor({
      binary,
      directory: folders.hub,
      config: (places) =>
        hubConfig(
          {
            serverName: "hub",
            operatorJwt: authority.operatorJwt,
            systemAccount: authority.systemAccount,
            jwtDirectory: folders.resolver,
          },
          places,
        ),
    }),
  );
  const { clientUrl: url, ports } = await server.ask("current", null, CURRENT);

  const open = async (name: string, as: Credentials): Promise<NatsConnection> => {
    const connection = await openConnection({ url, name, as });
    stack.defer(() => connection.close());
    return connection;
  };
  const system = await open("controller-system", authority.systemCredentials);
  const controller = await open("controller", authority.controllerCredentials);
  const accounts = { authority, recordsFolder: folders.accounts, keepsStores: true };
  const parts = stack.use(await openHubParts({ controller, system }, accounts, events, context));

  const owned = stack.move();
  return {
    controller,
    system,
    link: parts.link,
    caller: parts.caller,
    own: { server, system, websocketPort: ports.websocket },
    leafUrl: null,
    replicas: 1,
    joinsRefused: null,
    localNodeRefused: null,
    connectAs: (name, as, inboxPrefix) =>
      openConnection({ url, name, as, ...(inboxPrefix === undefined ? {} : { inboxPrefix }) }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
