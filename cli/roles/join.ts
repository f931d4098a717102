/**
 * Composes `lemon node join`: an execution node with a nats-server of its own, whose leaf is the link
 * to the controller and whose store holds the receipts.
 *
 *   /lemon            one_for_one
 *     nats-server     leaf and store; first started, last stopped
 *     node            what the node runs: one actor a run in work
 *
 * Exit codes: 0 after a signal; 1 when this machine's side failed; 2 when the join was refused or
 * ended by an operator; 4 when a newer worker serves the node (its children are stopped first).
 */
import { readFile } from "node:fs/promises";
import { socketOpener } from "../../client/node/socket.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId, NodeKey } from "../../protocol/ids.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { openConnection } from "../../transport/connection.ts";
import { createLeafLink, type LeafLink, leafRemoteUrl } from "../../transport/link/leaf.ts";
import { createWorkerLife, type WorkerLife } from "../../transport/link/worker-life.ts";
import { leafUrls } from "../../transport/nats-address.ts";
import { natsServerActor } from "../../transport/nats-server/child-actor.ts";
import { nodeConfig } from "../../transport/nats-server/config.ts";
import { quiesce } from "../../transport/rpc/relink.ts";
import { inboxPrefix } from "../../transport/rpc/subjects.ts";
import { EXIT } from "../exit.ts";
import type { JoinOptions } from "../options.ts";
import { NODE_CAPABILITIES } from "./capabilities.ts";
import { enrol, vet } from "./enrol.ts";
import { unlessAsked, untilAsked } from "./foreground.ts";
import { claimIdentity, nodeFolders, openHome, storeFolders } from "./home.ts";
import { joinExitCode, LIFE_ENDS, withAdvice } from "./join-failure.ts";
import { natsServerBinary } from "./nats-binary.ts";
import { type NodeServices, startNodeServices } from "./node-services.ts";
import { type Role, runRole } from "./role.ts";
import { Vaults } from "./vaults.ts";
import { type LinkOpening, openWorkerChannel, type WorkerEnd } from "./worker-channel.ts";

/** How long a first answer may take before its absence is told, in ms. */
const FIRST_ANSWER_MS = 2_000;
/** How long a first link may take before its absence is told, in ms. */
const FIRST_LINK_MS = 10_000;
const CURRENT = { deadlineMs: 5_000 } as const;

/** Runs until it is asked to end, or its life is over; answers the exit code. */
export function runJoin(given: JoinOptions): Promise<number> {
  return runRole(given, serve, (failure, announcement) =>
    announcement.failed(withAdvice(failure, given), joinExitCode(failure)),
  );
}

