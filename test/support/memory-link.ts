/** Owns a hub and its links in memory: accounts, credentials, and workers that answer or do not. */
import type { LinkAccounts, LinkCall, LinkCalls } from "../../actors/node/link.ts";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import type { LinkConnection } from "../../transport/link/watch.ts";

interface Account {
  readonly kind: string;
  readonly revoked: Set<string>;
}

/** What a worker does with a call. */
export type Answering = (call: LinkCall) => unknown;

interface Flight {
  readonly account: NodeKey;
  readonly mutation: boolean;
  readonly reject: (error: LemonError) => void;
}

export class MemoryLink implements LinkAccounts, LinkCalls {
  keepsStores = true;
  readonly accounts = new Map<NodeKey, Account>();
  /** Every credential ever issued and not revoked since. */
  readonly issued: { readonly account: NodeKey; readonly linkKey: string }[] = [];
  /** While true, the hub takes nothing. */
  hubIsAway = false;
  /** What the controller's own connection says instead of sending; null when it is up. */
  connectionFault: LemonError | null = null;
  /** Who answers for an account; none is "no responders". */
  readonly workers = new Map<NodeKey, Answering>();
  readonly calls: { readonly account: NodeKey; readonly call: LinkCall }[] = [];
  readonly live: LinkConnection[] = [];
  readonly #flights = new Set<Flight>();
  #made = 0;

  nodes(): NodeKey[] {
    return [...this.accounts.keys()];
  }

  connections(account: NodeKey): LinkConnection[] {
    return this.live.filter((connection) => connection.account === account);
  }

  async provision(kind = "node"): Promise<NodeKey> {
    await this.#reachHub();
    this.#made += 1;
    const key = `A${String(this.#made).padStart(55, "X")}` as NodeKey;
    this.accounts.set(key, { kind, revoked: new Set() });
    return key;
  }

  async issue(
    account: NodeKey,
    linkKey: string,
    { expiresInMs }: { readonly expiresInMs: number | null },
  ): Promise<string> {
    await Promise.resolve();
    const known = this.accounts.get(account);
    if (known === undefined) throw new LemonError("node_not_found");
    if (known.revoked.has(linkKey)) throw new LemonError("node_revoked");
    this.issued.push({ account, linkKey });
    return `jwt.${account}.${linkKey}.${expiresInMs}`;
  }

  async revoke(account: NodeKey, linkKeys: readonly string[]): Promise<void> {
    await this.#reachHub();
    const known = this.accounts.get(account);
    if (known === undefined) throw new LemonError("node_not_found");
    for (const linkKey of linkKeys) known.revoked.add(linkKey);
  }

  async remove(account: NodeKey): Promise<void> {
    await this.#reachHub();
    this.accounts.delete(account);
  }

  /** Link keys that hold credentials of this account now. */
  holders(account: NodeKey): Set<string> {
    const revoked = this.accounts.get(account)?.revoked ?? null;
    if (revoked === null) return new Set();
    const keys = this.issued.filter((one) => one.account === account).map((one) => one.linkKey);
    return new Set(keys.filter((key) => !revoked.has(key)));
  }

  call(account: NodeKey, call: LinkCall): Promise<unknown> {
    if (this.connectionFault !== null) return Promise.reject(this.connectionFault);
    this.calls.push({ account, call });
    const worker = this.workers.get(account);
    if (worker === undefined) return Promise.reject(new LemonError("node_offline"));
    return new Promise((resolve, reject) => {
      const flight: Flight = { account, mutation: call.mutation, reject };
      this.#flights.add(flight);
      const end = (): void => void this.#flights.delete(flight);
      Promise.resolve()
        .then(() => worker(call))
        .then(resolve, reject)
        .finally(end);
    });
  }

  settleNode(account: NodeKey, why: ErrorCode): void {
    for (const flight of [...this.#flights]) {
      if (flight.account !== account) continue;
      this.#flights.delete(flight);
      const uncertain = { retrySafe: !flight.mutation, mutationMayHaveApplied: flight.mutation };
      flight.reject(new LemonError(why, uncertain));
    }
  }

  async #reachHub(): Promise<void> {
    await Promise.resolve();
    if (this.hubIsAway) throw new LemonError("unavailable", { mutationMayHaveApplied: true });
  }
}
