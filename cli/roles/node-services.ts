/**
 * Owns what every execution node serves, joined or local: its processes, its files, its measurements, its
 * ping and its tree, over the link.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import { rowOf } from "../../actors/control-plane/system-methods.ts";
import { type FileService, startFileService } from "../../actors/file-service/service.ts";
import { HostIoAudit } from "../../actors/host-io/audit.ts";
import { ProcessOpening, type StoreFacts } from "../../actors/process-run/opening.ts";
import { startProcessService } from "../../actors/process-run/service.ts";
import { processRuns } from "../../actors/process-run/state.ts";
import { type NodeSecrets, nodeSecrets } from "../../actors/vault/node-secrets.ts";
import { pinRoots } from "../../host/allowed-roots.ts";
import { environmentForRuns } from "../../host/environment.ts";
import { hostMeter } from "../../host/host-info.ts";
import { SystemSpawner } from "../../host/spawner.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId, NodeKey } from "../../protocol/ids.ts";
import { NODE_PING, NODE_SERVING, NODE_TREE, type NodePing } from "../../protocol/node-link.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";
import type { ActorRef, SupervisorRef, TreeNode } from "../../supervision/actor.ts";
import { openSealed } from "../../transport/keys/sealing.ts";
import type { WorkerLife } from "../../transport/link/worker-life.ts";
import type { NatsServerMessages } from "../../transport/nats-server/child-actor.ts";
import { openReceiptStore } from "../../transport/receipts/open.ts";
import { requestController } from "../../transport/rpc/requests.ts";
import { type RpcServer, serveRpc } from "../../transport/rpc/server.ts";
import { counted } from "../printable.ts";
import type { RoleContext } from "./context.ts";
import { DRAIN_MS } from "./foreground.ts";
import type { Vaults } from "./vaults.ts";

export interface NodeServicesOptions {
  readonly parent: SupervisorRef;
  readonly tree: () => TreeNode;
  /** Where calls come in. */
  readonly link: NatsConnection;
  /** The account of the receipts. */
  readonly store: NatsConnection;
  /** The system account of the server that holds them: it proves that they are synced. */
  readonly storeSystem: NatsConnection;
  readonly server: ActorRef<NatsServerMessages>;
  readonly nodeId: NodeId;
  readonly nodeKey: NodeKey;
  readonly generation: number;
  /** What the controller's registry knows of the node's store. */
  readonly registeredStore: { readonly id: string; readonly sequence: number } | null;
  /** The folder of the receipts' own files, and of the vault's. */
  readonly receipts: string;
  /** The key that the controller seals secrets to, in this life of the worker. */
  readonly seal: WorkerLife["seal"];
  /** Where the node's own vault is started. */
  readonly vaults: Vaults;
  readonly place: { readonly cwd: string; readonly allowedRoots: readonly string[] };
  /** `LEMON_HOME`: nothing below it is served, whatever the roots are. */
  readonly home: string;
}

export interface NodeServices extends AsyncDisposable {
  readonly rpc: RpcServer;
  /** Rejects when this life of the worker can serve no longer. */
  readonly failed: Promise<never>;
  storeFacts(): Pick<StoreFacts, "storeId" | "storeSequence">;
  /** Takes no more runs; lets those under way finish until `hurry`, then cancels them. */
  drain(hurry: AbortSignal): Promise<void>;
}

/** Everything the node runs stands below it, and ends before the spawner and the store are let go. */
const ROOM = {
  id: "node",
  strategy: "one_for_one",
  restart: "permanent",
  intensity: { restarts: 5, windowMs: 60_000 },
  backoff: { firstMs: 100, maxMs: 5_000, resetAfterMs: 60_000 },
} as const;
/** As long as the hub keeps the way back (`ANSWER_WITHIN_MS` in transport/keys/claims.ts). */
const SERVING = { deadlineMs: 5_000, mutation: false } as const;
const SERVING_TRIES = 20;
const SERVING_AGAIN_MS = 100;
/** A server that restarts checks its whole store first. */
const RESTART = { deadlineMs: 60_000 } as const;

