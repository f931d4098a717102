/**
 * Owns the rules of one vault: what becomes of a secret and of its receipts, one request at a time.
 *
 * 1. Everything that can refuse a set comes before the store is touched.
 * 2. An operation id is spent by the set it was used for: a repeat of it is answered while its value still stands,
 *    and never written again.
 * 3. A value that expired is gone for whoever asks, and erased soon after.
 * 4. While the store is damaged nothing is said to be absent and nothing is written; what is intact is resolved.
 */
import { randomBytes } from "node:crypto";
import type { Clock } from "../../host/clock.ts";
import type { Followers } from "../../host/master-key/followers.ts";
import type { MasterKeys } from "../../host/master-key/master-keys.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Secret } from "../../protocol/secret.ts";
import { fingerprintOf, type RandomBytes, sameFingerprint, seal, unseal } from "./crypto.ts";
import { Keyring } from "./keyring.ts";
import {
  type SecretMetadata,
  type SecretNames,
  type SecretReceipt,
  type SecretSet,
  type SetSecret,
  VAULT_BOUNDS,
  type VaultStatus,
} from "./messages.ts";
import { type SecretRecord, type StoredReceipt, type StoredSecret, sealedOf } from "./record.ts";
import { readName, readOperationId, readSet } from "./requests.ts";
import { type OpenStore, Shelf } from "./shelf.ts";

export interface VaultParts {
  readonly keys: MasterKeys;
  readonly openStore: OpenStore;
  /** Whose operation ids these are: the durable id of the node. */
  readonly scope: string;
  /** Told what key this vault is whole under: null when that is not so, or not known. */
  readonly followers?: Pick<Followers, "note" | "withdraw">;
  readonly clock: Clock;
  readonly random?: RandomBytes;
}

/** The one owner that the methods serve. */
const OWNER = "default";
/** Of the construction and of the record. */
const VERSION = "v1";

type Holding = SecretRecord & { readonly secret: StoredSecret };

export class Vault {
  readonly #parts: VaultParts;
  readonly #random: RandomBytes;
  readonly #shelf: Shelf;
  readonly #ring: Keyring;

  constructor(parts: VaultParts) {
    this.#parts = parts;
    this.#random = parts.random ?? randomBytes;
    this.#shelf = new Shelf(OWNER, parts.scope, parts.openStore, parts.clock);
    this.#ring = new Keyring(parts.keys);
  }

