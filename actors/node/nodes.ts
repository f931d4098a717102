/**
 * The door of the controller's knowledge of its fleet: enrolment, presence, credentials, calls.
 *
 *   /nodes            one_for_one
 *     registry        the only writer of node records
 *     pairing         requests, codes and challenges, in memory
 *     enrolled        one_for_one: one actor a node
 */
import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId, NodeKey } from "../../protocol/ids.ts";
import { NODE_CLOSE } from "../../protocol/methods/enrolment.ts";
import { nodeName } from "../../protocol/methods/nodes.ts";
import type { SupervisorRef } from "../../supervision/actor.ts";
import type { Documents, DocumentsOptions } from "../../transport/documents.ts";
import type { SessionTokens } from "../session/authenticate.ts";
import type { MethodHandlers, OnNode } from "../session/handler.ts";
import { Directory } from "./directory.ts";
import { type EnrolmentMethod, enrolmentMethods, type RedeemDevice } from "./enrolment-methods.ts";
import { type NodeEventMethod, nodeEventMethods } from "./event-methods.ts";
import { type FileMethod, fileMethods } from "./file-methods.ts";
import { Fleet } from "./fleet.ts";
import { type FleetMethod, fleetMethods } from "./fleet-methods.ts";
import type { LinkAccounts, LinkCalls, LinkEvent } from "./link.ts";
import { pairingSpec } from "./pairing.ts";
import { type ProcessMethod, processMethods } from "./process-methods.ts";
import { type NodeRecord, nodeRecord, type Opening } from "./record.ts";
import { registrySpec } from "./registry.ts";
import { type SecretMethod, secretMethods } from "./secret-methods.ts";
import { type Secrets, systemSecrets } from "./secrets.ts";
import type { EndSessions, NodeEvent } from "./sessions.ts";
import { type NodeSocket, NodeSockets } from "./sockets.ts";
import { type NodeTree, nodeTrees } from "./trees.ts";
import type { OpenedLink } from "./worker-link.ts";

/** Where node records lie: for `openDocuments`, with the controller's connection. */
export const NODE_DOCUMENTS: Pick<DocumentsOptions<NodeRecord>, "bucket" | "parse"> = {
  bucket: "lemon-nodes",
  parse: (stored) => nodeRecord.parse(stored),
};

/** What a local node is of. */
const LOCAL_TYPE = "coding_agent";
const REGISTRY_DEADLINE = { deadlineMs: 20_000 } as const;

export interface NodesOptions {
  /** Where the supervisor of this room is started, under the id `nodes`. */
  readonly parent: SupervisorRef;
  readonly documents: Documents<NodeRecord>;
  readonly accounts: LinkAccounts;
  readonly calls: LinkCalls;
  readonly clock: Clock;
  readonly log: Logger;
  readonly endSessions: EndSessions;
  readonly publish: (event: NodeEvent) => void;
  /** Where leafs connect below the controller's own URL. Default: right there. */
  readonly leafPath?: string;
  /** Where they connect instead, past the controller. Default null: they do not. */
  readonly leafUrl?: string | null;
  /** Why no node can join, and no new worker of one can open its link: one line. Default null: they can. */
  readonly joinsRefused?: string | null;
  readonly secrets?: Secrets;
  /** Default: there are no devices. */
  readonly redeemDevice?: RedeemDevice;
}

type NodeMethod =
  | NodeEventMethod
  | FleetMethod
  | FileMethod
  | ProcessMethod
  | SecretMethod
  | EnrolmentMethod;

export interface Nodes {
  readonly methods: MethodHandlers<NodeMethod>;
  readonly sessionTokens: SessionTokens;
  /** A node's connection to `/ws` was admitted. */
  readonly arrived: OnNode;
  /** The node a caller names by id or name, and the connection that serves it now. Errors: `node_not_found`. */
  socketOf(selector: string): { readonly record: NodeRecord; readonly socket: NodeSocket | null };
  /** What the hub's link tells (`HubLinkOptions.onEvent`). */
  linkEvent(event: LinkEvent): void;
  /** What a worker tells over its link: that it serves from now on (`NODE_SERVING`). Resolves when it was asked. */
  serving(account: NodeKey): Promise<void>;
  /** An answer of this node came that nobody waits for (`RpcCallerOptions.onStray`). */
  heard(account: NodeKey): void;
  /**
   * The node inside this process: enrolled on the first start, the same ever after, whatever it was
   * renamed to. Errors: `node_name_in_use`.
   */
  enrolLocal(local: { readonly name: string }): Promise<NodeRecord>;
  /** `node.link.open` for the local node, which has no session. Errors: as there. */
  openLocal(nodeId: NodeId, opening: Opening): Promise<OpenedLink>;
  /** The trees of the nodes that are not offline, or of one (id or name). Errors: `node_not_found`. */
  trees(selector?: string): Promise<NodeTree[]>;
}

