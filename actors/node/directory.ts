/**
 * Owns the answer to "which node is that?", without waiting: the last durable record of each enrolled
 * node, by id and by name. The registry alone changes it, after the change is durable.
 *
 * 1. Names are unique among the nodes that are not being removed.
 * 2. A node being removed is found by its id alone, so that a removal can be repeated.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId, NodeKey } from "../../protocol/ids.ts";
import { nodeName } from "../../protocol/methods/nodes.ts";
import type { NodeRecord } from "./record.ts";

export class Directory {
  readonly #records = new Map<string, NodeRecord>();
  readonly #idOf = new Map<string, NodeId>();
  readonly #onForgotten: (nodeId: NodeId) => void;

  /** `onForgotten` hears of each node that is no more. */
  constructor(onForgotten: (nodeId: NodeId) => void = () => {}) {
    this.#onForgotten = onForgotten;
  }

  /** The enrolled nodes, sorted by name (code units: the same order everywhere). */
  all(): NodeRecord[] {
    return [...this.#records.values()]
      .filter(({ removing }) => !removing)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Those whose removal has begun. */
  removing(): NodeRecord[] {
    return [...this.#records.values()].filter(({ removing }) => removing);
  }

  /** By its exact durable id. */
  find(nodeId: string): NodeRecord | null {
    const record = this.#records.get(nodeId);
    return record === undefined || record.removing ? null : record;
  }

  /** The one whose account on the hub this is. */
  ofAccount(account: NodeKey): NodeRecord | null {
    for (const record of this.#records.values()) {
      if (record.nodeKey === account && !record.removing) return record;
    }
    return null;
  }

  /** By its exact durable id, also while it is being removed. */
  known(nodeId: string): NodeRecord | null {
    return this.#records.get(nodeId) ?? null;
  }

  named(name: string): NodeRecord | null {
    const nodeId = this.#idOf.get(name);
    return nodeId === undefined ? null : this.find(nodeId);
  }

  /** The exact durable id and nothing else. Throws `node_not_found`. */
  byId(nodeId: string): NodeRecord {
    const record = this.find(nodeId);
    if (record === null) throw new LemonError("node_not_found");
    return record;
  }

  /** The exact durable id first, then the unique name. Throws `node_not_found`. */
  resolve(selector: string): NodeRecord {
    const exact = this.find(selector);
    if (exact !== null) return exact;
    const name = nodeName.safeParse(selector);
    const record = name.success ? this.named(name.data) : null;
    if (record === null) throw new LemonError("node_not_found");
    return record;
  }

  put(record: NodeRecord): void {
    this.#unname(record.nodeId);
    this.#records.set(record.nodeId, record);
    if (!record.removing) this.#idOf.set(record.name, record.nodeId);
  }

  forget(nodeId: NodeId): void {
    this.#unname(nodeId);
    if (this.#records.delete(nodeId)) this.#onForgotten(nodeId);
  }

  /** These, and no others. */
  replaceAll(records: readonly NodeRecord[]): void {
    const kept = new Set(records.map(({ nodeId }) => nodeId));
    for (const { nodeId } of [...this.#records.values()]) {
      if (!kept.has(nodeId)) this.forget(nodeId);
    }
    for (const record of records) this.put(record);
  }

  #unname(nodeId: NodeId): void {
    const known = this.#records.get(nodeId);
    if (known !== undefined && this.#idOf.get(known.name) === nodeId) this.#idOf.delete(known.name);
  }
}
