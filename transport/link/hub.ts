/**
 * The door of the controller's side of the node link: accounts, credentials and who is connected.
 *
 * 1. What was decided (an account, a revocation, a removal) is brought to the hub again whenever it
 *    may have missed it.
 * 2. Credentials in two hands are revoked first and told of then.
 */
import type { NatsConnection, Subscription } from "@nats-io/transport-node";
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import type { AccountSigner } from "../keys/authority.ts";
import type { AccountKind } from "../keys/claims.ts";
import {
  type AccountAuthority,
  HubAccounts,
  type IssueOptions,
  type NoAuthority,
} from "./accounts.ts";
import { readAdvisory, type SystemApi, type SystemConnection, systemApi } from "./system-api.ts";
import { type LinkConnection, type LinkEvent, LinkWatch } from "./watch.ts";

const RESYNC_RETRY_MS = 1_000;

export interface HubLinkOptions {
  /** A connection of the system account; without one nobody tells who is connected. */
  readonly system: NatsConnection | null;
  /** Signs accounts; or why none is made or changed. It needs `system` too. */
  readonly authority: AccountSigner | NoAuthority;
  /** Whether a local node keeps its receipts here, in a second account. Default: it does. */
  readonly keepsStores?: boolean;
  /** Private folder of the account records. */
  readonly recordsFolder: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called for each event, in order; must not throw. A `shared` key is revoked by then. */
  readonly onEvent: (event: LinkEvent) => void;
  /** The renewal of its link that a node makes just now (`RpcCaller.renewal`). */
  readonly renewal: (node: NodeKey) => number | null;
}

export interface HubLink {
  /** Whether a local node has an account for its receipts here too. */
  readonly keepsStores: boolean;
  /** Makes an account (default kind `node`); about 30 ms. Errors: `unavailable` (nothing remains). */
  provision(kind?: AccountKind): Promise<NodeKey>;
  /** A user JWT for a worker's own public nkey. Errors: `node_not_found`, `node_revoked`, `invalid_request`. */
  issue(node: NodeKey, workerKey: string, options: IssueOptions): Promise<string>;
  /**
   * Cuts these keys off, for good. Errors: `node_not_found`; `unavailable`: recorded, and the hub is
   * told again until it takes it.
   */
  revoke(node: NodeKey, workerKeys: readonly string[]): Promise<void>;
  /** Deletes the account and cuts what it has. Errors: as `revoke`. */
  remove(node: NodeKey): Promise<void>;
  /** The accounts that exist. */
  nodes(): NodeKey[];
  connections(node: NodeKey): LinkConnection[];
  stop(): void;
}

/** Resolves once the hub has every account and what is connected has been told. */
export async function openHubLink(options: HubLinkOptions): Promise<HubLink> {
  const { system, authority, recordsFolder, clock, log } = options;
  const api = system === null ? null : systemApi(system);
  const accounts = await HubAccounts.open({
    authority: accountAuthority(api, authority),
    recordsFolder,
    clock,
    log,
  });
  const link = new Hub(options, api, accounts);
  try {
    await link.start();
  } catch (failure) {
    link.stop();
    throw failure;
  }
  return link;
}

function accountAuthority(
  api: SystemApi | null,
  authority: AccountSigner | NoAuthority,
): AccountAuthority | NoAuthority {
  if ("missing" in authority) return authority;
  if (api === null) throw new LemonError("internal_error");
  return { api, signer: authority };
}

