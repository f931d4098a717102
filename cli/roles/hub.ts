/**
 * Owns the controller's embedded hub as one thing: its server, the two connections to it, the node
 * accounts on it, and the calls that cross it.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import type { NodeKey } from "../../protocol/ids.ts";
import { NODE_SERVING } from "../../protocol/node-link.ts";
import type { ActorRef, SupervisorRef } from "../../supervision/actor.ts";
import { openConnection } from "../../transport/connection.ts";
import { openAuthority } from "../../transport/keys/authority.ts";
import { type HubLink, openHubLink } from "../../transport/link/hub.ts";
import type { LinkEvent } from "../../transport/link/watch.ts";
import type { NatsServerBinary } from "../../transport/nats-server/binary.ts";
import {
  type NatsServerMessages,
  natsServerActor,
  type OwnServer,
} from "../../transport/nats-server/child-actor.ts";
import { hubConfig } from "../../transport/nats-server/config.ts";
import { createRpcCaller, type RpcCaller } from "../../transport/rpc/caller.ts";
import { relinkHandlers } from "../../transport/rpc/relink.ts";
import { serveNodeRequests } from "../../transport/rpc/requests.ts";
import type { RoleContext } from "./context.ts";
import type { ControllerFolders } from "./home.ts";

export interface Hub extends AsyncDisposable {
  readonly server: ActorRef<NatsServerMessages>;
  /** The server as it was when the hub opened. */
  readonly first: OwnServer;
  /** A connection of the system account. */
  readonly system: NatsConnection;
  /** A connection of the controller's account. */
  readonly controller: NatsConnection;
  readonly link: HubLink;
  readonly caller: RpcCaller;
}

const CURRENT = { deadlineMs: 5_000 } as const;

export interface HubOptions {
  readonly binary: NatsServerBinary;
  readonly folders: ControllerFolders;
  /** The server's supervisor: it is its first child. */
  readonly supervisor: SupervisorRef;
  readonly onLinkEvent: (event: LinkEvent) => void;
  /** A worker says that it serves from now on. */
  readonly onServing: (node: NodeKey) => Promise<void>;
}

/** Errors: those of the keys, of the server's start and of the first connections. */
export async function openHub(options: HubOptions, context: RoleContext): Promise<Hub> {
  const { binary, folders, supervisor, onLinkEvent } = options;
  const { clock, log } = context;
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
  const first = await server.ask("current", null, CURRENT);

  const open = async (
    name: string,
    as: { jwt: string; seed: Uint8Array },
  ): Promise<NatsConnection> => {
    const connection = await openConnection({ url: first.clientUrl, name, as });
    stack.defer(() => connection.close());
    return connection;
  };
  const system = await open("controller-system", authority.systemCredentials);
  const controller = await open("controller", authority.controllerCredentials);

  const caller = createRpcCaller({ connection: controller, clock });
  stack.defer(() => caller.stop());
  const requests = serveNodeRequests({
    connection: controller,
    handlers: {
      ...relinkHandlers(caller),
      [NODE_SERVING]: async (from) => {
        await options.onServing(from);
        return null;
      },
    },
    log,
  });
  stack.defer(() => requests.stop());
  const link = await openHubLink({
    system,
    authority,
    recordsFolder: folders.accounts,
    clock,
    log,
    onEvent: onLinkEvent,
    isRenewing: (node) => caller.isHeld(node),
  });
  stack.defer(() => link.stop());

  const owned = stack.move();
  return {
    server,
    first,
    system,
    controller,
    link,
    caller,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