  async set(request: SetSecret): Promise<SecretSet> {
    const asked = readSet(request, this.#parts.clock.nowMs());
    await this.#shelf.ready();
    const { current, fingerprint } = await this.#admit(asked);
    const { name, value, operationId, provider, expiresAtMs } = asked;
    const before = this.#shelf.names.get(name);
    if (operationId !== null && fingerprint !== null) {
      const repeated = this.#repeated(operationId, fingerprint, current.id);
      if (repeated !== null) return this.#told(repeated, operationId);
    }
    this.#refuseFull(before, operationId);
    const nowMs = this.#parts.clock.nowMs();
    const revision = this.#nextRevision();
    const sealed = seal(current.key, { owner: OWNER, name, revision }, value, this.#random);
    const isThere = before !== undefined && this.#shelf.isStanding(before);
    const secret: StoredSecret = {
      revision,
      keyId: current.id,
      salt: sealed.salt,
      nonce: sealed.nonce,
      provider,
      expiresAtMs,
      createdAtMs: isThere ? before.secret.createdAtMs : nowMs,
      updatedAtMs: nowMs,
    };
    const receipts = [...(before?.receipts ?? [])];
    if (operationId !== null && fingerprint !== null) {
      receipts.push({ scope: this.#parts.scope, operationId, fingerprint, revision });
    }
    const record = { owner: OWNER, name, secret, receipts };
    await this.#shelf.put(record, sealed.ciphertext);
    return this.#told(record, operationId);
  }

  async list(): Promise<SecretNames> {
    const all = (await this.#standing()).map(({ name }) => name);
    const { listed: limit } = VAULT_BOUNDS;
    return { names: all.slice(0, limit), limit, truncated: all.length > limit };
  }

  async entries(): Promise<SecretMetadata[]> {
    return (await this.#standing()).map((record) => this.#metadata(record));
  }

  async delete(request: { readonly name: string }): Promise<{ name: string; deleted: true }> {
    const name = readName(request.name);
    await this.#shelf.ready();
    const record = this.#shelf.names.get(name);
    if (record !== undefined) await this.#shelf.drop(record);
    // What an earlier deletion could not be sure of.
    if (this.#shelf.unerased > 0) await this.#shelf.settle();
    return { name, deleted: true };
  }

  async exists(request: { readonly name: string }): Promise<boolean> {
    return (await this.#shelf.find(readName(request.name))) !== null;
  }

  async receipt(request: { readonly operationId: string }): Promise<SecretReceipt> {
    const operationId = readOperationId(request.operationId);
    await this.#shelf.ready();
    const found = this.#shelf.names.receipt(operationId);
    if (found === null) {
      return { operationId, status: "not_found", name: null, currentBindingMatches: false };
    }
    const { record, receipt } = found;
    const currentBindingMatches = this.#matches(record, receipt, await this.#ring.currentId());
    return { operationId, status: "applied", name: record.name, currentBindingMatches };
  }

  async resolve(request: { readonly name: string }): Promise<Secret> {
    const name = readName(request.name);
    const record = await this.#shelf.find(name);
    if (record === null) throw new LemonError("secret_not_found");
    const value = await this.#open(record);
    this.#shelf.used(name);
    return value;
  }

  async status(): Promise<VaultStatus> {
    const keys = await this.#parts.keys.status();
    const problem = await this.#problem();
    let count: number | null = null;
    let unrotated = 0;
    try {
      count = (await this.#standing()).length;
      unrotated = await this.#unrotated();
    } catch {
      // `problem` says why.
    }
    return {
      owner: OWNER,
      ...keys,
      configured: keys.source !== null,
      healthy: problem === null,
      problem,
      count,
      cleanup: { unerased: this.#shelf.unerased, unrotated },
    };
  }

  async rotate(request: { readonly newKey: Secret }): Promise<{ count: number }> {
    await this.#shelf.ready();
    await this.#requireKeys();
    await this.#ring.replace(request.newKey);
    const count = await this.#reseal();
    await this.#note();
    return { count };
  }

  /**
   * Does what nobody waits for: erases what expired, puts under the current key what an interrupted rotation or one
   * of another process left, stores the uses. Errors: as the store and the keys have them; what is left is done the next time.
   */
  async tidy(): Promise<void> {
    await this.#shelf.ready();
    for (const record of [...this.#shelf.names.secrets()]) {
      if (!this.#shelf.isStanding(record)) await this.#shelf.drop(record);
    }
    await this.#shelf.storeUses();
    await this.#ring.refresh();
    await this.#reseal();
    await this.#note();
  }

  /** It could not be tidied up: it is not known to be whole. */
  async tellBehind(): Promise<void> {
    await this.#parts.followers?.note(this.#parts.scope, null);
  }

  /** When `tidy` has something to do, in Unix ms; null when that is not known to come. */
  get nextExpiryMs(): number | null {
    let next: number | null = null;
    for (const { secret } of this.#shelf.names.secrets()) {
      const { expiresAtMs } = secret;
      if (expiresAtMs !== null && (next === null || expiresAtMs < next)) next = expiresAtMs;
    }
    return next;
  }

  get hasUnstoredUses(): boolean {
    return this.#shelf.hasUnstoredUses;
  }

  async close(): Promise<void> {
    await this.#parts.followers?.withdraw(this.#parts.scope).catch(() => {});
    this.#ring.destroy();
    await this.#shelf.close();
  }

  /** The key to seal with, and what the request is compared by. */
  async #admit(asked: SetSecret) {
    await this.#requireKeys();
    const current = await this.#ring.current();
    const { operationId } = asked;
    if (operationId === null) return { current, fingerprint: null };
    const intent = { ...asked, owner: OWNER, scope: this.#parts.scope, operationId };
    return { current, fingerprint: fingerprintOf(current.key, intent) };
  }

  /** The record that an earlier use of the id left, if it was for the same and still stands. */
  #repeated(operationId: string, fingerprint: Uint8Array, keyId: string): Holding | null {
    const found = this.#shelf.names.receipt(operationId);
    if (found === null) return null;
    const { record, receipt } = found;
    const isSame = sameFingerprint(receipt.fingerprint, fingerprint);
    if (!isSame || !this.#matches(record, receipt, keyId) || !this.#shelf.isStanding(record)) {
      throw new LemonError("secret_operation_conflict");
    }
    return record;
  }

  #refuseFull(before: SecretRecord | undefined, operationId: string | null): void {
    const { receiptsOfName, names } = VAULT_BOUNDS;
    if (before === undefined && this.#shelf.names.size >= names) {
      throw new LemonError("secret_name_limit");
    }
    if (operationId !== null && (before?.receipts.length ?? 0) >= receiptsOfName) {
      throw new LemonError("secret_receipt_capacity");
    }
  }

  /**
   * Whether a value is the one of that receipt, and under the current key: another key in its place is a rotation,
   * also before the value follows. While no key is to be had (`keyId` null) there was none.
   */
  #matches(record: SecretRecord, { revision }: StoredReceipt, keyId: string | null): boolean {
    if (!this.#shelf.isStanding(record) || record.secret.revision !== revision) return false;
    return keyId === null || record.secret.keyId === keyId;
  }

  /** Unix ms, so that none comes twice even when all that is known of a name was forgotten. */
  #nextRevision(): number {
    return Math.max(this.#shelf.names.lastRevision + 1, this.#parts.clock.nowMs());
  }

  #told(record: Holding, operationId: string | null): SecretSet {
    const told = {
      name: record.name,
      revision: record.secret.revision,
      metadata: this.#metadata(record),
    };
    return operationId === null ? told : { ...told, operationId, currentBindingMatches: true };
  }

  #metadata({ name, secret }: Holding): SecretMetadata {
    const { provider, expiresAtMs, createdAtMs, updatedAtMs } = secret;
    const { count = 0, lastUsedAtMs = null } = this.#shelf.names.usage(name) ?? {};
    return {
      name,
      provider,
      expiresAtMs,
      usageCount: count,
      lastUsedAtMs,
      createdAtMs,
      updatedAtMs,
      version: VERSION,
    };
  }

  async #standing(): Promise<Holding[]> {
    await this.#shelf.ready();
    return [...this.#shelf.names.secrets()]
      .filter((record) => this.#shelf.isStanding(record))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async #open({ name, secret }: Holding): Promise<Secret> {
    const { key } = await this.#ring.of(secret.keyId);
    const bytes = await this.#shelf.bytesOf(name);
    const binding = { owner: OWNER, name, revision: secret.revision };
    const value = unseal(key, binding, sealedOf(bytes, secret));
    if (value !== null) return value;
    throw new LemonError("secret_store_damaged", { details: { reason: "does_not_open" } });
  }

  /** Nothing is sealed beside secrets that the machine's keys do not open. Errors: `secret_key_mismatch`. */
  async #requireKeys(): Promise<void> {
    const needed = new Set([...this.#shelf.names.secrets()].map(({ secret }) => secret.keyId));
    for (const id of needed) await this.#ring.of(id);
  }

  async #unrotated(): Promise<number> {
    const { id } = await this.#ring.current();
    return [...this.#shelf.names.secrets()].filter(({ secret }) => secret.keyId !== id).length;
  }

  /** Puts under the current key whatever is not; each value gets a revision of its own by that. */
  async #reseal(): Promise<number> {
    const all = [...this.#shelf.names.secrets()];
    if (all.length === 0) return 0;
    const current = await this.#ring.current();
    let count = 0;
    for (const record of all) {
      if (record.secret.keyId === current.id || !this.#shelf.isStanding(record)) continue;
      using value = await this.#open(record);
      const revision = this.#nextRevision();
      const binding = { owner: OWNER, name: record.name, revision };
      const { salt, nonce, ciphertext } = seal(current.key, binding, value, this.#random);
      const secret = { ...record.secret, revision, keyId: current.id, salt, nonce };
      await this.#shelf.put({ ...record, secret }, ciphertext);
      count += 1;
    }
    return count;
  }

  async #note(): Promise<void> {
    const { followers, scope } = this.#parts;
    if (followers === undefined) return;
    const keyId = await this.#ring.currentId();
    if (this.#ring.isExternal) await followers.withdraw(scope);
    else await followers.note(scope, keyId);
  }

  async #problem(): Promise<string | null> {
    try {
      await this.#shelf.ready();
      await this.#requireKeys();
      await this.#ring.current();
      return null;
    } catch (failure) {
      return failure instanceof LemonError ? failure.code : "internal_error";
    }
  }
}
