/**
 * Owns a controller's whole knowledge of its fleet on real parts for tests: hub, keys, link, calls, store
 * and actors. It can be started again on the same hub and folder, as after the end of its process.
 */
import { join } from "node:path";
import { jwtAuthenticator, type NatsConnection } from "@nats-io/transport-node";
import type { LinkAccounts } from "../../actors/node/link.ts";
import { NODE_DOCUMENTS, type Nodes, openNodes } from "../../actors/node/nodes.ts";
import type { NodeRecord } from "../../actors/node/record.ts";
import { systemClock } from "../../host/clock.ts";
import type { ActorSystem } from "../../supervision/actor.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { type Documents, openDocuments } from "../../transport/documents.ts";
import { type Authority, openAuthority } from "../../transport/keys/authority.ts";
import { type HubLink, openHubLink } from "../../transport/link/hub.ts";
import type { LinkEvent } from "../../transport/link/watch.ts";
import { createRpcCaller, type RpcCaller } from "../../transport/rpc/caller.ts";
import { relinkHandlers } from "../../transport/rpc/relink.ts";
import { serveNodeRequests } from "../../transport/rpc/requests.ts";
import type { TestController } from "./link-fleet.ts";
import { type LogLines, logLines } from "./log-lines.ts";
import { startHub, type TestServer } from "./nats.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

/** What outlives a controller: its folder of keys and records, and the hub. */
export interface Ground extends AsyncDisposable {
  readonly folder: TempFolder;
  readonly authority: Authority;
  readonly hub: TestServer;
}

const places = (folder: string) => ({
  keysFolder: join(folder, "keys"),
  recordsFolder: join(folder, "accounts"),
  resolverFolder: join(folder, "jwt"),
});

export async function startGround(): Promise<Ground> {
  const folder = tempFolder();
  const authority = await openAuthority(places(folder.path));
  const hub = await startHub({
    operatorJwt: authority.operatorJwt,
    systemAccount: authority.systemAccount,
    jwtDirectory: places(folder.path).resolverFolder,
  });
  return {
    folder,
    authority,
    hub,
    async [Symbol.asyncDispose]() {
      await hub[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

export interface NodeController extends AsyncDisposable {
  readonly nodes: Nodes;
  readonly documents: Documents<NodeRecord>;
  readonly link: HubLink;
  readonly caller: RpcCaller;
  readonly connection: NatsConnection;
  readonly system: NatsConnection;
  readonly actors: ActorSystem;
  readonly log: LogLines;
  readonly endedSessions: { readonly nodeId: string; readonly code: number }[];
}

export interface NodeControllerOptions {
  readonly connect: (authority: Authority["systemCredentials"]) => Promise<NatsConnection>;
  readonly authority: Authority;
  readonly folder: string;
  /** Stand between the room and what it writes to; for a test that breaks off between two steps. */
  readonly wrapDocuments?: (documents: Documents<NodeRecord>) => Documents<NodeRecord>;
  readonly wrapAccounts?: (accounts: LinkAccounts) => LinkAccounts;
}

/** The order of the composition (`cli/roles/controller.ts`), without port and sessions. */
export async function openNodeController(options: NodeControllerOptions): Promise<NodeController> {
  const { connect, authority, folder } = options;
  const { wrapDocuments = (it) => it, wrapAccounts = (it) => it } = options;
  const clock = systemClock;
  const log = logLines();
  const system = await connect(authority.systemCredentials);
  const connection = await connect(authority.controllerCredentials);
  const caller = createRpcCaller({ connection, clock });
  const requests = serveNodeRequests({
    connection,
    handlers: relinkHandlers(caller),
    log: log.log,
  });
  let nodes: Nodes | null = null;
  const link = await openHubLink({
    system,
    authority,
    recordsFolder: places(folder).recordsFolder,
    clock,
    log: log.log,
    renewal: (node) => caller.renewal(node),
    onEvent: (event: LinkEvent) => nodes?.linkEvent(event),
  });
  const documents = await openDocuments({ connection, ...NODE_DOCUMENTS });
  const actors = createActorSystem({ name: "test", log: log.log, clock });
  const endedSessions: { nodeId: string; code: number }[] = [];
  nodes = await openNodes({
    parent: actors.root,
    documents: wrapDocuments(documents),
    accounts: wrapAccounts(link),
    calls: caller,
    clock,
    log: log.log,
    endSessions: (nodeId, _olderThan, { code }) => endedSessions.push({ nodeId, code }),
    publish: () => {},
  });
  return {
    nodes,
    documents,
    link,
    caller,
    connection,
    system,
    actors,
    log,
    endedSessions,
    async [Symbol.asyncDispose]() {
      await actors.shutdown();
      requests.stop();
      caller.stop();
      link.stop();
      await Promise.all([system.close(), connection.close()]);
    },
  };
}

export function controllerOn(
  ground: Ground,
  options: Partial<NodeControllerOptions> = {},
): Promise<NodeController> {
  return openNodeController({
    connect: ({ jwt, seed }) => ground.hub.connect({ authenticator: jwtAuthenticator(jwt, seed) }),
    authority: ground.authority,
    folder: ground.folder.path,
    ...options,
  });
}

/** What `joinNode` needs of a controller. */
export function linkSide(ground: Ground, controller: NodeController): TestController {
  const { link, caller, connection, system, log } = controller;
  return {
    folder: ground.folder.path,
    hub: ground.hub,
    authority: ground.authority,
    system,
    connection,
    link,
    caller,
    log,
    events: [],
    event: () => Promise.reject(new Error("the nodes hear the events here")),
    websocketUrl: `ws://127.0.0.1:${ground.hub.child.ports.websocket}`,
    [Symbol.asyncDispose]: () => controller[Symbol.asyncDispose](),
  };
}