class Hub implements HubLink {
  readonly keepsStores: boolean;
  readonly #options: HubLinkOptions;
  readonly #api: SystemApi | null;
  readonly #accounts: HubAccounts;
  readonly #watch: LinkWatch;
  readonly #subscriptions: readonly Subscription[];
  #cancelResync: CancelTimer | null = null;
  #comparing: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: HubLinkOptions, api: SystemApi | null, accounts: HubAccounts) {
    this.keepsStores = options.keepsStores ?? true;
    this.#options = options;
    this.#api = api;
    this.#accounts = accounts;
    this.#watch = new LinkWatch({
      clock: options.clock,
      isNode: (account): account is NodeKey => accounts.isNode(account),
      isLeaf: (account) => accounts.isLeaf(account),
      renewal: options.renewal,
      emit: (event) => this.#emit(event),
      refresh: () => this.#inTurn(() => this.#reconcile()),
    });
    this.#subscriptions = options.system === null ? [] : this.#follow(options.system);
  }

  start(): Promise<void> {
    return this.#inTurn(() => this.#compare());
  }

  provision(kind: AccountKind = "node"): Promise<NodeKey> {
    return this.#accounts.provision(kind);
  }

  issue(node: NodeKey, workerKey: string, options: IssueOptions): Promise<string> {
    return this.#accounts.issue(node, workerKey, options);
  }

  revoke(node: NodeKey, workerKeys: readonly string[]): Promise<void> {
    return this.#accounts.revoke(node, workerKeys);
  }

  remove(node: NodeKey): Promise<void> {
    return this.#accounts.remove(node);
  }

  nodes(): NodeKey[] {
    return this.#accounts.keys;
  }

  connections(node: NodeKey): LinkConnection[] {
    return this.#watch.connections(node);
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#cancelResync?.();
    this.#accounts.stop();
    this.#watch.stop();
    if (this.#options.system?.isClosed() === true) return;
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
  }

  #follow(system: NatsConnection): readonly Subscription[] {
    const on = (kind: string, use: (connection: SystemConnection, reason: string) => void) =>
      system.subscribe(`$SYS.ACCOUNT.*.${kind}`, {
        callback: (error, message) => {
          const advisory = error === null ? readAdvisory(message.data) : null;
          if (advisory?.connection) use(advisory.connection, advisory.reason);
        },
      });
    void (async () => {
      for await (const { type } of system.status()) {
        if (this.#stopped) return;
        if (type === "reconnect") this.#resync();
      }
    })();
    return [
      on("CONNECT", (connection) => this.#watch.connected(connection)),
      on("DISCONNECT", (connection, reason) => this.#watch.disconnected(connection, reason)),
    ];
  }

  #emit(event: LinkEvent): void {
    if (this.#stopped) return;
    if (event.type !== "shared") {
      this.#options.onEvent(event);
      return;
    }
    const { account, userKey } = event;
    this.#options.log.warn({ account }, "two servers use one worker's credentials; revoking them");
    // Revoking is recorded before the hub is asked, so it holds even when the hub does not answer now.
    void this.#accounts
      .revoke(account, [userKey])
      .catch((failure: unknown) => {
        const code = failure instanceof LemonError ? failure.code : "internal_error";
        this.#options.log.warn({ account, code }, "the hub has not cut them yet");
      })
      .then(() => {
        if (!this.#stopped) this.#options.onEvent(event);
      });
  }

  /** After a gap nobody knows what the hub missed, nor what we missed. */
  #resync(): void {
    this.#cancelResync?.();
    this.#cancelResync = null;
    void this.#inTurn(() => this.#compare()).catch(() => {
      if (this.#stopped) return;
      this.#options.log.warn("the hub does not answer yet; its accounts are compared again");
      this.#cancelResync?.();
      this.#cancelResync = this.#options.clock.after(RESYNC_RETRY_MS, () => this.#resync());
    });
  }

  async #compare(): Promise<void> {
    await this.#accounts.sync();
    await this.#reconcile();
  }

  async #reconcile(): Promise<void> {
    const api = this.#api;
    if (api !== null) await this.#watch.reconcile(() => api.connections());
  }

  /** One comparison at a time. */
  #inTurn(compare: () => Promise<void>): Promise<void> {
    const turn = this.#comparing.then(async () => {
      if (!this.#stopped) await compare();
    });
    this.#comparing = turn.catch(() => undefined);
    return turn;
  }
}
