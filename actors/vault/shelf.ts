/**
 * Owns the store of one vault together with what is known of its names: opened when it is first needed, compared
 * before it is used, and written so that both agree.
 */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { RecordSink, RecordStore } from "../../transport/records/record-store.ts";
import { Names, secretKey, usageKey } from "./names.ts";
import { encodeRecord, encodeUsage, type SecretRecord, type StoredSecret } from "./record.ts";

/** Opens the store of records; it tells the sink of them whenever it is verified. */
export type OpenStore = (sink: RecordSink) => Promise<RecordStore>;

export class Shelf {
  readonly owner: string;
  readonly names: Names;
  readonly #openStore: OpenStore;
  readonly #clock: Clock;
  #store: RecordStore | null = null;
  /** Names whose uses are not stored yet. */
  readonly #used = new Set<string>();

  constructor(owner: string, scope: string, openStore: OpenStore, clock: Clock) {
    this.owner = owner;
    this.names = new Names(owner, scope);
    this.#openStore = openStore;
    this.#clock = clock;
  }

  get unerased(): number {
    return this.#store?.unerased ?? 0;
  }

  get hasUnstoredUses(): boolean {
    return this.#used.size > 0;
  }

  /** Errors: `secret_store_unavailable`, `secret_store_damaged`. */
  async ready(): Promise<void> {
    await this.#compared();
    if (this.#isDamaged()) throw this.#damaged();
  }

  /** The ciphertext's record, also of a damaged store; null when that can be said to be absent. */
  async find(name: string): Promise<(SecretRecord & { readonly secret: StoredSecret }) | null> {
    await this.#compared();
    const record = this.names.get(name);
    if (record !== undefined && this.isStanding(record)) return record;
    if (this.#isDamaged()) throw this.#damaged();
    return null;
  }

  /** The bytes under a name that was found. */
  async bytesOf(name: string): Promise<Uint8Array> {
    const store = await this.#opened();
    return store.get(secretKey(this.owner, name));
  }

  isStanding(record: SecretRecord): record is SecretRecord & { readonly secret: StoredSecret } {
    const { secret } = record;
    if (secret === null) return false;
    return secret.expiresAtMs === null || secret.expiresAtMs > this.#clock.nowMs();
  }

  /** Stores a record in place of the one of that name. Errors: those of `RecordStore.put`. */
  async put(record: SecretRecord, ciphertext: Uint8Array | null): Promise<boolean> {
    const store = await this.#opened();
    const bytes = encodeRecord(record, ciphertext);
    const isForgotten = await store.put(secretKey(this.owner, record.name), bytes);
    this.names.keep(record);
    return isForgotten;
  }

  /** Forgets the value of a name, and the name when it has no receipts. Errors: those of `RecordStore.remove`. */
  async drop(record: SecretRecord): Promise<void> {
    const store = await this.#opened();
    const { name } = record;
    if (this.names.usageOf(name) !== null) {
      await store.remove(usageKey(this.owner, name));
      this.names.forgetUsage(name);
      this.#used.delete(name);
    }
    if (record.receipts.length === 0) {
      await store.remove(secretKey(this.owner, name));
      this.names.forget(name);
    } else if (record.secret !== null && !(await this.put({ ...record, secret: null }, null))) {
      throw new LemonError("secret_outcome_unknown");
    }
  }

  /** Counts a use, in memory for now. */
  used(name: string): void {
    this.names.used(name, this.#clock.nowMs());
    this.#used.add(name);
  }

  /** Stores the uses that were counted. Errors: those of `RecordStore.put`; the rest is stored the next time. */
  async storeUses(): Promise<void> {
    for (const name of [...this.#used]) {
      const usage = this.names.usageOf(name);
      if (usage !== null && this.names.get(name) !== undefined) {
        const store = await this.#opened();
        await store.put(usageKey(this.owner, name), encodeUsage(usage));
      }
      this.#used.delete(name);
    }
  }

  /** Erases what is not yet. Errors: `secret_store_unavailable`, `secret_outcome_unknown` when something is left. */
  async settle(): Promise<void> {
    const store = await this.#opened();
    await store.verify();
    if (store.unerased > 0) throw new LemonError("secret_outcome_unknown");
  }

  async close(): Promise<void> {
    await this.#store?.close();
    this.#store = null;
  }

  async #compared(): Promise<void> {
    const store = await this.#opened();
    if (!store.isVerified) await store.verify();
  }

  async #opened(): Promise<RecordStore> {
    this.#store ??= await this.#openStore(this.names);
    return this.#store;
  }

  #isDamaged(): boolean {
    return this.names.isForeign || (this.#store?.damage ?? null) !== null;
  }

  #damaged(): LemonError {
    const reason = this.#store?.damage ?? "foreign_record";
    return new LemonError("secret_store_damaged", { details: { reason } });
  }
}
