/**
 * Owns the node in the controller's own process (`lemon up`): one like any other to everything above
 * `transport/`, but without a leaf of its own. Its link is an account of the hub.
 */
import type { NodeId } from "../../protocol/ids.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";
import { createWorkerLife } from "../../transport/link/worker-life.ts";
import { inboxPrefix } from "../../transport/rpc/subjects.ts";
import type { UpOptions } from "../options.ts";
import { NODE_CAPABILITIES } from "./capabilities.ts";
import type { RoleContext } from "./context.ts";
import type { Controller } from "./controller.ts";
import { claimIdentity, LOCAL_NODE, nodeFolders } from "./home.ts";
import { openLocalStore } from "./local-store.ts";
import { type NodeServices, startNodeServices } from "./node-services.ts";

export interface LocalNode extends AsyncDisposable {
  readonly nodeId: NodeId;
  /** In the fleet: `node.rename` may have changed it. */
  readonly name: string;
  readonly services: NodeServices;
}

/** Errors: `identity_in_use`; those of the fleet and of the connections. */
export async function startLocalNode(
  controller: Controller,
  options: UpOptions,
  context: RoleContext,
): Promise<LocalNode> {
  const { hub, nodes, system } = controller;
  await using stack = new AsyncDisposableStack();
  const folders = nodeFolders(options.home, LOCAL_NODE);
  const lock = await claimIdentity(folders.directory, "the local node");
  stack.defer(() => lock.release());

  const life = createWorkerLife();
  stack.defer(() => life.end());
  const { nodeId } = await nodes.enrolLocal({ name: LOCAL_NODE });
  const opened = await nodes.openLocal(nodeId, {
    linkKey: life.link.getPublicKey(),
    sealKey: life.seal.getPublicKey(),
    serverName: life.serverName,
    lemonVersion: LEMON_VERSION,
    capabilities: NODE_CAPABILITIES,
    storeId: null,
    storeSequence: null,
  });
  const { record, nodeKey } = opened;
  const link = await hub.connectAs(
    life.serverName,
    { jwt: opened.linkJwt, seed: life.link.getSeed() },
    inboxPrefix(nodeKey),
  );
  stack.defer(() => link.close());
  const { storeKey } = record;
  const { store, storeSystem, server, receipts } = stack.use(
    await openLocalStore({ controller, life, nodeId, storeKey, folders }, context),
  );

  const services = stack.use(
    await startNodeServices(
      {
        parent: system.root,
        // Its actors stand in the controller's own tree.
        tree: () => system.snapshot(),
        link,
        store,
        storeSystem,
        server,
        nodeId,
        nodeKey,
        generation: record.generation,
        registeredStore: record.store,
        receipts,
        seal: life.seal,
        vaults: controller.vaults,
        place: options,
        home: options.home,
      },
      context,
    ),
  );
  const owned = stack.move();
  return { nodeId, name: record.name, services, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
