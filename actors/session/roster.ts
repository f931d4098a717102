/**
 * Owns who is connected now: every session that said hello and has not ended, by its connection.
 *
 * When the connections of a node or a device are ended, one whose identity was found out before that and who
 * is not in here yet ends too: it arrives, and is refused.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { ConnectionId, NodeId } from "../../protocol/ids.ts";
import type { Role } from "../../protocol/scopes.ts";
import { invalidToken } from "./authenticate.ts";
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

/** How a connection is ended. */
export interface Close {
  readonly code: number;
  readonly reason: string;
}

/** The end of some connections. */
interface Ending {
  readonly isOf: (identity: Identity) => boolean;
  /** For those that have not arrived yet. */
  readonly refusal: () => LemonError;
}

/** A connection whose identity is being found out; it is over when it is disposed of. */
interface Arrival extends Disposable {
  /** Throws what the identity is refused with when it was ended since the arrival began. */
  refuseEnded(identity: Identity): void;
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
      refuseEnded(identity) {
        const ending = endings.find(({ isOf }) => isOf(identity));
        if (ending !== undefined) throw ending.refusal();
      },
      [Symbol.dispose]: () => this.#arrivals.delete(endings),
    };
  }

  /** Ends a node's connections: those of a session generation below `olderThan`, or all of them (null). */
  endNode(nodeId: NodeId, olderThan: number | null, close: Close): void {
    const isOf = ({ node }: Identity): boolean =>
      node?.nodeId === nodeId && (olderThan === null || node.sessionGeneration < olderThan);
    this.#end({ isOf, refusal: () => new LemonError("node_revoked") }, close);
  }

  /** Ends all connections of a device. Its token is worth nothing any more: who arrives with it hears that. */
  endDevice(deviceId: string, close: Close): void {
    const isOf = ({ role, clientId }: Identity): boolean =>
      role === "device" && clientId === deviceId;
    this.#end({ isOf, refusal: invalidToken }, close);
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

  /** How many connections each connected device has. */
  ofDevices(): ReadonlyMap<string, number> {
    const counted = new Map<string, number>();
    for (const { caller } of this.#callers.values()) {
      const { role, clientId } = caller;
      if (role !== "device" || clientId === null) continue;
      counted.set(clientId, (counted.get(clientId) ?? 0) + 1);
    }
    return counted;
  }

  #end(ending: Ending, { code, reason }: Close): void {
    for (const endings of this.#arrivals) endings.push(ending);
    for (const { caller } of [...this.#callers.values()]) {
      if (ending.isOf(caller)) caller.close(code, reason);
    }
  }
}
