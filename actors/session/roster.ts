/** Owns who is connected now: every session that said hello and has not ended, by its connection. */
import type { ConnectionId, NodeId } from "../../protocol/ids.ts";
import type { Role } from "../../protocol/scopes.ts";
import type { Caller } from "./handler.ts";

export interface ConnectionCounts {
  readonly active: number;
  readonly operators: number;
  readonly nodes: number;
  readonly devices: number;
}

export class Roster {
  readonly #callers = new Map<ConnectionId, Caller>();
  readonly #ofRole: Record<Role, number> = { operator: 0, node: 0, device: 0 };

  enter(caller: Caller): void {
    this.#callers.set(caller.connectionId, caller);
    this.#ofRole[caller.role] += 1;
  }

  leave(connectionId: ConnectionId): void {
    const caller = this.#callers.get(connectionId);
    if (caller === undefined) return;
    this.#callers.delete(connectionId);
    this.#ofRole[caller.role] -= 1;
  }

  /** Ends a node's connections: those of a session generation below `olderThan`, or all of them (null). */
  endNode(
    nodeId: NodeId,
    olderThan: number | null,
    { code, reason }: { readonly code: number; readonly reason: string },
  ): void {
    for (const { node, close } of [...this.#callers.values()]) {
      if (node === null || node.nodeId !== nodeId) continue;
      if (olderThan === null || node.sessionGeneration < olderThan) close(code, reason);
    }
  }

  counts(): ConnectionCounts {
    const { operator, node, device } = this.#ofRole;
    return { active: this.#callers.size, operators: operator, nodes: node, devices: device };
  }
}
