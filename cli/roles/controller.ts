/**
 * Owns the composition of a control plane: port, token, hub, fleet, sessions, in this order; and their
 * end in the opposite one.
 *
 *   /lemon            one_for_one
 *     nats-server     the hub, unless it is somebody else's; first started, last stopped
 *     announcer       tick and presence
 *     settings        what `config.set` stored
 *     devices         their pairing and their sessions
 *     nodes           the fleet
 *     vault           the controller's own secrets
 *     invocations     one actor for each that waits for its node
 *     sessions        one actor a `/ws` connection
 *     node            what the node in this process runs (`lemon up`)
 *
 * 1. Nothing is served, and no file but the token's is written, before the port is ours.
 * 2. A start that fails leaves nothing running.
 */
import { hostname } from "node:os";
import type { NatsConnection } from "@nats-io/transport-node";
import { configMethods } from "../../actors/config/methods.ts";
import { SETTINGS_DOCUMENTS, settingsSpec } from "../../actors/config/settings.ts";
import { insightMethods } from "../../actors/control-plane/insight-methods.ts";
import { systemMethods } from "../../actors/control-plane/system-methods.ts";
import { DEVICE_DOCUMENTS, openDevices } from "../../actors/device/devices.ts";
import type { Broadcast } from "../../actors/events/broadcast.ts";
import { openEvents } from "../../actors/events/events.ts";
import { openInvocations } from "../../actors/invocation/invocations.ts";
import { NODE_DOCUMENTS, type Nodes, openNodes } from "../../actors/node/nodes.ts";
import { Attempts } from "../../actors/session/attempts.ts";
import {
  authenticator,
  firstOf,
  loopbackOptIn,
  TOKEN_ATTEMPTS,
  withTokenAttempts,
} from "../../actors/session/authenticate.ts";
import { loadOperatorToken } from "../../actors/session/operator-token.ts";
import { startSessions } from "../../actors/session/sessions.ts";
import { spaceOpener } from "../../actors/session/spaces.ts";
import { secretsMethods } from "../../actors/vault/methods.ts";
import { refuseLeaf } from "../../gateways/http/leaf-refusal.ts";
import { listenHttp } from "../../gateways/http/server.ts";
import { wsGateway } from "../../gateways/ws/gateway.ts";
import { identify } from "../../host/process-identity.ts";
import { POLICY } from "../../protocol/frames.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";
import type { ActorSystem, Death } from "../../supervision/actor.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { openDocuments } from "../../transport/documents.ts";
import { createLeafProxy } from "../../transport/link/proxy.ts";
import {
  type ControllerRecord,
  controllerRecordUrl,
  removeControllerRecord,
  writeControllerRecord,
} from "../controller-record.ts";
import { handedFiles } from "../handed-files.ts";
import type { StartOptions } from "../options.ts";
import { runtimeMode } from "./build.ts";
import type { RoleContext } from "./context.ts";
import { doorWarnings } from "./door-warnings.ts";
import { type EmbeddedHubOptions, openEmbeddedHub } from "./embedded-hub.ts";
import { openExternalHub } from "./external-hub.ts";
import { unlessAsked } from "./foreground.ts";
import { claimIdentity, controllerFolders, openHome } from "./home.ts";
import type { Hub, HubEvents } from "./hub.ts";
import { natsServerBinary } from "./nats-binary.ts";
import { Readiness } from "./readiness.ts";
import { serveCertificate } from "./served-certificate.ts";
import { type VaultPlace, Vaults } from "./vaults.ts";

/** A server that restarts checks its whole store first. */
const RESTART = { deadlineMs: 60_000 } as const;

export interface Controller extends AsyncDisposable {
  /** Where a command on this machine reaches it. */
  readonly url: string;
  readonly port: number;
  /** Path of the managed operator token; null with a token from the environment. */
  readonly tokenFile: string | null;
  readonly operatorToken: string;
  /** PEM of the certificate that it shows at its start; null without TLS. */
  readonly certificate: string | null;
  readonly system: ActorSystem;
  readonly hub: Hub;
  readonly nodes: Nodes;
  /** Those of this process: the controller's, and whichever is started besides. */
  readonly vaults: Vaults;
  /** Tells the commands of this machine where it is; taken back at its end. */
  announce(): Promise<void>;
  /** Takes no more connections and ends those there are; what they still run goes on. */
  closeGateway(): Promise<void>;
  /** Resolves when the tree gave up by itself. */
  readonly ended: Promise<Death>;
}

