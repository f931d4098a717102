/**
 * Owns one enrolled node while the controller runs: whether it answers, what its present worker life
 * can do, the calls to it, and the turns in which its lives and credentials change.
 *
 * 1. Calls never wait for a change of credentials; changes run one at a time, in the order asked for.
 * 2. A call goes to the worker life that was current when it was made, or nowhere.
 * 3. A life that ended, a link that was cut, and a silence that makes the node offline settle the calls
 *    under way at once, as uncertain.
 */
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId } from "../../protocol/ids.ts";
import { NODE_PING, type NodePing, nodePing } from "../../protocol/node-link.ts";
import {
  type ActorContext,
  type ActorRef,
  type ActorSpec,
  type Behaviour,
  later,
} from "../../supervision/actor.ts";
import { Turns, type TurnsBound } from "../../supervision/turns.ts";
import type { Directory } from "./directory.ts";
import type { LinkAccounts, LinkCall, LinkCalls, LinkEvent } from "./link.ts";
import { PING_DEADLINE_MS, Presence, type Status } from "./presence.ts";
import { type NodeRecord, type Opening, storeSeen } from "./record.ts";
import type { RegistryProtocol } from "./registry.ts";
import type { Secrets } from "./secrets.ts";
import type { EndSessions } from "./sessions.ts";
import { type OpenedLink, WorkerLink, type WorkerSession } from "./worker-link.ts";

/** What is known of a node beyond its record. */
export interface LiveNode {
  readonly status: Status;
  /** Unix ms of its last answer in this controller's life. */
  readonly lastSeenMs: number | null;
  /** Facts of its last answer; null while it is not online. */
  readonly ping: NodePing | null;
}

/** A call, but for what the node actor knows: the account and the worker life. */
export interface NodeCall extends Readonly<Omit<LinkCall, "generation">> {
  /** The capability that the live worker must offer at version 1; null asks for none. */
  readonly capability: string | null;
}

export type NodeProtocol = {
  /** Errors: those of `WorkerLink.open`. */
  open: (ask: { readonly opening: Opening; readonly session: WorkerSession | null }) => OpenedLink;
  /**
   * The node's answer, as plain data. Errors: `node_offline`, `capability_missing` (nothing was sent);
   * the node's own and those of `LinkCalls`.
   */
  call: (call: NodeCall) => unknown;
  /** Its worker serves from now on: resolves with what asking it gives. */
  serving: (ask: null) => Status;
  revoke: (ask: null) => NodeRecord;
  remove: (ask: null) => null;
  linkEvent: (event: LinkEvent) => void;
  /** Somebody on its link answered a call that waits no more. */
  heard: (ask: null) => void;
  /** The record may say something that nobody was answered with. */
  settled: (ask: null) => void;
};

/** What changes of credentials take turns under. */
const CREDENTIALS = "credentials";
/** One under way and 16 that wait; each takes about a second when the hub is slow. */
const CHANGES: TurnsBound = {
  limit: 17,
  refusal: () => new LemonError("rate_limited", { details: { retryAfterMs: 1_000 } }),
};

export interface NodeOptions {
  readonly nodeId: NodeId;
  readonly registry: ActorRef<RegistryProtocol>;
  readonly directory: Directory;
  readonly accounts: LinkAccounts;
  readonly calls: LinkCalls;
  readonly secrets: Secrets;
  readonly endSessions: EndSessions;
  readonly onLive: (live: LiveNode) => void;
}

/** How often a growing store is written down while the node stays online. */
const SEEN_EVERY_MS = 60_000;
/** For how long a node that says it serves is asked before it is told what came of it. */
const PROOF_WITHIN_MS = 2_000;
const REGISTRY_DEADLINE = { deadlineMs: 20_000 } as const;
/** Whose turn a ping takes among the callers. */
const PING_CALLER = "presence";

