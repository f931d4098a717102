/**
 * Owns the node actors, and the way from a node's id to the one that serves it.
 *
 * 1. Every enrolled node has one actor, under one supervisor; a removed node has none.
 * 2. What is begun is completed at the next start: removals, and accounts that no record names.
 */
import type { Logger } from "pino";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId, NodeKey } from "../../protocol/ids.ts";
import type { ActorRef, SupervisorRef } from "../../supervision/actor.ts";
import type { Directory } from "./directory.ts";
import type { LinkAccounts, LinkCalls, LinkEvent } from "./link.ts";
import { type LiveNode, type NodeCall, type NodeProtocol, nodeSpec } from "./node.ts";
import type { NodeRecord, Opening } from "./record.ts";
import type { RegistryProtocol } from "./registry.ts";
import type { Secrets } from "./secrets.ts";
import type { EndSessions } from "./sessions.ts";
import type { NodeSockets } from "./sockets.ts";
import type { OpenedLink, WorkerSession } from "./worker-link.ts";

/** A little more than what its actor takes for it. */
const SERVING_DEADLINE = { deadlineMs: 3_000 } as const;
/** A change of credentials: some hub round trips of up to 5 s each; below a method's 30 s. */
const CHANGE_DEADLINE = { deadlineMs: 28_000 } as const;
/** How much longer than the call itself its asker waits (control-plane-wire.md 5.4), in ms. */
const AWAIT_GRACE_MS = 1_000;
const NOT_SEEN: LiveNode = { status: "offline", lastSeenMs: null, ping: null };

export interface FleetOptions {
  /** The node actors are its children. */
  readonly supervisor: SupervisorRef;
  readonly registry: ActorRef<RegistryProtocol>;
  readonly directory: Directory;
  readonly accounts: LinkAccounts;
  readonly calls: LinkCalls;
  readonly secrets: Secrets;
  readonly sockets: NodeSockets;
  readonly endSessions: EndSessions;
  readonly log: Logger;
}

export class Fleet {
  readonly #options: FleetOptions;
  readonly #actors = new Map<NodeId, Promise<ActorRef<NodeProtocol>>>();
  readonly #live = new Map<NodeId, LiveNode>();
  readonly #removing = new Set<NodeId>();

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  /** Starts an actor for every enrolled node, then completes what an earlier life left undone. */
  async start(): Promise<void> {
    const { directory } = this.#options;
    await Promise.all(directory.all().map(({ nodeId }) => this.ensure(nodeId)));
    await this.#completeRemovals();
    await this.#removeOrphans();
  }

  async ensure(nodeId: NodeId): Promise<void> {
    await this.#actor(nodeId);
  }

  live(nodeId: NodeId): LiveNode {
    const { sockets } = this.#options;
    const overLink = this.#live.get(nodeId) ?? NOT_SEEN;
    const overSocketMs = sockets.lastSeenMs(nodeId);
    return {
      ...overLink,
      status: sockets.find(nodeId) === null ? overLink.status : "online",
      lastSeenMs:
        overSocketMs === null
          ? overLink.lastSeenMs
          : Math.max(overSocketMs, overLink.lastSeenMs ?? 0),
    };
  }