/** Errors: `aborted`, or one clear line each (`port_in_use`, `identity_in_use`, `home_unusable`, `nats_server_missing`, …). */
export async function startController(
  options: StartOptions,
  context: RoleContext,
): Promise<Controller> {
  const { home } = options;
  const { clock, log, logbook, environment } = context;
  await using stack = new AsyncDisposableStack();

  const served = options.tls === null ? null : await serveCertificate(options.tls, context);
  if (served !== null) stack.use(served);
  const openHub = await hubOpener(options, context);
  await openHome(home);
  const folders = controllerFolders(home);
  const lock = await claimIdentity(folders.directory, "the controller");
  stack.defer(() => lock.release());

  const { host, port, trustedProxies, allowedOrigins } = options;
  const http = await listenHttp({
    host,
    port,
    clock,
    log,
    certificate: served?.current ?? null,
    trustedProxies,
    allowedOrigins,
  });
  stack.defer(() => http.close());
  const operator = await loadOperatorToken({ environment, home, port: http.port });
  const unauthenticatedLoopback = loopbackOptIn(environment);
  const warnings = doorWarnings({
    host,
    port: http.port,
    hasTls: served !== null,
    givenToken: operator.file === null ? operator.token : null,
    unauthenticatedLoopback,
  });
  for (const warning of warnings) context.say(warning);

  const system = createActorSystem({ name: "lemon", log, clock });
  stack.defer(() => system.shutdown());
  let nodes: Nodes | null = null;
  const heard: HubEvents = {
    onLinkEvent: (event) => nodes?.linkEvent(event),
    onServing: async (node) => nodes?.serving(node),
    onStray: (node) => nodes?.heard(node),
  };
  const parts = { folders, supervisor: system.root, events: heard };
  const hub = stack.use(await unlessAsked(context.asked, system, () => openHub(parts)));
  if (hub.joinsRefused !== null) context.say(hub.joinsRefused);
  // Again, so that it comes before the hub's connections close: actors may need them to the last.
  stack.defer(() => system.shutdown());

  const events = await openEvents({ parent: system.root, clock });
  const { broadcast, roster } = events;
  const bucket = { connection: hub.controller, replicas: hub.replicas };
  const [documents, deviceDocuments, stored] = await Promise.all([
    openDocuments({ ...bucket, ...NODE_DOCUMENTS }),
    openDocuments({ ...bucket, ...DEVICE_DOCUMENTS }),
    openDocuments({ ...bucket, ...SETTINGS_DOCUMENTS }),
  ]);
  const readiness = new Readiness({ documents, clock, asked: context.asked });
  void tellHealth(hub.controller, broadcast, (connected) => readiness.hub(connected));
  const settings = await system.root.startActor(
    settingsSpec({
      documents: stored,
      setLogLevel: (level) => logbook.setLevel(level),
      logLevelIsChosen: logbook.levelIsChosen,
    }),
  );
  const devices = await openDevices({
    parent: system.root,
    documents: deviceDocuments,
    clock,
    endSessions: (deviceId, close) => roster.endDevice(deviceId, close),
    connections: () => roster.ofDevices(),
    publish: (event, payload) => broadcast.publish(event, payload),
  });
  const fleet = await openNodes({
    parent: system.root,
    documents: readiness.documents,
    accounts: hub.link,
    calls: hub.caller,
    clock,
    log,
    endSessions: (nodeId, olderThan, close) => roster.endNode(nodeId, olderThan, close),
    publish: ({ event, payload }) => broadcast.publish(event, payload, ["nodes"]),
    redeemDevice: devices.redeem,
    leafUrl: hub.leafUrl,
    joinsRefused: hub.joinsRefused,
  });
  nodes = fleet;

  const invocations = await openInvocations({
    parent: system.root,
    socketOf: (selector) => fleet.socketOf(selector),
    broadcast,
  });

  const vaults = new Vaults(home, context);
  const vault = await vaults.start(system.root, {
    scope: "controller",
    connection: hub.controller,
    system: hub.system,
    directory: folders.vault,
    replicas: hub.replicas,
    ...restarting(hub),
  });

  const attempts = new Attempts(clock, TOKEN_ATTEMPTS);
  const sessions = await startSessions({
    parent: system.root,
    handlers: {
      ...fleet.methods,
      ...devices.methods,
      ...events.methods,
      ...invocations.methods,
      ...configMethods({ settings, policy: POLICY, logLevel: () => logbook.level }),
      ...secretsMethods({ vault, environment, rotate: () => vaults.rotate() }),
      ...insightMethods({ clock, recentLines: () => logbook.recent() }),
      ...systemMethods({
        build: { version: LEMON_VERSION, runtimeMode, channel: null, commit: null },
        clock,
        connections: () => roster.counts(),
        tree: () => system.snapshot(),
        nodeTrees: (selector) => fleet.trees(selector),
      }),
    },
    authenticate: withTokenAttempts(
      authenticator({
        operatorToken: operator.token,
        sessionTokens: firstOf(devices.sessionTokens, fleet.sessionTokens),
        allowUnauthenticatedLoopback: unauthenticatedLoopback,
      }),
      attempts,
      { operatorToken: operator.token },
    ),
    server: { version: LEMON_VERSION, commit: null, host: hostname() },
    roster,
    broadcast,
    onNode: fleet.arrived,
    clock,
    log,
  });
  const gateway = wsGateway({ open: (connection) => sessions.open(connection), clock, log });
  const proxy =
    hub.own === null
      ? null
      : createLeafProxy({
          hubWebsocket: { host: "127.0.0.1", port: hub.own.websocketPort },
          refuse: refuseLeaf,
          clock,
          log,
        });
  const upgrades = new Map([["/ws", gateway.upgrade]]);
  if (proxy !== null) upgrades.set("/leafnode", proxy.upgrade);
  const openSpace = spaceOpener({ environment, operatorToken: operator.token, attempts });
  http.serve(upgrades, readiness.missing, openSpace);

  let announced = false;
  let record: ControllerRecord = {
    host,
    port: http.port,
    pid: process.pid,
    startTime: identify(process.pid)?.startTime ?? "",
    tokenFile: operator.file,
    ...(served === null ? {} : { certificate: served.current.leaf }),
    ...(options.nats === null ? {} : { handedFiles: [...handedFiles(options.nats)] }),
  };
  served?.follow(async (renewed) => {
    record = { ...record, certificate: renewed.leaf };
    if (announced) await writeControllerRecord(home, record);
    http.renew(renewed);
  });
  const owned = stack.move();
  return {
    url: controllerRecordUrl(record),
    port: http.port,
    tokenFile: operator.file,
    operatorToken: operator.token,
    certificate: record.certificate ?? null,
    system,
    hub,
    nodes: fleet,
    vaults,
    ended: system.ended,
    async announce() {
      announced = true;
      await writeControllerRecord(home, record);
      owned.defer(() => removeControllerRecord(home, record));
    },
    async closeGateway() {
      broadcast.publish("shutdown", { reason: "stopping" });
      await invocations.stop();
      await sessions.stop();
      proxy?.close();
      await http.close();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A server of somebody else's is not ours to restart. */
function restarting({ own }: Hub): Pick<VaultPlace, "restartServer"> {
  if (own === null) return {};
  return { restartServer: (serverId) => own.server.ask("restart", { serverId }, RESTART) };
}

/** Without its hub a control plane answers, but reaches no node and finds out nothing of them. */
async function tellHealth(
  hub: NatsConnection,
  broadcast: Broadcast,
  changed: (connected: boolean) => void,
): Promise<void> {
  for await (const { type } of hub.status()) {
    if (type !== "disconnect" && type !== "reconnect") continue;
    const ok = type === "reconnect";
    changed(ok);
    broadcast.publish("health", { ok, hub: ok ? "connected" : "lost" });
  }
}

type OpenHub = (place: Omit<EmbeddedHubOptions, "binary">) => Promise<Hub>;

/** Errors: those of the embedded hub's server, which is looked for before anything is begun. */
async function hubOpener({ nats, caFile }: StartOptions, context: RoleContext): Promise<OpenHub> {
  if (nats !== null) return (place) => openExternalHub({ nats, caFile, ...place }, context);
  const binary = await natsServerBinary(context.environment, context.say);
  return (place) => openEmbeddedHub({ binary, ...place }, context);
}