/** Resolves when every enrolled node has its actor. Errors: those of `Documents`. */
export async function openNodes(options: NodesOptions): Promise<Nodes> {
  const { parent, documents, endSessions, publish, clock } = options;
  const { leafPath = "", leafUrl = null, joinsRefused = null } = options;
  const secrets = options.secrets ?? systemSecrets;
  const redeemDevice = options.redeemDevice ?? (async () => null);
  const directory = new Directory((nodeId) => fleet.forgotten(nodeId));
  const room = await parent.startSupervisor({
    id: "nodes",
    strategy: "one_for_one",
    restart: "permanent",
    intensity: { restarts: 10, windowMs: 60_000 },
    backoff: { firstMs: 100, maxMs: 5_000, resetAfterMs: 30_000 },
  });
  const registry = await room.startActor(
    registrySpec({
      documents,
      directory,
      onSessionReplaced: (nodeId, generation) =>
        endSessions(nodeId, generation, NODE_CLOSE.replaced),
      onSettled: (nodeId) => fleet.settled(nodeId),
    }),
  );
  const pairing = await room.startActor(pairingSpec({ registry, directory, secrets }));
  const supervisor = await room.startSupervisor({
    id: "enrolled",
    strategy: "one_for_one",
    restart: "permanent",
    // For all nodes together: what shakes many at once (a hub that went away) must not end them all.
    intensity: { restarts: 100, windowMs: 60_000 },
    backoff: { firstMs: 100, maxMs: 5_000, resetAfterMs: 30_000 },
    stopOrder: "together",
  });
  const sockets = new NodeSockets({
    directory,
    clock,
    // What is not written down now is only less exact after the controller's next start.
    onAway: (nodeId, lastSeenMs) => {
      const seen = { nodeId, lastSeenMs, storeId: null, storeSequence: null };
      registry.ask("seen", seen, REGISTRY_DEADLINE).catch(() => undefined);
    },
  });
  const fleet: Fleet = new Fleet({ ...options, supervisor, registry, directory, secrets, sockets });
  await fleet.start();

  const newLocal = async (name: string): Promise<NodeRecord> => {
    const enrolment = {
      nodeId: randomUUID() as NodeId,
      name,
      type: LOCAL_TYPE,
      capabilities: {},
      recoveryHash: null,
      local: true,
    };
    try {
      return await registry.ask("enrol", { enrolment, held: new Set() }, REGISTRY_DEADLINE);
    } catch (error) {
      if (!(error instanceof LemonError) || error.code !== "node_name_in_use") throw error;
      const message =
        "A joined node has the name of the local one; rename or remove it with a controller of `lemon start`";
      throw new LemonError("node_name_in_use", { message, cause: error });
    }
  };

  return {
    methods: {
      ...fleetMethods({ fleet, directory, registry }),
      ...processMethods({ fleet, directory }),
      ...fileMethods({ fleet, directory, clock }),
      ...secretMethods({ fleet, directory }),
      ...nodeEventMethods({ sockets, clock, publish }),
      ...enrolmentMethods({
        fleet,
        directory,
        pairing,
        publish,
        clock,
        redeemDevice,
        leafPath,
        leafUrl,
        joinsRefused,
      }),
    },
    sessionTokens: {
      identify: (token) => registry.ask("identify", { token }, REGISTRY_DEADLINE),
    },
    arrived: sockets.arrived,
    socketOf(selector) {
      const record = directory.resolve(selector);
      return { record, socket: sockets.find(record.nodeId) };
    },
    linkEvent: (event) => fleet.linkEvent(event),
    serving: (account) => fleet.serving(account),
    heard: (account) => fleet.heard(account),
    async enrolLocal({ name: asked }) {
      const name = nodeName.safeParse(asked);
      if (!name.success) throw new LemonError("invalid_params");
      const known = directory.all().find(({ local }) => local);
      const record = known ?? (await newLocal(name.data));
      await fleet.ensure(record.nodeId);
      return record;
    },
    openLocal: (nodeId, opening) => fleet.open(nodeId, opening, null),
    trees: (selector) => nodeTrees(fleet, directory, selector),
  };
}
