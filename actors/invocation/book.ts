/**
 * Owns which invocations there are and were: whose each is, and whether it still waits for its answer.
 *
 * 1. What waits is bounded, for each node and in all; what is settled is remembered for a while, so that a
 *    late answer is told from one to nothing.
 * 2. An answer counts from the node that was asked, over the very connection that was asked.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { ConnectionId, NodeId } from "../../protocol/ids.ts";
import type { Caller } from "../session/handler.ts";

export const PENDING_PER_NODE = 64;
export const PENDING_IN_ALL = 4_096;
export const SETTLED_REMEMBERED = 8_192;
/** Something of that many ends any moment, in ms. */
const RETRY_AFTER_MS = 1_000;

/** Whom an invocation was sent to. */
export interface Addressee {
  readonly nodeId: NodeId;
  readonly connectionId: ConnectionId;
  readonly sessionGeneration: number;
}

interface Entry<T> {
  readonly addressee: Addressee;
  /** Null once it is settled. */
  pending: T | null;
}

/** `T` is whatever an answer is handed to. */
export class InvocationBook<T> {
  readonly #pending = new Map<string, Entry<T>>();
  readonly #settled = new Map<string, Entry<T>>();
  readonly #perNode = new Map<NodeId, number>();

  /** Errors: `rate_limited`. */
  refuseBeyondBounds(nodeId: NodeId): void {
    const full =
      this.#pending.size >= PENDING_IN_ALL || (this.#perNode.get(nodeId) ?? 0) >= PENDING_PER_NODE;
    if (!full) return;
    throw new LemonError("rate_limited", {
      message: "Too many invocations wait for their answer; wait for one of them first",
      details: { retryAfterMs: RETRY_AFTER_MS },
    });
  }

  begin(invokeId: string, addressee: Addressee, pending: T): void {
    const { nodeId } = addressee;
    this.#pending.set(invokeId, { addressee, pending });
    this.#perNode.set(nodeId, (this.#perNode.get(nodeId) ?? 0) + 1);
  }

  /** False when it did not wait any more. */
  settle(invokeId: string): boolean {
    const entry = this.#pending.get(invokeId);
    if (entry === undefined) return false;
    const { nodeId } = entry.addressee;
    this.#pending.delete(invokeId);
    const left = (this.#perNode.get(nodeId) ?? 0) - 1;
    if (left > 0) this.#perNode.set(nodeId, left);
    else this.#perNode.delete(nodeId);
    this.#settled.set(invokeId, { ...entry, pending: null });
    for (const [oldest] of this.#settled) {
      if (this.#settled.size <= SETTLED_REMEMBERED) break;
      this.#settled.delete(oldest);
    }
    return true;
  }

  /** What waits for this caller's answer. Errors: `invoke_not_found`, `forbidden`, `invoke_settled`. */
  answeredBy(
    invokeId: string,
    { node, connectionId }: Pick<Caller, "node" | "connectionId">,
  ): { readonly nodeId: NodeId; readonly pending: T } {
    const entry = this.#pending.get(invokeId) ?? this.#settled.get(invokeId);
    if (entry === undefined) throw new LemonError("invoke_not_found");
    const { addressee, pending } = entry;
    if (node?.nodeId !== addressee.nodeId) {
      throw new LemonError("forbidden", { message: "Invocation belongs to a different node" });
    }
    if (pending === null) throw new LemonError("invoke_settled");
    if (
      connectionId !== addressee.connectionId ||
      node.sessionGeneration !== addressee.sessionGeneration
    ) {
      throw new LemonError("forbidden", {
        message: "Invocation belongs to a different session of the node",
      });
    }
    return { nodeId: addressee.nodeId, pending };
  }
}
