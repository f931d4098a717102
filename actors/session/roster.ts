/**
 * Owns who is connected now: every session that said hello and has not ended, by its connection.
 *
 * When a node's connections are ended, one whose identity was found out before that and who is not in here
 * yet ends too: it arrives, and is told so.
 */
import type { ConnectionId, NodeId } from "../../protocol/ids.ts";
import type { Role } from "../../protocol/scopes.ts";
import type { Caller, Identity } from "./handler.ts";

export interface ConnectionCounts {
  readonly active: number;
  readonly operators: number;
  readonly nodes: number;
  readonly devices: number;
}

/** Who is connected, the newest last. */
export interface Presence {
  readonly connections: readonly {
    readonly connectionId: ConnectionId;
    readonly role: Role;
    readonly clientId: string | null;
    readonly connectedAtMs: number;
  }[];
  /** Of all, also where they are not all listed. */
  readonly count: number;
}

/** The end of a node's connections: those of a session generation below `olderThan`, or all of them (null). */
interface Ending {
  readonly nodeId: NodeId;
  readonly olderThan: number | null;
}

/** A connection whose identity is being found out; it is over when it is disposed of. */
interface Arrival extends Disposable {
  /** True when the identity was ended since the arrival began. */
  isEnded(identity: Identity): boolean;
}

export class Roster {
  readonly #callers = new Map<
    ConnectionId,
    { readonly caller: Caller; readonly sinceMs: number }
  >();
  readonly #onChange: () => void;
  /** For each arrival the endings since it began. */
  readonly #arrivals = new Set<Ending[]>();
  readonly #ofRole: Record<Role, number> = { operator: 0, node: 0, device: 0 };

  /** `onChange` is called when somebody came or went. */
  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange;
  }

  enter(caller: Caller, sinceMs: number): void {
    this.#callers.set(caller.connectionId, { caller, sinceMs });
    this.#ofRole[caller.role] += 1;
    this.#onChange();
  }

  leave(connectionId: ConnectionId): void {
    const entry = this.#callers.get(connectionId);
    if (entry === undefined) return;
    this.#callers.delete(connectionId);
    this.#ofRole[entry.caller.role] -= 1;
    this.#onChange();
  }

  arrive(): Arrival {
    const endings: Ending[] = [];
    this.#arrivals.add(endings);
    return {
      isEnded: (identity) => endings.some((ending) => isEnded(identity, ending)),
      [Symbol.dispose]: () => this.#arrivals.delete(endings),
    };
  }

  /** Ends a node's connections: those of a session generation below `olderThan`, or all of them (null). */
  endNode(
    nodeId: NodeId,
    olderThan: number | null,
    { code, reason }: { readonly code: number; readonly reason: string },
  ): void {
    const ending = { nodeId, olderThan };
    for (const endings of this.#arrivals) endings.push(ending);
    for (const { caller } of [...this.#callers.values()]) {
      if (isEnded(caller, ending)) caller.close(code, reason);
    }
  }

  /** At most the newest `limit` of them. */
  presence(limit: number): Presence {
    const count = this.#callers.size;
    const newest = [...this.#callers.values()].slice(Math.max(0, count - limit));
    return {
      connections: newest.map(({ caller: { connectionId, role, clientId }, sinceMs }) => ({
        connectionId,
        role,
        clientId,
        connectedAtMs: sinceMs,
      })),
      count,
    };
  }

  counts(): ConnectionCounts {
    const { operator, node, device } = this.#ofRole;
    return { active: this.#callers.size, operators: operator, nodes: node, devices: device };
  }
}

function isEnded({ node }: Identity, { nodeId, olderThan }: Ending): boolean {
  if (node === null || node.nodeId !== nodeId) return false;
  return olderThan === null || node.sessionGeneration < olderThan;
}
