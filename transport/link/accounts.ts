/**
 * Owns the accounts that the controller makes on its hub, and who may connect to them.
 *
 * 1. What changes an account runs one at a time for that account, and every step may be repeated.
 * 2. A decision is on disk before the hub hears of it. A hub that did not hear (it was down, it lost
 *    its resolver's folder) is told again when it is back.
 * 3. A revocation is for good, whatever the clock says then or later: it voids all that the key was or
 *    ever will be given. When more keys stand revoked than an account should carry, the account gets a new
 *    signing key, which voids everything issued before it, and the oldest revocations are forgotten.
 */
import { encodeUser } from "@nats-io/jwt";
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import { type AccountRecord, AccountRecords, isUserKey } from "../keys/account-records.ts";
import type { AccountSigner } from "../keys/authority.ts";
import { type AccountKind, accountOf, saysSame } from "../keys/claims.ts";
import type { SystemApi } from "./system-api.ts";

/** No user JWT of a node's own machine lives longer. */
const LONGEST_JWT_MS = 24 * 60 * 60 * 1_000;
/** Revoked keys in one account. Each is about 70 bytes of its record and of its JWT. */
const MOST_REVOKED = 64;
/** Of the newest, when the signing key is changed: who comes late with one of them is still told why. */
const REVOKED_KEPT = 32;
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 30_000;
/** Accounts that are compared with the hub at once. */
const SYNC_CONCURRENCY = 8;

export interface IssueOptions {
  /** From now, more than nothing and at most a day; null only for the accounts of a local node. */
  readonly expiresInMs: number | null;
}

/** Who speaks with the hub about its accounts. */
export interface AccountAuthority {
  readonly api: SystemApi;
  readonly signer: AccountSigner;
}

/** Accounts can not be changed: what would have to be given, in one line. */
export interface NoAuthority {
  readonly missing: string;
}

export interface HubAccountsOptions {
  readonly authority: AccountAuthority | NoAuthority;
  readonly recordsFolder: string;
  readonly clock: Clock;
  readonly log: Logger;
}

export class HubAccounts {
  readonly #options: HubAccountsOptions;
  readonly #store: AccountRecords;
  readonly #records: Map<NodeKey, AccountRecord>;
  readonly #lanes = new Map<NodeKey, Promise<unknown>>();
  readonly #retries = new Map<NodeKey, CancelTimer>();
  #stopped = false;

  private constructor(
    options: HubAccountsOptions,
    store: AccountRecords,
    records: readonly AccountRecord[],
  ) {
    this.#options = options;
    this.#store = store;
    this.#records = new Map(records.map((record) => [record.key, record]));
  }

  static async open(options: HubAccountsOptions): Promise<HubAccounts> {
    const { store, records } = await AccountRecords.open(options.recordsFolder);
    return new HubAccounts(options, store, records);
  }

  /** Whether it is the account of a node's link (not of its store). */
  isNode(key: string): key is NodeKey {
    const record = this.#records.get(key as NodeKey);
    return record !== undefined && !record.removed && record.kind !== "local-store";
  }

  /** Whether it is reached as a leaf, from a machine of its own. */
  isLeaf(key: NodeKey): boolean {
    return this.#records.get(key)?.kind === "node";
  }

