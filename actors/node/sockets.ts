/**
 * Owns the nodes that are served by their `/ws` connection alone, without a link of their own (the browser
 * node of control-plane-wire.md 7.3): which connection serves each, and whether it answers.
 *
 * 1. One connection serves a node: the newest. The one before is closed as replaced.
 * 2. Such a node is online while its connection answers: offline within 8 s of its last byte, and at once
 *    when the connection ends.
 * 3. A node that has, or promised, a worker with a link is none of these: its link says whether it is there.
 */
import type { Clock } from "../../host/clock.ts";
import type { ConnectionId, NodeId } from "../../protocol/ids.ts";
import { NODE_CLOSE } from "../../protocol/methods/enrolment.ts";
import type { Caller, OnNode } from "../session/handler.ts";
import type { Directory } from "./directory.ts";
import { isServedBySocket } from "./record.ts";

/** The contract's 8 s, with room for a frame that comes in slowly: that is noticed at the next ping. */
export const SOCKET_PING_EVERY_MS = 1_500;
export const SOCKET_SILENT_MS = 6_000;

/** The connection that serves a node, while it answers. */
export interface NodeSocket {
  readonly connectionId: ConnectionId;
  readonly sessionGeneration: number;
  /** Aborted when the connection ends. */
  readonly closed: AbortSignal;
}

export interface NodeSocketsOptions {
  readonly directory: Directory;
  readonly clock: Clock;
  /** A node went away, or fell silent; `lastSeenMs` in Unix ms. */
  readonly onAway: (nodeId: NodeId, lastSeenMs: number) => void;
}

interface Serving extends NodeSocket {
  readonly close: Caller["close"];
  readonly silentForMs: () => number;
  answering: boolean;
}

export class NodeSockets {
  readonly #options: NodeSocketsOptions;
  readonly #serving = new Map<NodeId, Serving>();
  /** Unix ms, of those that are not being heard right now. */
  readonly #lastSeenMs = new Map<NodeId, number>();

  constructor(options: NodeSocketsOptions) {
    this.#options = options;
  }

  readonly arrived: OnNode = ({ node, connectionId, closed, close }, attend) => {
    if (node === null || closed.aborted) return;
    const { nodeId, sessionGeneration } = node;
    const record = this.#options.directory.find(nodeId);
    if (record === null || !isServedBySocket(record)) return;
    const before = this.#serving.get(nodeId);
    const silentForMs = attend({
      pingMs: SOCKET_PING_EVERY_MS,
      silentMs: SOCKET_SILENT_MS,
      onAnswering: (answering) => {
        serving.answering = answering;
        if (!answering && this.#serving.get(nodeId) === serving) this.#away(nodeId, serving);
      },
    });
    const serving: Serving = {
      connectionId,
      sessionGeneration,
      closed,
      close,
      silentForMs,
      answering: true,
    };
    this.#serving.set(nodeId, serving);
    closed.addEventListener("abort", () => this.#ended(nodeId, serving), { once: true });
    before?.close(NODE_CLOSE.replaced.code, NODE_CLOSE.replaced.reason);
  };

  /** Null when none serves it now. */
  find(nodeId: NodeId): NodeSocket | null {
    const serving = this.#serving.get(nodeId);
    if (serving === undefined || !serving.answering || serving.closed.aborted) return null;
    const record = this.#options.directory.find(nodeId);
    return record !== null && isServedBySocket(record) ? serving : null;
  }

  /** Unix ms; null when it was not seen here. */
  lastSeenMs(nodeId: NodeId): number | null {
    const serving = this.#serving.get(nodeId);
    if (serving === undefined) return this.#lastSeenMs.get(nodeId) ?? null;
    return this.#heardAtMs(serving);
  }

  /** It said something over a connection of its own. */
  touch(nodeId: NodeId): void {
    this.#lastSeenMs.set(nodeId, this.#options.clock.nowMs());
  }

  forget(nodeId: NodeId): void {
    this.#serving.delete(nodeId);
    this.#lastSeenMs.delete(nodeId);
  }

  #ended(nodeId: NodeId, serving: Serving): void {
    if (this.#serving.get(nodeId) !== serving) return;
    this.#away(nodeId, serving);
    this.#serving.delete(nodeId);
  }

  #away(nodeId: NodeId, serving: Serving): void {
    const lastSeenMs = this.#heardAtMs(serving);
    this.#lastSeenMs.set(nodeId, lastSeenMs);
    this.#options.onAway(nodeId, lastSeenMs);
  }

  #heardAtMs({ silentForMs }: Serving): number {
    return Math.floor(this.#options.clock.nowMs() - silentForMs());
  }
}