export function nodeSpec(options: NodeOptions): ActorSpec<NodeProtocol> {
  return {
    id: options.nodeId,
    kind: "node",
    restart: "permanent",
    start: (context) => new Node(options, context).behaviour,
  };
}

class Node {
  readonly #options: NodeOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #crash: (error: unknown) => void;
  readonly #turns = new Turns(CHANGES);
  readonly #presence: Presence;
  readonly #link: WorkerLink;
  #status: Status = "offline";
  #lastSeenMs: number | null = null;
  /** The newest facts it told in this controller's life. */
  #lastPing: NodePing | null = null;
  #writtenAtMs: number;
  /** A life that was there before us may answer any moment; one that begins has yet to connect. */
  #firstSight: "unknown" | "offline" = "unknown";

  constructor(options: NodeOptions, { clock, log, crash }: ActorContext<NodeProtocol>) {
    this.#options = options;
    this.#crash = crash;
    this.#clock = clock;
    this.#log = log;
    this.#writtenAtMs = clock.monotonicMs();
    this.#presence = new Presence({
      clock,
      ping: () => this.#ping(),
      onChange: (status, ping) => this.#changed(status, ping),
      onSilence: () => this.#settleCalls(),
    });
    this.#link = new WorkerLink({
      ...options,
      onLifeEnded: () => {
        this.#presence.end();
        this.#settleCalls();
      },
      onLifeBegun: () => this.#presence.begin(this.#firstSight),
    });
    options.onLive({ status: "offline", lastSeenMs: null, ping: null });
    this.#settled();
    this.#firstSight = "offline";
  }

  readonly behaviour: Behaviour<NodeProtocol> = {
    handlers: {
      open: ({ opening, session }) =>
        later(
          this.#turns.take(CREDENTIALS, async () => {
            await this.#writeStoreDown();
            const opened = await this.#link.open(opening, session);
            this.#presence.expect();
            return opened;
          }),
        ),
      call: (call) => later(this.#call(call)),
      serving: () => later(this.#presence.prove(PROOF_WITHIN_MS)),
      revoke: () => later(this.#turns.take(CREDENTIALS, () => this.#link.revoke())),
      remove: () =>
        later(
          this.#turns.take(CREDENTIALS, async () => {
            await this.#link.remove();
            return null;
          }),
        ),
      linkEvent: (event) => this.#linkEvent(event),
      // Of whichever life: a ping asks the present one.
      heard: () => this.#presence.answered(this.#presence.watch),
      settled: () => this.#settled(),
    },
    stop: () => {
      this.#presence.end();
      this.#settleCalls();
    },
  };

  get #record(): NodeRecord | null {
    return this.#options.directory.find(this.#options.nodeId);
  }

  async #call({ capability, ...call }: NodeCall): Promise<unknown> {
    const { nodeKey, life, generation, revoked } = this.#options.directory.byId(
      this.#options.nodeId,
    );
    if (revoked) {
      throw new LemonError("node_offline", {
        message: "The node is revoked; nothing was delivered",
        retrySafe: false,
      });
    }
    if (nodeKey === null || life === null || this.#presence.status === "offline") {
      throw new LemonError("node_offline");
    }
    if (capability !== null && !offers(life.capabilities, capability)) {
      throw new LemonError("capability_missing");
    }
    const { watch } = this.#presence;
    try {
      const answer = await this.#options.calls.call(nodeKey, { ...call, generation });
      this.#presence.answered(watch);
      return answer;
    } catch (error) {
      if (!(error instanceof LemonError) || error.mutationMayHaveApplied) throw error;
      // Nobody took it: whoever asks next is told so at once.
      if (error.code === "node_offline") this.#presence.refused(watch);
      if (error.code !== "node_superseded") throw error;
      throw new LemonError("node_offline", {
        message: "The node changes its worker just now; nothing was delivered",
        cause: error,
      });
    }
  }

  async #ping(): Promise<NodePing> {
    const record = this.#record;
    if (record === null || record.nodeKey === null) throw new LemonError("node_offline");
    const answer = await this.#options.calls.call(record.nodeKey, {
      method: NODE_PING,
      params: {},
      generation: record.generation,
      deadlineMs: PING_DEADLINE_MS,
      mutation: false,
      caller: PING_CALLER,
    });
    const read = nodePing.safeParse(answer);
    if (!read.success) throw new LemonError("invalid_remote_payload");
    return read.data;
  }

  #linkEvent(event: LinkEvent): void {
    const linkKey = this.#record?.life?.linkKey;
    if (linkKey === undefined) return;
    if (event.type === "shared") {
      if (event.userKey !== linkKey) return;
      this.#log.warn("a worker's link credentials are in other hands; the life is ended");
      this.#inBackground(() => this.#link.retire(linkKey));
    } else if (event.connection.userKey !== linkKey) {
      // The link of an earlier life says nothing about this one.
    } else if (event.type === "connected") {
      this.#presence.expect();
      if (event.displaces) this.#settleCalls();
    } else if (event.remaining === 0) {
      this.#presence.gone();
      this.#settleCalls();
    }
  }

  #settled(): void {
    this.#link.reconcile();
    this.#inBackground(() => this.#link.cutRetired());
  }

  /** Work that nobody waits for. What it leaves undone, the next change of credentials does first. */
  #inBackground(work: () => Promise<void>): void {
    this.#turns.take(CREDENTIALS, work).catch((error: unknown) => {
      if (error instanceof LemonError) {
        this.#log.warn({ code: error.code }, "a change of credentials is not complete yet");
      } else {
        this.#crash(error);
      }
    });
  }

  #settleCalls(): void {
    const { calls, directory, nodeId } = this.#options;
    const nodeKey = directory.known(nodeId)?.nodeKey ?? null;
    if (nodeKey !== null) calls.settleNode(nodeKey, "link_lost");
  }

  #changed(status: Status, ping: NodePing | null): void {
    const wentAway = this.#status === "online" && status !== "online";
    this.#status = status;
    if (ping !== null) {
      this.#lastSeenMs = this.#clock.nowMs();
      this.#lastPing = ping;
    }
    this.#options.onLive({ status, lastSeenMs: this.#lastSeenMs, ping });
    this.#writeDown(wentAway);
  }

  /** What pings told is volatile, but for what the next controller, or a restored store, must not miss. */
  #writeDown(wentAway: boolean): void {
    const record = this.#record;
    if (record === null) return;
    const due =
      record.store === null || this.#clock.monotonicMs() - this.#writtenAtMs >= SEEN_EVERY_MS;
    if (!wentAway && !(due && this.#storeGrew(record))) return;
    // A write that fails is made up for by the next one.
    this.#write().catch(() => undefined);
  }

  /** A life on an older copy of the store has to learn how far the store had come by the last ping. */
  async #writeStoreDown(): Promise<void> {
    const record = this.#record;
    if (record !== null && this.#storeGrew(record)) await this.#write();
  }

  #storeGrew(record: NodeRecord): boolean {
    if (this.#lastPing === null) return false;
    const { storeId, storeSequence } = this.#lastPing;
    return storeSeen(record, storeId, storeSequence) !== record;
  }

  async #write(): Promise<void> {
    const { registry, nodeId } = this.#options;
    if (this.#lastPing === null || this.#lastSeenMs === null) return;
    this.#writtenAtMs = this.#clock.monotonicMs();
    const { storeId, storeSequence } = this.#lastPing;
    const seen = { nodeId, lastSeenMs: this.#lastSeenMs, storeId, storeSequence };
    await registry.ask("seen", seen, REGISTRY_DEADLINE);
  }
}

/** Whether a worker life declares version 1 of a method. */
function offers(capabilities: NodeRecord["capabilities"], method: string): boolean {
  const declared = Object.hasOwn(capabilities, method) ? capabilities[method] : undefined;
  return (
    typeof declared === "object" && declared !== null && Reflect.get(declared, "version") === 1
  );
}
