/**
 * Owns where the local node's receipts lie: in an account of the embedded hub, or, beside somebody
 * else's NATS, on a server of its own on this machine's disk. They belong to the destination.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import type { NodeId, NodeKey } from "../../protocol/ids.ts";
import type { ActorRef } from "../../supervision/actor.ts";
import { openConnection } from "../../transport/connection.ts";
import type { WorkerLife } from "../../transport/link/worker-life.ts";
import {
  type NatsServerMessages,
  natsServerActor,
} from "../../transport/nats-server/child-actor.ts";
import { nodeConfig } from "../../transport/nats-server/config.ts";
import type { RoleContext } from "./context.ts";
import type { Controller } from "./controller.ts";
import { unlessAsked } from "./foreground.ts";
import { type NodeFolders, storeFolders } from "./home.ts";
import type { OwnHub } from "./hub.ts";
import { natsServerBinary } from "./nats-binary.ts";

export interface LocalStore extends AsyncDisposable {
  readonly store: NatsConnection;
  /** Of the system account of the store's server. */
  readonly storeSystem: NatsConnection;
  readonly server: ActorRef<NatsServerMessages>;
  /** The folder of the receipts' own files. */
  readonly receipts: string;
}

export interface LocalStoreOptions {
  readonly controller: Pick<Controller, "hub" | "system">;
  readonly life: WorkerLife;
  readonly nodeId: NodeId;
  /** The node's second account on the embedded hub. */
  readonly storeKey: NodeKey | null;
  readonly folders: NodeFolders;
}

const CURRENT = { deadlineMs: 5_000 } as const;

/** Errors: those of the hub, or of a server's start. */
export async function openLocalStore(
  options: LocalStoreOptions,
  context: RoleContext,
): Promise<LocalStore> {
  const { own } = options.controller.hub;
  return own === null ? await openOwnServer(options, context) : await openOnHub(options, own);
}

async function openOnHub(
  { controller, life, nodeId, storeKey, folders }: LocalStoreOptions,
  { server, system }: OwnHub,
): Promise<LocalStore> {
  if (storeKey === null) throw new Error("a local node has an account for its receipts");
  const { hub } = controller;
  const jwt = await hub.link.issue(storeKey, life.store.getPublicKey(), { expiresInMs: null });
  const store = await hub.connectAs(`${life.serverName}-store`, {
    jwt,
    seed: life.store.getSeed(),
  });
  return {
    store,
    storeSystem: system,
    server,
    receipts: storeFolders(folders, nodeId).receipts,
    [Symbol.asyncDispose]: () => store.close(),
  };
}

async function openOwnServer(
  { controller, life, nodeId, folders }: LocalStoreOptions,
  { environment, say, asked }: RoleContext,
): Promise<LocalStore> {
  await using stack = new AsyncDisposableStack();
  const { server: directory, receipts } = storeFolders(folders, nodeId);
  const binary = await natsServerBinary(environment, say);
  const { system } = controller;
  const spec = natsServerActor({
    binary,
    directory,
    config: (places) =>
      nodeConfig(
        {
          serverName: life.serverName,
          domain: "local",
          storeUser: life.store.getPublicKey(),
          sysUser: life.system.getPublicKey(),
        },
        places,
      ),
  });
  const server = await unlessAsked(asked, system, () => system.root.startActor(spec));
  const { clientUrl: url } = await server.ask("current", null, CURRENT);
  const open = async (name: string, nkeySeed: Uint8Array): Promise<NatsConnection> => {
    const connection = await openConnection({ url, name, as: { nkeySeed } });
    stack.defer(() => connection.close());
    return connection;
  };
  const storeSystem = await open("worker-system", life.system.getSeed());
  const store = await open("worker-store", life.store.getSeed());
  const owned = stack.move();
  return {
    store,
    storeSystem,
    server,
    receipts,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