  get keys(): NodeKey[] {
    return [...this.#records.values()].filter(({ removed }) => !removed).map(({ key }) => key);
  }

  async provision(kind: AccountKind): Promise<NodeKey> {
    this.#authority();
    const record = AccountRecords.make(kind);
    return await this.#alone(record.key, async () => {
      await this.#store.write(record);
      try {
        await this.#push(record);
      } catch (failure) {
        // Nobody knows its key; should the hub have taken it after all, nothing can ever be signed for it.
        await this.#store.delete(record.key);
        throw failure;
      }
      this.#records.set(record.key, record);
      return record.key;
    });
  }

  async issue(key: NodeKey, userKey: string, { expiresInMs }: IssueOptions): Promise<string> {
    const record = this.#existing(key);
    if (!isUserKey(userKey)) throw new LemonError("invalid_request");
    if (Object.hasOwn(record.revocations, userKey)) throw new LemonError("node_revoked");
    const isAllowed =
      expiresInMs === null
        ? record.kind !== "node"
        : expiresInMs > 0 && expiresInMs <= LONGEST_JWT_MS;
    if (!isAllowed) throw new LemonError("invalid_request");
    const exp =
      expiresInMs === null ? {} : { exp: Math.floor((this.#nowMs() + expiresInMs) / 1_000) };
    return await encodeUser(
      "worker",
      userKey,
      key,
      {},
      {
        signer: record.signing,
        scopedUser: true,
        ...exp,
      },
    );
  }

  async revoke(key: NodeKey, userKeys: readonly string[]): Promise<void> {
    if (!userKeys.every(isUserKey)) throw new LemonError("invalid_request");
    await this.#alone(key, async () => {
      const before = this.#existing(key);
      const nowSeconds = Math.floor(this.#nowMs() / 1_000);
      const record = withRevoked(before, userKeys, nowSeconds);
      await this.#store.write(record);
      this.#records.set(key, record);
      await this.#tell(record);
    });
  }

  /** Deletes the account. Doing it again, or for an account that is not there, does nothing. */
  async remove(key: NodeKey): Promise<void> {
    await this.#alone(key, async () => {
      const before = this.#records.get(key);
      if (before === undefined) return;
      const record = { ...before, removed: true };
      await this.#store.write(record);
      this.#records.set(key, record);
      await this.#tell(record);
    });
  }

  /** Brings the hub to what was decided: after a start, and whenever it may have been away. */
  async sync(): Promise<void> {
    if ("missing" in this.#options.authority) return;
    const keys = [...this.#records.keys()];
    const next = async (): Promise<void> => {
      for (let key = keys.pop(); key !== undefined; key = keys.pop()) await this.#syncOne(key);
    };
    await Promise.all(Array.from({ length: SYNC_CONCURRENCY }, next));
  }

  stop(): void {
    this.#stopped = true;
    for (const cancel of this.#retries.values()) cancel();
    this.#retries.clear();
  }

  async #syncOne(key: NodeKey): Promise<void> {
    await this.#alone(key, async () => {
      const record = this.#records.get(key);
      if (record === undefined) return;
      if (!record.removed) {
        const { api, signer } = this.#authority();
        if (saysSame(await api.accountClaims(key), claimsFor(record, signer))) return;
      }
      await this.#carryOut(record);
    });
  }

  async #carryOut(record: AccountRecord): Promise<void> {
    if (!record.removed) return await this.#push(record);
    const { api, signer } = this.#authority();
    await api.deleteAccounts(await signer.signDeletion([record.key]));
    await this.#store.delete(record.key);
    this.#records.delete(record.key);
  }

  async #push(record: AccountRecord): Promise<void> {
    const { api, signer } = this.#authority();
    const claims = claimsFor(record, signer);
    await api.updateAccount(await signer.signAccount(record.kind, record.key, claims));
  }

  #authority(): AccountAuthority {
    const { authority } = this.#options;
    if (!("missing" in authority)) return authority;
    throw new LemonError("unavailable", { message: authority.missing });
  }

  /** Carries out what is decided already; a hub that does not take it is told again later. */
  async #tell(record: AccountRecord): Promise<void> {
    try {
      await this.#carryOut(record);
      this.#retries.get(record.key)?.();
      this.#retries.delete(record.key);
    } catch (failure) {
      const { authority } = this.#options;
      if ("missing" in authority) {
        throw new LemonError("unavailable", {
          message: `It is recorded, and the hub is told once that is possible. ${authority.missing}`,
          mutationMayHaveApplied: true,
          cause: failure,
        });
      }
      this.#retryLater(record.key, RETRY_FIRST_MS);
      throw new LemonError("unavailable", {
        message: "The hub has not taken the change yet; it is recorded, and the hub is told again",
        mutationMayHaveApplied: true,
        cause: failure,
      });
    }
  }

  #retryLater(key: NodeKey, delayMs: number): void {
    if (this.#stopped) return;
    this.#retries.get(key)?.();
    const cancel = this.#options.clock.after(delayMs, () => {
      this.#retries.delete(key);
      void this.#syncOne(key).catch(() => {
        this.#options.log.warn({ delayMs }, "the hub has not taken an account's change yet");
        this.#retryLater(key, Math.min(delayMs * 2, RETRY_MAX_MS));
      });
    });
    this.#retries.set(key, cancel);
  }

  /** One change of an account at a time, in the order asked for. */
  #alone<T>(key: NodeKey, work: () => Promise<T>): Promise<T> {
    const before = this.#lanes.get(key) ?? Promise.resolve();
    const result = before.then(work);
    const settled = result.then(
      () => undefined,
      () => undefined,
    );
    this.#lanes.set(key, settled);
    void settled.then(() => {
      if (this.#lanes.get(key) === settled) this.#lanes.delete(key);
    });
    return result;
  }

  #existing(key: NodeKey): AccountRecord {
    const record = this.#records.get(key);
    if (record === undefined || record.removed) throw new LemonError("node_not_found");
    return record;
  }

  #nowMs(): number {
    return this.#options.clock.nowMs();
  }
}

function withRevoked(
  record: AccountRecord,
  userKeys: readonly string[],
  atSeconds: number,
): AccountRecord {
  const added = Object.fromEntries(userKeys.map((userKey) => [userKey, atSeconds]));
  // In the order of their revocation: no key looks like a number.
  const revocations = { ...record.revocations, ...added };
  const all = Object.entries(revocations);
  if (all.length <= MOST_REVOKED) return { ...record, revocations };
  return {
    ...record,
    signing: AccountRecords.newSigning(),
    revocations: Object.fromEntries(all.slice(-REVOKED_KEPT)),
  };
}

function claimsFor(record: AccountRecord, { controllerAccount }: AccountSigner) {
  const { kind, key, signing, revocations } = record;
  return accountOf(kind, key, controllerAccount, signing.getPublicKey(), Object.keys(revocations));
}
