/**
 * Owns a controller's hub and its nodes for tests of the node link: real servers, real keys, real
 * leafs over websocket, and nothing above `transport/`.
 */
import { join } from "node:path";
import type { NatsConnection } from "@nats-io/transport-node";
import { errors, jwtAuthenticator, nkeyAuthenticator } from "@nats-io/transport-node";
import { type Clock, systemClock } from "../../host/clock.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import { type Authority, openAuthority } from "../../transport/keys/authority.ts";
import { type HubLink, openHubLink } from "../../transport/link/hub.ts";
import { createLeafLink, type LeafLink } from "../../transport/link/leaf.ts";
import type { LinkEvent } from "../../transport/link/watch.ts";
import { createWorkerLife, type WorkerLife } from "../../transport/link/worker-life.ts";
import { nodeConfig } from "../../transport/nats-server/config.ts";
import { createRpcCaller, type RpcCaller } from "../../transport/rpc/caller.ts";
import { quiesce, relinkHandlers } from "../../transport/rpc/relink.ts";
import { type NodeRequests, serveNodeRequests } from "../../transport/rpc/requests.ts";
import { type RpcHandler, type RpcServer, serveRpc } from "../../transport/rpc/server.ts";
import { callSubject, inboxPrefix } from "../../transport/rpc/subjects.ts";
import { type LogLines, logLines } from "./log-lines.ts";
import { startHub, startServer, type TestServer } from "./nats.ts";
import { tempFolder } from "./temp-folder.ts";

const HOUR_MS = 3_600_000;

export interface TestController extends AsyncDisposable {
  readonly folder: string;
  readonly hub: TestServer;
  readonly authority: Authority;
  readonly system: NatsConnection;
  readonly connection: NatsConnection;
  readonly link: HubLink;
  readonly caller: RpcCaller;
  readonly log: LogLines;
  /** What the link told, in order. */
  readonly events: readonly LinkEvent[];
  /** Resolves with the first event, past or to come, that is `wanted`. */
  event<E extends LinkEvent>(wanted: (event: LinkEvent) => event is E): Promise<E>;
  event(wanted: (event: LinkEvent) => boolean): Promise<LinkEvent>;
  /** Where leafs connect; a test's own proxy may stand before it. */
  readonly websocketUrl: string;
}