async function serve({
  options,
  context,
  announcement,
  foreground,
}: Role<JoinOptions>): Promise<number> {
  const { clock, log, environment } = context;
  await using stack = new AsyncDisposableStack();
  await openHome(options.home);
  const folders = nodeFolders(options.home, options.name);
  const lock = await claimIdentity(folders.directory, `node ${options.name}`);
  stack.defer(() => lock.release());

  const openSocket = socketOpener(await trusted(options));
  const enrolling = {
    join: options,
    capabilities: NODE_CAPABILITIES,
    openSocket,
    clock,
    signal: foreground.asked,
  };
  await vet(enrolling);
  const binary = await natsServerBinary(environment, context.say);
  const session = await enrol(enrolling);
  const life = createWorkerLife();
  stack.defer(() => life.end());

  const over = Promise.withResolvers<WorkerEnd>();
  let services: NodeServices | null = null;
  let renew: (opening: LinkOpening) => void = () => {};
  const cancelNote = clock.after(FIRST_ANSWER_MS, () => {
    announcement.note("the controller does not answer yet; it is tried on");
  });
  stack.defer(cancelNote);
  const channel = await openWorkerChannel({
    session,
    home: options.home,
    openSocket,
    clock,
    log,
    opening: () => ({
      linkKey: life.link.getPublicKey(),
      sealKey: life.seal.getPublicKey(),
      serverName: life.serverName,
      lemonVersion: LEMON_VERSION,
      capabilities: NODE_CAPABILITIES,
      ...services?.storeFacts(),
    }),
    onRenewed: (opening) => renew(opening),
    onEnd: over.resolve,
    signal: foreground.asked,
  });
  stack.defer(() => channel.close());
  cancelNote();
  const { first } = channel;
  const nodeKey = first.nodeKey as NodeKey;
  const nodeId = first.nodeId as NodeId;
  const own = storeFolders(folders, nodeId);

  const leafUrl = leafUrlOf(first, options);
  const leaf = createLeafLink({ folder: folders.link, key: life.link, clock });
  await leaf.install(first.linkJwt);
  stack.defer(() => leaf.dispose());
  const system = createActorSystem({ name: "lemon", log, clock });
  stack.defer(() => system.shutdown());
  const spec = natsServerActor({
    binary,
    directory: own.server,
    config: (places) => nodeConfig(configOf(life, leaf, nodeKey, leafUrl, options), places),
  });
  const server = await unlessAsked(foreground.asked, system, () => system.root.startActor(spec));
  const { clientUrl } = await server.ask("current", null, CURRENT);
  const open = async (name: string, key: WorkerLife["link"], inbox?: string) => {
    const connection = await openConnection({
      url: clientUrl,
      name,
      as: { nkeySeed: key.getSeed() },
      ...(inbox === undefined ? {} : { inboxPrefix: inbox }),
    });
    stack.defer(() => connection.close());
    return connection;
  };
  const storeSystem = await open("worker-system", life.system);
  const store = await open("worker-store", life.store);
  const link = await open("worker-link", life.worker, inboxPrefix(nodeKey));
  // Again, so that the actors end before the connections they may need close.
  stack.defer(() => system.shutdown());

  services = stack.use(
    await startNodeServices(
      {
        parent: system.root,
        tree: () => system.snapshot(),
        link,
        store,
        storeSystem,
        server,
        nodeId,
        nodeKey,
        generation: first.generation,
        registeredStore: registeredStore(first),
        receipts: own.receipts,
        seal: life.seal,
        vaults: new Vaults(options.home, context),
        place: options,
        home: options.home,
      },
      context,
    ),
  );
  const { rpc } = services;
  const stillness = quiesce({ connection: link, nodeKey, server: rpc, clock });
  renew = ({ linkJwt }) => {
    leaf
      .renew(linkJwt, () => server.ask("reload", null, CURRENT), stillness)
      .catch((failure: unknown) => {
        const code = failure instanceof LemonError ? failure.code : "internal_error";
        log.warn({ code }, "the link is not back with its new credentials yet");
      });
  };
  await leaf.follow(storeSystem, (up) => {
    log.info({ up }, "the link to the controller changed");
    channel.linkChanged(up);
  });
  await leaf.whenUp(FIRST_LINK_MS).catch(() => {
    announcement.note("the link to the controller is not up yet; it is tried on");
  });
  announcement.joined({
    nodeId,
    name: first.nodeName,
    generation: first.generation,
    controller: options.controller,
  });

  const end = await Promise.race([
    untilAsked(foreground, system.ended).then(() => null),
    over.promise,
    services.failed,
  ]);
  if (end === null) {
    await services.drain(foreground.hurry);
    return EXIT.ok;
  }
  await services.drain(AbortSignal.abort());
  const failure = LIFE_ENDS[end];
  return announcement.failed(failure, joinExitCode(failure));
}

function configOf(
  life: WorkerLife,
  leaf: LeafLink,
  nodeKey: NodeKey,
  url: readonly string[],
  { caFile }: JoinOptions,
) {
  const trusts = caFile !== null && url.some((one) => /^(?:wss|tls):/.test(one));
  return {
    serverName: life.serverName,
    domain: nodeKey,
    storeUser: life.store.getPublicKey(),
    sysUser: life.system.getPublicKey(),
    link: {
      account: nodeKey,
      workerUser: life.worker.getPublicKey(),
      url,
      credentialsFile: leaf.credentialsFile,
      ...(trusts ? { caFile } : {}),
    },
  };
}

/**
 * Where the leaf connects as long as this life lasts: below the controller's own URL, unless its hub is
 * somebody else's NATS system. Errors: `invalid_request`, also when what crosses the network could be
 * read there.
 */
function leafUrlOf(
  { leafPath, leafUrl }: LinkOpening,
  { controller, allowInsecureController }: JoinOptions,
): readonly string[] {
  if (leafUrl === null || leafUrl === undefined) return [leafRemoteUrl(controller, leafPath)];
  const { urls, readable } = leafUrls("the controller's --nats-leaf-url", leafUrl);
  if (!readable || allowInsecureController) return urls;
  throw new LemonError("invalid_request", {
    message:
      "The controller's NATS takes nodes without TLS, so data would cross the network readable; have it offer tls:// or wss://, or pass --allow-insecure-controller on a network that is encrypted by other means",
  });
}

function registeredStore({ registeredStoreId, registeredStoreSequence }: LinkOpening) {
  return registeredStoreId === null
    ? null
    : { id: registeredStoreId, sequence: registeredStoreSequence ?? 0 };
}

async function trusted({ caFile }: JoinOptions): Promise<{ readonly ca?: string }> {
  if (caFile === null) return {};
  return { ca: await readFile(caFile, "utf8") };
}
