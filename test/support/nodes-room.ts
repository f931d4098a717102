/** Owns the whole node room in memory for tests: its actors on a bent clock, its store, hub and workers. */
import { randomBytes } from "node:crypto";
import { createCurve, createUser } from "@nats-io/nkeys";
import {
  NODE_DOCUMENTS,
  type Nodes,
  type NodesOptions,
  openNodes,
} from "../../actors/node/nodes.ts";
import type { NodeRecord } from "../../actors/node/record.ts";
import type { NodeEvent } from "../../actors/node/sessions.ts";
import type { Caller, Identity } from "../../actors/session/handler.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { ConnectionId, NodeId, NodeKey } from "../../protocol/ids.ts";
import type { InputOf, ParamsOf, ResultOf } from "../../protocol/methods.ts";
import type { NodePing } from "../../protocol/node-link.ts";
import { SCOPES_OF_ROLE } from "../../protocol/scopes.ts";
import { MemoryDocuments } from "./memory-documents.ts";
import { MemoryLink } from "./memory-link.ts";
import { type TestSystem, testSystem } from "./supervision.ts";

export interface EndedSessions {
  readonly nodeId: NodeId;
  readonly olderThan: number | null;
  readonly code: number;
}

/** A connection as a handler sees it, and what became of it. */
export interface TestCaller extends Caller {
  readonly closedWith: { readonly code: number; readonly reason: string }[];
  end(): void;
}

let connections = 0;

export function caller(identity: Identity): TestCaller {
  connections += 1;
  const ended = new AbortController();
  const closedWith: { code: number; reason: string }[] = [];
  return {
    ...identity,
    connectionId: `connection-${connections}` as ConnectionId,
    scopes: SCOPES_OF_ROLE[identity.role],
    // Each from an address of its own: what one address may do is bounded.
    remoteAddress: `10.0.${connections >> 8}.${connections & 255}`,
    closed: ended.signal,
    closedWith,
    close: (code, reason) => closedWith.push({ code, reason }),
    end: () => ended.abort(),
  };
}

export const operator = (): TestCaller => caller({ role: "operator", clientId: null, node: null });

export const CAPABILITIES = {
  "node.host.info": { version: 1 },
  "node.process.run": { version: 1 },
  "node.process.get": { version: 1 },
  "node.process.cancel": { version: 1 },
};

/** How a new worker life shows itself. */
export function opening(
  changes: Partial<InputOf<"node.link.open">> = {},
): ParamsOf<"node.link.open"> {
  return {
    linkKey: createUser().getPublicKey(),
    sealKey: createCurve().getPublicKey(),
    serverName: `n-${randomBytes(12).toString("hex")}`,
    lemonVersion: "2026.11.0",
    capabilities: CAPABILITIES,
    storeId: "store-1",
    storeSequence: 7,
    ...changes,
  };
}

export function ping(changes: Partial<NodePing> = {}): NodePing {
  return {
    lemonVersion: "2026.11.0",
    receipts: { retained: 3, limit: 1_000 },
    receiptStore: "ready",
    storeId: "store-1",
    storeSequence: 7,
    hostIo: { "node.fs.read": { done: 2, refused: 1, unknown: 0 } },
    ...changes,
  };
}

export interface Paired {
  readonly nodeId: NodeId;
  readonly recoveryToken: string;
  readonly challenge: string;
}

export class NodesRoom {
  readonly system: TestSystem;
  readonly documents: MemoryDocuments<NodeRecord>;
  readonly link: MemoryLink;
  readonly ended: EndedSessions[] = [];
  readonly events: NodeEvent[] = [];
  readonly nodes: Nodes;

  private constructor(
    system: TestSystem,
    documents: MemoryDocuments<NodeRecord>,
    link: MemoryLink,
    nodes: Nodes,
    ended: EndedSessions[],
    events: NodeEvent[],
  ) {
    this.system = system;
    this.documents = documents;
    this.link = link;
    this.nodes = nodes;
    this.ended = ended;
    this.events = events;
  }

  /** A controller that starts on this store and hub; both empty unless given. */
  static async open(
    documents = new MemoryDocuments<NodeRecord>(NODE_DOCUMENTS.parse),
    link = new MemoryLink(),
    system = testSystem(),
    more: Partial<NodesOptions> = {},
  ): Promise<NodesRoom> {
    const ended: EndedSessions[] = [];
    const events: NodeEvent[] = [];
    const nodes = await openNodes({
      parent: system.root,
      documents,
      accounts: link,
      calls: link,
      clock: system.clock,
      log: system.log,
      endSessions: (nodeId, olderThan, { code }) => ended.push({ nodeId, olderThan, code }),
      publish: (event) => events.push(event),
      ...more,
    });
    return new NodesRoom(system, documents, link, nodes, ended, events);
  }

  /** The same store and hub under a new controller; everything in memory is gone. */
  async restart(more: Partial<NodesOptions> = {}): Promise<NodesRoom> {
    await this.close();
    return await NodesRoom.open(this.documents, this.link, testSystem(), more);
  }

  close(): Promise<void> {
    return this.system.shutdown();
  }

  get clock() {
    return this.system.clock;
  }

  /** Requests and approves. */
  async pair(name: string, more: Partial<ParamsOf<"node.pair.request">> = {}): Promise<Paired> {
    const { methods } = this.nodes;
    const asked = { nodeType: "coding_agent", nodeName: name, ...more };
    const { pairingId } = await methods["node.pair.request"](asked, operator());
    const approved = await methods["node.pair.approve"]({ pairingId }, operator());
    return {
      nodeId: approved.nodeId as NodeId,
      recoveryToken: approved.token ?? "",
      challenge: approved.challengeToken,
    };
  }

  async redeem(challenge: string): Promise<ResultOf<"connect.challenge">> {
    return await this.nodes.methods["connect.challenge"]({ challenge }, operator());
  }

  /** A connection with this session token. Throws what `connect` would be refused with. */
  async connect(token: string): Promise<TestCaller> {
    const identity = await this.nodes.sessionTokens.identify(token);
    if (identity === null || identity === "expired") throw new LemonError("unauthorized");
    return caller(identity);
  }

  /** From nothing to a connected session. */
  async join(
    name: string,
  ): Promise<Paired & { readonly token: string; readonly session: TestCaller }> {
    const paired = await this.pair(name);
    const { token } = await this.redeem(paired.challenge);
    return { ...paired, token, session: await this.connect(token) };
  }

  /** From nothing to a worker that answers pings. */
  async online(
    name: string,
    worker: {
      readonly answer?: (method: string, params: unknown) => unknown;
      readonly capabilities?: Readonly<Record<string, unknown>>;
      readonly sealKey?: string;
    } = {},
  ) {
    const joined = await this.join(name);
    const { capabilities = CAPABILITIES, sealKey } = worker;
    const shown = opening({ capabilities, ...(sealKey === undefined ? {} : { sealKey }) });
    const opened = await this.nodes.methods["node.link.open"](shown, joined.session);
    const nodeKey = opened.nodeKey as NodeKey;
    this.link.workers.set(nodeKey, ({ method, params }) =>
      method === "node.ping" ? ping() : worker.answer?.(method, params),
    );
    await this.clock.advance(100);
    return { ...joined, opening: shown, opened, nodeKey };
  }

  async row(name: string): Promise<ResultOf<"node.list">["nodes"][number]> {
    const { nodes } = await this.nodes.methods["node.list"]({}, operator());
    const found = nodes.find((node) => node.name === name);
    if (found === undefined) throw new Error(`no node is named so`);
    return found;
  }
}