export async function startController(clock: Clock = systemClock): Promise<TestController> {
  const folder = tempFolder();
  const places = {
    keysFolder: join(folder.path, "keys"),
    recordsFolder: join(folder.path, "accounts"),
    resolverFolder: join(folder.path, "jwt"),
  };
  const authority = await openAuthority(places);
  const hub = await startHub({
    operatorJwt: authority.operatorJwt,
    systemAccount: authority.systemAccount,
    jwtDirectory: places.resolverFolder,
  });
  const as = ({ jwt, seed }: Authority["systemCredentials"]): Promise<NatsConnection> =>
    hub.connect({ authenticator: jwtAuthenticator(jwt, seed) });
  const system = await as(authority.systemCredentials);
  const connection = await as(authority.controllerCredentials);
  const log = logLines();
  const caller = createRpcCaller({ connection, clock });
  const requests: NodeRequests = serveNodeRequests({
    connection,
    handlers: relinkHandlers(caller),
    log: log.log,
  });
  const events: LinkEvent[] = [];
  const waiting = new Set<() => void>();
  const link = await openHubLink({
    system,
    authority,
    recordsFolder: places.recordsFolder,
    clock,
    log: log.log,
    renewal: (node) => caller.renewal(node),
    onEvent(event) {
      events.push(event);
      const isLost =
        (event.type === "disconnected" && event.remaining === 0) ||
        (event.type === "connected" && event.displaces);
      if (isLost) {
        caller.settleNode(event.connection.account, "link_lost");
      }
      for (const look of [...waiting]) look();
    },
  });

  function event(wanted: (event: LinkEvent) => boolean): Promise<LinkEvent> {
    return new Promise((resolve) => {
      const look = (): void => {
        const found = events.find(wanted);
        if (found === undefined) return;
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
      look();
    });
  }

  return {
    folder: folder.path,
    hub,
    authority,
    system,
    connection,
    link,
    caller,
    log,
    events,
    event,
    websocketUrl: `ws://127.0.0.1:${hub.child.ports.websocket}`,
    async [Symbol.asyncDispose]() {
      requests.stop();
      caller.stop();
      link.stop();
      await hub[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

/** The same hub and accounts, as a controller sees them whose clock is set so much apart. */
export function hubLinkAt(controller: TestController, offsetMs: number): Promise<HubLink> {
  const { system, authority, folder, log } = controller;
  return openHubLink({
    system,
    authority,
    recordsFolder: join(folder, "accounts"),
    clock: { ...systemClock, nowMs: () => Date.now() + offsetMs },
    log: log.log,
    onEvent: () => undefined,
    renewal: () => null,
  });
}

/** Credentials that ended an hour ago. */
export async function expiredJwt(
  controller: TestController,
  node: NodeKey,
  userKey: string,
): Promise<string> {
  const link = await hubLinkAt(controller, -2 * HOUR_MS);
  const jwt = await link.issue(node, userKey, { expiresInMs: HOUR_MS });
  link.stop();
  return jwt;
}

/** Resolves when the hub knows of nobody who takes the node's calls. */
export async function silent({ connection }: TestController, node: NodeKey): Promise<void> {
  for (let heard = true; heard; ) {
    heard = await connection.request(callSubject(node), "", { timeout: 20 }).then(
      () => true,
      (error: unknown) => !(error instanceof errors.RequestError && error.isNoResponders()),
    );
  }
}

export interface TestNode extends AsyncDisposable {
  readonly key: NodeKey;
  readonly life: WorkerLife;
  readonly server: TestServer;
  readonly leaf: LeafLink;
  /** The worker's connection to its own LINK account. */
  readonly connection: NatsConnection;
  readonly rpc: RpcServer;
  /** Renews the credentials as a worker does. */
  renew(jwt: string): Promise<void>;
  /** Resolves when the controller answers over the link. */
  ready(): Promise<void>;
  /** Resolves when the link is not up. */
  down(): Promise<void>;
}

export interface TestNodeSpec {
  readonly handlers?: Readonly<Record<string, RpcHandler>>;
  readonly generation?: number;
  readonly key?: NodeKey;
  readonly life?: WorkerLife;
  readonly jwt?: string;
  /** Where the leaf connects instead of the hub itself. */
  readonly url?: string;
  /** Authorities to trust for a `wss://` one. */
  readonly caFile?: string;
  /** The leaf link's own time. */
  readonly clock?: Clock;
  /** False to return before the link is up. */
  readonly waitForLink?: boolean;
}

/** Joins a node: its account, a worker life, a leaf, and the link proven up. */
export async function joinNode(
  controller: TestController,
  spec: TestNodeSpec = {},
): Promise<TestNode> {
  const life = spec.life ?? createWorkerLife();
  const key = spec.key ?? (await controller.link.provision());
  const userKey = life.link.getPublicKey();
  const jwt = spec.jwt ?? (await controller.link.issue(key, userKey, { expiresInMs: HOUR_MS }));
  const url = spec.url ?? controller.websocketUrl;
  return await startNode({ ...spec, key, life, jwt, url, log: controller.log });
}

/** Starts a node that was given its account, its credentials and its controller's address. */
export async function startNode(
  spec: TestNodeSpec &
    Required<Pick<TestNodeSpec, "key" | "life" | "jwt" | "url">> & {
      readonly log: LogLines;
    },
): Promise<TestNode> {
  const { key, life, jwt, url, log, handlers = {}, generation = 1, clock = systemClock } = spec;
  const folder = tempFolder();
  const leaf = createLeafLink({ folder: folder.path, key: life.link, clock });
  await leaf.install(jwt);
  const server = await startServer((places) =>
    nodeConfig(
      {
        serverName: life.serverName,
        domain: key,
        storeUser: life.store.getPublicKey(),
        sysUser: life.system.getPublicKey(),
        link: {
          account: key,
          workerUser: life.worker.getPublicKey(),
          url,
          credentialsFile: leaf.credentialsFile,
          ...(spec.caFile === undefined ? {} : { caFile: spec.caFile }),
        },
      },
      places,
    ),
  );
  const connection = await server.connect({
    authenticator: nkeyAuthenticator(life.worker.getSeed()),
    inboxPrefix: inboxPrefix(key),
  });
  const rpc = serveRpc({
    connection,
    nodeKey: key,
    generation,
    handlers,
    clock: systemClock,
    log: log.log,
  });
  await connection.flush();
  const system = await server.connect({
    authenticator: nkeyAuthenticator(life.system.getSeed()),
  });
  const downs = new Set<() => void>();
  await leaf.follow(system, (up) => {
    if (!up) for (const resolve of downs) resolve();
  });
  const stillness = quiesce({ connection, nodeKey: key, server: rpc, clock: systemClock });
  if (spec.waitForLink !== false) {
    await leaf.whenUp(30_000);
    await stillness.resumeController();
  }
  return {
    key,
    life,
    server,
    leaf,
    connection,
    rpc,
    renew: (renewed) => leaf.renew(renewed, () => server.child.reload(), stillness),
    ready: () => stillness.resumeController(),
    async down() {
      if (leaf.up) await new Promise<void>((resolve) => downs.add(resolve));
    },
    async [Symbol.asyncDispose]() {
      await leaf.dispose();
      await server[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}
