/**
 * Owns the node records as they stand in the store, and the directory that shows them.
 *
 * 1. The directory and the index of tokens show what is durable, and only that.
 * 2. A write that failed in any way leaves its record in doubt: it is read again before the next change
 *    of it, and before anything that needs to know all of them.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId } from "../../protocol/ids.ts";
import type { Document, Documents } from "../../transport/documents.ts";
import type { Directory } from "./directory.ts";
import type { NodeRecord, Session } from "./record.ts";

export class Ledger {
  readonly #store: Documents<NodeRecord>;
  readonly #directory: Directory;
  readonly #documents = new Map<string, Document<NodeRecord>>();
  /** Hash of every session token in a record → its node. */
  readonly #tokens = new Map<string, NodeId>();
  readonly #inDoubt = new Set<NodeId>();

  constructor(store: Documents<NodeRecord>, directory: Directory) {
    this.#store = store;
    this.#directory = directory;
  }

  async load(): Promise<void> {
    const documents = await this.#store.list();
    this.#directory.clear();
    for (const document of documents) this.#keep(document);
  }

  /** Reads again whatever is in doubt. */
  async settle(): Promise<void> {
    for (const nodeId of [...this.#inDoubt]) await this.#readAgain(nodeId);
  }

  async create(record: NodeRecord): Promise<NodeRecord> {
    const { nodeId } = record;
    return this.#keep(await this.#written(nodeId, this.#store.create(nodeId, record)));
  }

  /** Writes what `change` makes of the record; nothing when it makes the very same one. Throws `node_not_found`. */
  async change(nodeId: NodeId, change: (record: NodeRecord) => NodeRecord): Promise<NodeRecord> {
    if (this.#inDoubt.has(nodeId)) await this.#readAgain(nodeId);
    const document = this.#documents.get(nodeId);
    if (document === undefined) throw new LemonError("node_not_found");
    const next = change(document.value);
    if (next === document.value) return next;
    return this.#keep(await this.#written(nodeId, this.#store.update(document, next)));
  }

  async delete(nodeId: NodeId): Promise<void> {
    if (this.#inDoubt.has(nodeId)) await this.#readAgain(nodeId);
    const document = this.#documents.get(nodeId);
    if (document === undefined) return;
    await this.#written(nodeId, this.#store.delete(document));
    this.#forget(nodeId);
  }

  /** The record and the row of a session token, by its hash; null when no record has it. */
  async tokenOf(hash: string): Promise<{ record: NodeRecord; session: Session } | null> {
    if (!this.#tokens.has(hash)) await this.settle();
    const nodeId = this.#tokens.get(hash);
    if (nodeId === undefined) return null;
    if (this.#inDoubt.has(nodeId)) await this.#readAgain(nodeId);
    const record = this.#documents.get(nodeId)?.value;
    const session = record?.sessions.find((row) => row.hash === hash);
    return record === undefined || session === undefined ? null : { record, session };
  }

  async #written<T>(nodeId: NodeId, write: Promise<T>): Promise<T> {
    try {
      return await write;
    } catch (error) {
      this.#inDoubt.add(nodeId);
      throw error;
    }
  }

  async #readAgain(nodeId: NodeId): Promise<void> {
    const document = await this.#store.get(nodeId);
    this.#inDoubt.delete(nodeId);
    if (document === null) this.#forget(nodeId);
    else this.#keep(document);
  }

  #keep(document: Document<NodeRecord>): NodeRecord {
    const record = document.value;
    this.#forgetTokens(record.nodeId);
    this.#documents.set(record.nodeId, document);
    for (const { hash } of record.sessions) this.#tokens.set(hash, record.nodeId);
    this.#directory.put(record);
    return record;
  }

  #forget(nodeId: NodeId): void {
    this.#forgetTokens(nodeId);
    this.#documents.delete(nodeId);
    this.#directory.forget(nodeId);
  }

  #forgetTokens(nodeId: NodeId): void {
    const known = this.#documents.get(nodeId);
    for (const { hash } of known?.value.sessions ?? []) this.#tokens.delete(hash);
  }
}