export async function startNodeServices(
  options: NodeServicesOptions,
  context: RoleContext,
): Promise<NodeServices> {
  const { nodeId, nodeKey, generation, link, server, place, registeredStore } = options;
  const { clock, log } = context;
  await using stack = new AsyncDisposableStack();

  const roots = pinRoots({
    roots: place.allowedRoots,
    defaultCwd: place.cwd,
    stateFolder: options.home,
  });
  stack.defer(() => roots.close());
  const spawner = new SystemSpawner({ log, clock });
  stack.defer(() => spawner.close());

  const processes = new ProcessOpening({
    clock,
    log,
    openStore: () =>
      openReceiptStore({
        kind: processRuns,
        connection: options.store,
        sys: options.storeSystem,
        directory: options.receipts,
        generation,
        clock,
        log,
        ...(registeredStore === null
          ? {}
          : {
              expected: {
                storeId: registeredStore.id,
                witnessedSequence: registeredStore.sequence,
              },
            }),
        restartServer: (serverId) => server.ask("restart", { serverId }, RESTART),
      }),
    startService: (receipts) =>
      startProcessService(room, {
        nodeId,
        generation,
        receipts,
        roots,
        spawner,
        environment: environmentForRuns(process.env),
        clock,
        log,
      }),
  });
  stack.defer(() => processes.close());
  const room = await options.parent.startSupervisor(ROOM);
  stack.defer(() => room.stop());
  // Its helper starts while the receipt store opens.
  const files = await startFileService(room, { roots });
  await processes.begin();
  const vault = await options.vaults.start(room, {
    scope: nodeId,
    connection: options.store,
    system: options.storeSystem,
    directory: options.receipts,
    restartServer: (serverId) => server.ask("restart", { serverId }, RESTART),
  });
  const secrets = nodeSecrets({
    vault,
    open: (sealed) => openSealed(options.seal, sealed),
    rotate: () => options.vaults.rotate(),
  });

  const measure = hostMeter({ defaultCwd: place.cwd, lemonVersion: LEMON_VERSION, clock });
  const audit = stack.use(new HostIoAudit({ clock, log }));
  const ping = (): NodePing => ({
    lemonVersion: LEMON_VERSION,
    ...processes.facts(),
    hostIo: audit.counts(),
  });
  const rpc = serveRpc({
    connection: link,
    nodeKey,
    generation,
    clock,
    log,
    handlers: {
      [NODE_PING]: ping,
      [NODE_TREE]: () => rowOf(options.tree()),
      "node.host.info": () => measure(),
      ...audit.over({
        "node.process.run": (params) => processes.run(params),
        "node.process.get": (params) => processes.get(params),
        "node.process.cancel": (params) => processes.cancel(params),
        ...fileHandlers(files),
        ...secretHandlers(secrets),
      }),
    },
  });
  // What still runs is ended before its answer is waited for.
  stack.defer(async () => void (await Promise.all([rpc.stop(), room.stop()])));

  await tellServing(link, nodeKey, context);
  void tellServingAgain(link, nodeKey, context);

  const owned = stack.move();
  return {
    rpc,
    failed: processes.failed,
    storeFacts() {
      const { storeId, storeSequence } = processes.facts();
      return { storeId, storeSequence };
    },
    async drain(hurry) {
      const runs = processes.underWay;
      if (runs > 0 && !hurry.aborted) {
        log.info({ runs, withinMs: DRAIN_MS }, "waiting for runs to end");
        context.say(
          `waits up to ${DRAIN_MS / 1_000} s for ${counted(runs, "run")} to end, then cancels what is left; a second Ctrl-C or SIGTERM cancels at once`,
        );
      }
      await processes.drain(hurry);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function fileHandlers(files: FileService) {
  return {
    "node.fs.list": (params: unknown) => files.call("list", params),
    "node.fs.stat": (params: unknown) => files.call("stat", params),
    "node.fs.read": (params: unknown) => files.call("read", params),
    "node.fs.write": (params: unknown) => files.call("write", params),
    "node.fs.mkdir": (params: unknown) => files.call("mkdir", params),
    "node.fs.move": (params: unknown) => files.call("move", params),
    "node.fs.delete.preview": (params: unknown) => files.call("preview", params),
    "node.fs.delete": (params: unknown) => files.call("delete", params),
  };
}

function secretHandlers(secrets: NodeSecrets) {
  return {
    "node.secrets.set": (params: unknown) => secrets.set(params),
    "node.secrets.list": (params: unknown) => secrets.list(params),
    "node.secrets.delete": (params: unknown) => secrets.delete(params),
    "node.secrets.receipt": (params: unknown) => secrets.receipt(params),
    "node.secrets.rotate": (params: unknown) => secrets.rotate(params),
  };
}

/** After a gap in its own connection, which the hub does not see: the link between the servers stood. */
async function tellServingAgain(
  link: NatsConnection,
  nodeKey: NodeKey,
  context: Pick<RoleContext, "clock" | "log">,
): Promise<void> {
  for await (const { type } of link.status()) {
    if (type === "reconnect") await tellServing(link, nodeKey, context);
  }
}

/**
 * Has the controller find it online now; without this it would a moment later. A hub that just took the
 * link in may not know yet where the controller listens, and nothing tells when it does.
 */
async function tellServing(
  link: NatsConnection,
  nodeKey: NodeKey,
  { clock, log }: Pick<RoleContext, "clock" | "log">,
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await requestController(link, nodeKey, NODE_SERVING, null, SERVING);
      return;
    } catch (failure) {
      const isUnheard = failure instanceof LemonError && failure.code === "unavailable";
      if (!isUnheard || tries === SERVING_TRIES) {
        log.info("the controller is not there to hear that this node serves");
        return;
      }
    }
    await new Promise<void>((resolve) => clock.after(SERVING_AGAIN_MS, resolve));
  }
}
