/**
 * Owns the node records as they stand in the store, and the directory that shows them.
 *
 * 1. The directory and the index of tokens show what is durable, and only that.
 * 2. A write that may have happened leaves its record in doubt. It is settled before the next change of
 *    it, and before anything that needs to know all of them, by writing the same again: whichever of
 *    the two comes first, the other can not land any more, however late.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId } from "../../protocol/ids.ts";
import type { Document, Documents } from "../../transport/documents.ts";
import type { Directory } from "./directory.ts";
import type { NodeRecord, Session } from "./record.ts";

export interface LedgerOptions {
  readonly documents: Documents<NodeRecord>;
  readonly directory: Directory;
  /** There is something to `settle`. */
  readonly onDoubt: () => void;
  readonly onSettled: (nodeId: NodeId) => void;
}

export class Ledger {
  readonly #options: LedgerOptions;
  readonly #documents = new Map<string, Document<NodeRecord>>();
  /** Hash of every session token in a record → its node. */
  readonly #tokens = new Map<string, NodeId>();
  /** How each record in doubt is settled. */
  readonly #inDoubt = new Map<NodeId, () => Promise<void>>();

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  async load(): Promise<void> {
    const documents = await this.#options.documents.list();
    this.#options.directory.replaceAll(documents.map(({ value }) => value));
    for (const document of documents) this.#keep(document);
  }

  /** Throws when the store still gives no clear answer. */
  async settle(): Promise<void> {
    for (const nodeId of [...this.#inDoubt.keys()]) await this.#settleOne(nodeId);
  }

  async create(record: NodeRecord): Promise<NodeRecord> {
    const { nodeId } = record;
    await this.#settleOne(nodeId);
    await this.#write(nodeId, async () => {
      this.#keep(await this.#options.documents.create(nodeId, record));
    });
    return record;
  }

  /** Writes what `change` makes of the record; nothing when it makes the very same one. Throws `node_not_found`. */
  async change(nodeId: NodeId, change: (record: NodeRecord) => NodeRecord): Promise<NodeRecord> {
    await this.#settleOne(nodeId);
    const document = this.#documents.get(nodeId);
    if (document === undefined) throw new LemonError("node_not_found");
    const next = change(document.value);
    if (next !== document.value) {
      await this.#write(nodeId, async () => {
        this.#keep(await this.#options.documents.update(document, next));
      });
    }
    return next;
  }

  async delete(nodeId: NodeId): Promise<void> {
    await this.#settleOne(nodeId);
    const document = this.#documents.get(nodeId);
    if (document === undefined) return;
    await this.#write(nodeId, async () => {
      await this.#options.documents.delete(document);
      this.#forget(nodeId);
    });
  }

  /** The record and the row of a session token, by its hash; null when no record has it. */
  async tokenOf(hash: string): Promise<{ record: NodeRecord; session: Session } | null> {
    const nodeId = this.#tokens.get(hash);
    if (nodeId === undefined) await this.settle();
    else await this.#settleOne(nodeId);
    const document = this.#documents.get(this.#tokens.get(hash) ?? "");
    const session = document?.value.sessions.find((row) => row.hash === hash);
    return document === undefined || session === undefined
      ? null
      : { record: document.value, session };
  }

  async #write(nodeId: NodeId, write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      if (error.mutationMayHaveApplied) this.#doubt(nodeId, write);
      else if (error.code === "revision_conflict") this.#doubt(nodeId, () => this.#read(nodeId));
      throw error;
    }
  }

  #doubt(nodeId: NodeId, settle: () => Promise<void>): void {
    this.#inDoubt.set(nodeId, settle);
    this.#options.onDoubt();
  }

  async #settleOne(nodeId: NodeId): Promise<void> {
    const again = this.#inDoubt.get(nodeId);
    if (again === undefined) return;
    try {
      await again();
    } catch (error) {
      if (!(error instanceof LemonError) || error.code !== "revision_conflict") throw error;
      // The first attempt landed after all, or somebody else wrote: either way it is decided.
      await this.#read(nodeId);
    }
    this.#inDoubt.delete(nodeId);
    this.#options.onSettled(nodeId);
  }

  async #read(nodeId: NodeId): Promise<void> {
    const document = await this.#options.documents.get(nodeId);
    if (document === null) this.#forget(nodeId);
    else this.#keep(document);
  }

  #keep(document: Document<NodeRecord>): void {
    const record = document.value;
    this.#forgetTokens(record.nodeId);
    this.#documents.set(record.nodeId, document);
    for (const { hash } of record.sessions) this.#tokens.set(hash, record.nodeId);
    this.#options.directory.put(record);
  }

  #forget(nodeId: NodeId): void {
    this.#forgetTokens(nodeId);
    this.#documents.delete(nodeId);
    this.#options.directory.forget(nodeId);
  }

  #forgetTokens(nodeId: NodeId): void {
    const known = this.#documents.get(nodeId);
    for (const { hash } of known?.value.sessions ?? []) this.#tokens.delete(hash);
  }
}
