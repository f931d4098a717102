/**
 * Owns what a controller needs of a hub, embedded or somebody else's, and what both have in common above
 * their connections: the calls to nodes, what nodes ask, and the accounts of nodes.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import type { NodeKey } from "../../protocol/ids.ts";
import { NODE_SERVING } from "../../protocol/node-link.ts";
import type { ActorRef } from "../../supervision/actor.ts";
import type { Credentials } from "../../transport/keys/authority.ts";
import { type HubLink, type HubLinkOptions, openHubLink } from "../../transport/link/hub.ts";
import type { NatsServerMessages } from "../../transport/nats-server/child-actor.ts";
import { createRpcCaller, type RpcCaller } from "../../transport/rpc/caller.ts";
import { relinkHandlers } from "../../transport/rpc/relink.ts";
import { serveNodeRequests } from "../../transport/rpc/requests.ts";
import type { RoleContext } from "./context.ts";

export interface Hub extends AsyncDisposable {
  /** A connection of the controller's account. */
  readonly controller: NatsConnection;
  /** One of the system account; null for a hub that is somebody else's and gave none. */
  readonly system: NatsConnection | null;
  readonly link: HubLink;
  readonly caller: RpcCaller;
  /** The server, when it is a child of this process; null when it is somebody else's. */
  readonly own: OwnHub | null;
  /** Where leafs connect instead of through the controller; null for an embedded hub, and when nobody said. */
  readonly leafUrl: string | null;
  /** Copies that its JetStream can keep of the controller's documents. */
  readonly replicas: number;
  /** Why no node can join, and why there can be no local node: one line each, null when they can. */
  readonly joinsRefused: string | null;
  readonly localNodeRefused: string | null;
  /** A connection of a user whose account was made here; the caller's to close. */
  connectAs(name: string, user: Credentials, inboxPrefix?: string): Promise<NatsConnection>;
}

export interface OwnHub {
  readonly server: ActorRef<NatsServerMessages>;
  /** A connection of the system account. */
  readonly system: NatsConnection;
  /** Where it takes websocket leafs, on 127.0.0.1. */
  readonly websocketPort: number;
}

/** What the fleet hears from its hub. */
export interface HubEvents {
  readonly onLinkEvent: HubLinkOptions["onEvent"];
  /** A worker says that it serves from now on. */
  readonly onServing: (node: NodeKey) => Promise<void>;
  /** An answer came over its link that nobody waits for any more. */
  readonly onStray: (node: NodeKey) => void;
}

/** The parts of a hub above its connections; disposed of, they stop in the opposite order. */
export async function openHubParts(
  connections: { readonly controller: NatsConnection; readonly system: NatsConnection | null },
  accounts: Pick<HubLinkOptions, "authority" | "recordsFolder" | "keepsStores">,
  events: HubEvents,
  { clock, log }: RoleContext,
): Promise<Pick<Hub, "link" | "caller"> & AsyncDisposable> {
  const { controller, system } = connections;
  await using stack = new AsyncDisposableStack();
  const caller = createRpcCaller({ connection: controller, clock, onStray: events.onStray });
  stack.defer(() => caller.stop());
  const requests = serveNodeRequests({
    connection: controller,
    handlers: {
      ...relinkHandlers(caller),
      [NODE_SERVING]: async (from) => {
        await events.onServing(from);
        return null;
      },
    },
    log,
  });
  stack.defer(() => requests.stop());
  const link = await openHubLink({
    ...accounts,
    system,
    clock,
    log,
    onEvent: events.onLinkEvent,
    renewal: (node) => caller.renewal(node),
  });
  stack.defer(() => link.stop());
  const owned = stack.move();
  return { link, caller, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