  async open(nodeId: NodeId, opening: Opening, session: WorkerSession | null): Promise<OpenedLink> {
    this.#options.directory.byId(nodeId);
    const actor = await this.#actor(nodeId);
    return await actor
      .ask("open", { opening, session }, CHANGE_DEADLINE)
      .catch((error: unknown) => this.#orGone(nodeId, error));
  }

  /** Errors: those of the node actor's `call`, and of asking it. A read never has applied anything. */
  async call(nodeId: NodeId, call: NodeCall): Promise<unknown> {
    // It is there, but has no link for calls to go over.
    if (this.#options.sockets.find(nodeId) !== null) throw new LemonError("capability_missing");
    const actor = await this.#actor(nodeId);
    try {
      return await actor.ask("call", call, { deadlineMs: call.deadlineMs + AWAIT_GRACE_MS });
    } catch (error) {
      throw call.mutation || !(error instanceof LemonError) ? error : failedRead(error);
    }
  }

  async revoke(nodeId: NodeId): Promise<void> {
    const actor = await this.#actor(nodeId);
    await actor
      .ask("revoke", null, CHANGE_DEADLINE)
      .catch((error: unknown) => this.#orGone(nodeId, error));
  }

  /** Repeated after a failure, it completes what is left to do. */
  async remove(nodeId: NodeId): Promise<void> {
    const actor = await this.#actor(nodeId);
    this.#removing.add(nodeId);
    try {
      await actor.ask("remove", null, CHANGE_DEADLINE);
    } catch (error) {
      // Another removal was faster, and sent this one's actor away.
      if (!this.#isGone(nodeId)) throw error;
    } finally {
      this.#removing.delete(nodeId);
      if (this.#isGone(nodeId)) await this.#dismiss(nodeId);
    }
  }

  /** There is no such node any more. */
  forgotten(nodeId: NodeId): void {
    this.#options.sockets.forget(nodeId);
    // Its own actor may be the one that is just removing it, and has yet to answer.
    if (!this.#removing.has(nodeId)) void this.#dismiss(nodeId);
  }

  /** What the hub sees; of no account of ours, it is dropped. */
  linkEvent(event: LinkEvent): void {
    const account = event.type === "shared" ? event.account : event.connection.account;
    const record = this.#options.directory.ofAccount(account);
    if (record !== null) this.#tell(record.nodeId, (actor) => actor.tell("linkEvent", event));
  }

  /** An answer came that nobody waits for any more: a node that is not online may be back. */
  heard(account: NodeKey): void {
    const record = this.#options.directory.ofAccount(account);
    if (record === null || this.#live.get(record.nodeId)?.status === "online") return;
    this.#tell(record.nodeId, (actor) => actor.tell("heard", null));
  }

  /** A worker says that it serves; resolves when it is online, or did not answer in time. Errors: `node_not_found`. */
  async serving(account: NodeKey): Promise<void> {
    const record = this.#options.directory.ofAccount(account);
    if (record === null) throw new LemonError("node_not_found");
    const actor = await this.#actor(record.nodeId);
    await actor.ask("serving", null, SERVING_DEADLINE);
  }

  /** A change of the node's record was decided after whoever asked for it had to be sent away. */
  settled(nodeId: NodeId): void {
    this.#tell(nodeId, (actor) => actor.tell("settled", null));
  }

  /** An actor that is down sees for itself when it is back: record, hub and worker. */
  #tell(nodeId: NodeId, tell: (actor: ActorRef<NodeProtocol>) => void): void {
    this.#actors
      .get(nodeId)
      ?.then(tell)
      .catch(() => undefined);
  }

  #isGone(nodeId: NodeId): boolean {
    return this.#options.directory.known(nodeId) === null;
  }

  /** Whose actor was sent away because the node was removed is told that, whatever else it met. */
  #orGone(nodeId: NodeId, error: unknown): never {
    throw this.#isGone(nodeId) ? new LemonError("node_not_found", { cause: error }) : error;
  }

  async #dismiss(nodeId: NodeId): Promise<void> {
    const started = this.#actors.get(nodeId);
    this.#actors.delete(nodeId);
    await started?.then((actor) => actor.stop()).catch(() => undefined);
    this.#live.delete(nodeId);
  }

  #actor(nodeId: NodeId): Promise<ActorRef<NodeProtocol>> {
    const known = this.#actors.get(nodeId);
    if (known !== undefined) return known;
    if (this.#isGone(nodeId)) return Promise.reject(new LemonError("node_not_found"));
    const { supervisor } = this.#options;
    const onLive = (live: LiveNode): void => void this.#live.set(nodeId, live);
    const started = supervisor.startActor(nodeSpec({ ...this.#options, nodeId, onLive }));
    this.#actors.set(nodeId, started);
    started.catch(() => this.#actors.delete(nodeId));
    return started;
  }

  async #completeRemovals(): Promise<void> {
    for (const { nodeId } of this.#options.directory.removing()) {
      await this.#try("a node's removal is not complete yet", () => this.remove(nodeId));
    }
  }

  /** An account that was made and never written down: nobody holds credentials of it. */
  async #removeOrphans(): Promise<void> {
    const { directory, accounts } = this.#options;
    const records: NodeRecord[] = [...directory.all(), ...directory.removing()];
    const named = new Set<NodeKey | null>(records.flatMap((r) => [r.nodeKey, r.storeKey]));
    const orphans = accounts.nodes().filter((key) => !named.has(key));
    if (records.length === 0 && orphans.length > 0) {
      // An account is made for a record that stands. Without any it is the records that are missing.
      this.#options.log.warn(
        { accounts: orphans.length },
        "there are accounts, and no node at all",
      );
      return;
    }
    for (const account of orphans) {
      await this.#try("an account without a node is not removed yet", () =>
        accounts.remove(account),
      );
    }
  }

  /** The hub may be away; the next start, or the hub's keeper, tries again. */
  async #try(failed: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      this.#options.log.warn({ code: error.code }, failed);
    }
  }
}

/** Whatever went wrong with a read, it may be sent again. */
function failedRead(error: LemonError): LemonError {
  if (!error.mutationMayHaveApplied) return error;
  const { code, message, wire, details } = error;
  const harmless = { retrySafe: true, mutationMayHaveApplied: false };
  return new LemonError(code, { message, wire, details, cause: error, ...harmless });
}
