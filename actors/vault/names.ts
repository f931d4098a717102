/**
 * Owns, in memory, what a vault knows of its names: everything but the values.
 *
 * 1. It is what the store told last; a record that is not this owner's, or stands under another name's key, makes
 *    the store damaged.
 * 2. An operation id belongs to one name.
 */
import { type RecordSink, recordKey } from "../../transport/records/record-store.ts";
import {
  decodeStored,
  type SecretRecord,
  type StoredReceipt,
  type StoredSecret,
  type StoredUsage,
} from "./record.ts";

export interface Usage {
  readonly count: number;
  readonly lastUsedAtMs: number;
}

export class Names implements RecordSink {
  readonly #owner: string;
  readonly #scope: string;
  readonly #records = new Map<string, SecretRecord>();
  readonly #usages = new Map<string, Omit<StoredUsage, "v">>();
  /** Of this scope: operation id → name. */
  readonly #operations = new Map<string, string>();
  #lastRevision = 0;
  /** A record that cannot be one of ours was told since `begin`. */
  #isForeign = false;

  /** `scope`: whose operation ids are looked for. */
  constructor(owner: string, scope: string) {
    this.#owner = owner;
    this.#scope = scope;
  }

  get isForeign(): boolean {
    return this.#isForeign;
  }

  /** The highest revision of any value that is known of. */
  get lastRevision(): number {
    return this.#lastRevision;
  }

  /** Names that have a record, be it of receipts alone. */
  get size(): number {
    return this.#records.size;
  }

  begin(): void {
    this.#records.clear();
    this.#usages.clear();
    this.#operations.clear();
    this.#isForeign = false;
  }

  record(key: string, bytes: Uint8Array): void {
    const stored = decodeStored(bytes);
    if (stored === null) {
      this.#isForeign = true;
    } else if ("usageOf" in stored) {
      if (key === usageKey(this.#owner, stored.usageOf)) this.#usages.set(stored.usageOf, stored);
      else this.#isForeign = true;
    } else if (stored.owner === this.#owner && key === secretKey(this.#owner, stored.name)) {
      this.keep(stored);
    } else {
      this.#isForeign = true;
    }
  }

  keep(record: SecretRecord): void {
    this.#records.set(record.name, record);
    for (const { operationId, scope, revision } of record.receipts) {
      if (scope === this.#scope) this.#operations.set(operationId, record.name);
      this.#sawRevision(revision);
    }
    if (record.secret !== null) this.#sawRevision(record.secret.revision);
  }

  forget(name: string): void {
    this.#records.delete(name);
  }

  get(name: string): SecretRecord | undefined {
    return this.#records.get(name);
  }

  /** Every record that holds a value. */
  *secrets(): Generator<SecretRecord & { readonly secret: StoredSecret }> {
    for (const record of this.#records.values()) {
      if (record.secret !== null) yield { ...record, secret: record.secret };
    }
  }

  /** The receipt of an operation with the record it stands in. */
  receipt(operationId: string): { record: SecretRecord; receipt: StoredReceipt } | null {
    const record = this.#records.get(this.#operations.get(operationId) ?? "");
    const receipt = record?.receipts.find(
      (one) => one.operationId === operationId && one.scope === this.#scope,
    );
    return record === undefined || receipt === undefined ? null : { record, receipt };
  }

  /** Uses of the secret that stands under the name now. */
  usage(name: string): Usage | null {
    const usage = this.#usages.get(name);
    const createdAtMs = this.#records.get(name)?.secret?.createdAtMs;
    return usage !== undefined && usage.createdAtMs === createdAtMs ? usage : null;
  }

  used(name: string, atMs: number): void {
    const createdAtMs = this.#records.get(name)?.secret?.createdAtMs;
    if (createdAtMs === undefined) return;
    const count = (this.usage(name)?.count ?? 0) + 1;
    this.#usages.set(name, { usageOf: name, createdAtMs, count, lastUsedAtMs: atMs });
  }

  /** What is to be stored of the uses of a name; null when there is nothing. */
  usageOf(name: string): Omit<StoredUsage, "v"> | null {
    return this.#usages.get(name) ?? null;
  }

  forgetUsage(name: string): boolean {
    return this.#usages.delete(name);
  }

  #sawRevision(revision: number): void {
    if (revision > this.#lastRevision) this.#lastRevision = revision;
  }
}

export function secretKey(owner: string, name: string): string {
  return recordKey(`secret\0${owner}\0${name}`);
}

export function usageKey(owner: string, name: string): string {
  return recordKey(`usage\0${owner}\0${name}`);
}
