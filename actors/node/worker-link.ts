/**
 * Owns one node's side of the hub: its account, the credentials of its worker life, and the order in
 * which lives take over from each other. Not concurrent: the node actor runs one of these at a time.
 *
 * 1. A new life is durable before anything else happens for it; the one before is cut on the hub before
 *    the new one gets credentials. At no time do two lives hold good ones.
 * 2. Every step may be repeated: a lost answer, a crash between two steps, a hub that is away.
 * 3. What became current, retired or cut off in the record takes effect here once, however the record
 *    came to say so: `reconcile`. A `/ws` session that ends by it is told why (`NODE_CLOSE`).
 * 4. A failure after the record was changed says that the change may stand.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { ConnectionId, NodeId, NodeKey } from "../../protocol/ids.ts";
import { NODE_CLOSE } from "../../protocol/methods/enrolment.ts";
import type { ActorRef } from "../../supervision/actor.ts";
import type { Directory } from "./directory.ts";
import { isUserKey, type LinkAccounts } from "./link.ts";
import { admitLife, type NodeRecord, type Opening } from "./record.ts";
import type { RegistryProtocol } from "./registry.ts";
import { type Secrets, sha256 } from "./secrets.ts";
import type { EndSessions } from "./sessions.ts";

/** How long a worker's NATS credentials hold; it renews them at half of it. */
const LINK_TTL_MS = 3_600_000;
const REGISTRY_DEADLINE = { deadlineMs: 20_000 } as const;
type CloseWord = (typeof NODE_CLOSE)[keyof typeof NODE_CLOSE];

/** The `/ws` session through which a worker life shows itself. */
export interface WorkerSession {
  readonly connectionId: ConnectionId;
  readonly sessionGeneration: number;
  readonly closed: AbortSignal;
  readonly close: (code: number, reason: string) => void;
}

export interface OpenedLink {
  readonly record: NodeRecord;
  readonly nodeKey: NodeKey;
  readonly linkJwt: string;
  /** Null for the local node, whose credentials end with the process. */
  readonly linkLifetimeMs: number | null;
  /** Null for the local node, which has no session. */
  readonly session: { readonly token: string; readonly expiresAtMs: number } | null;
}

export interface WorkerLinkOptions {
  readonly nodeId: NodeId;
  readonly registry: ActorRef<RegistryProtocol>;
  readonly directory: Directory;
  readonly accounts: LinkAccounts;
  readonly secrets: Secrets;
  readonly endSessions: EndSessions;
  /** The life that served until now does so no more. */
  readonly onLifeEnded: () => void;
  /** A new life may serve from now on. */
  readonly onLifeBegun: () => void;
}

export class WorkerLink {
  readonly #options: WorkerLinkOptions;
  /** The session of the present life, while it is connected. */
  #session: WorkerSession | null = null;
  /** The life that is in effect here, by its link key. */
  #linkKey: string | null = null;
  #isCutOff = false;

  constructor(options: WorkerLinkOptions) {
    this.#options = options;
  }

  /** Errors: `invalid_params`, `node_not_found`, `node_revoked`, `node_superseded`, `unavailable` and those of documents. */
  async open(opening: Opening, session: WorkerSession | null): Promise<OpenedLink> {
    const { registry, directory, secrets, nodeId } = this.#options;
    const before = directory.byId(nodeId);
    if (!isUserKey(opening.linkKey)) {
      throw new LemonError("invalid_params", {
        message: "Invalid params: linkKey: must be a public user nkey",
      });
    }
    admitLife(before, opening.linkKey, session?.sessionGeneration ?? null);
    await this.cutRetired();
    const nodeKey = await this.#account(before);
    const token = session === null ? null : secrets.token();
    const record = await registry.ask(
      "openLife",
      {
        nodeId,
        opening,
        session:
          session === null || token === null
            ? null
            : { generation: session.sessionGeneration, tokenHash: sha256(token) },
      },
      REGISTRY_DEADLINE,
    );
    this.reconcile(session);
    this.#adopt(session);
    const linkLifetimeMs = record.local ? null : LINK_TTL_MS;
    const issued = record.sessions.at(-1);
    const linkJwt = await completing(async () => {
      await this.cutRetired();
      return await this.#credentials(nodeKey, opening.linkKey, linkLifetimeMs);
    });
    return {
      record,
      nodeKey,
      linkJwt,
      linkLifetimeMs,
      session:
        token === null || issued === undefined ? null : { token, expiresAtMs: issued.expiresAtMs },
    };
  }

  /** Cuts the node off until it is joined again. Errors: `unavailable` (decided, and the hub is told again). */
  async revoke(): Promise<NodeRecord> {
    const { registry, nodeId } = this.#options;
    const record = await registry.ask("revoke", { nodeId }, REGISTRY_DEADLINE);
    this.reconcile();
    await completing(() => this.cutRetired());
    return record;
  }

  /** Forgets the node. Errors: as `revoke`; the node is hidden by then, and repeating it completes it. */
  async remove(): Promise<void> {
    const { registry, accounts, nodeId } = this.#options;
    const record = await registry.ask("beginRemoval", { nodeId }, REGISTRY_DEADLINE);
    this.reconcile();
    await completing(async () => {
      for (const account of [record.nodeKey, record.storeKey]) {
        if (account !== null) await accounts.remove(account);
      }
      await registry.ask("finishRemoval", { nodeId }, REGISTRY_DEADLINE);
    });
  }

  /** Somebody else holds the credentials of this life: it is over. */
  async retire(linkKey: string): Promise<void> {
    const { registry, directory, nodeId } = this.#options;
    if (directory.find(nodeId)?.life?.linkKey !== linkKey) return;
    await registry.ask("retireLife", { nodeId, linkKey }, REGISTRY_DEADLINE);
    this.reconcile();
    await this.cutRetired();
  }

  /** Puts into effect what the record says. `opening` is the session that a new life shows itself through. */
  reconcile(opening: WorkerSession | null = null): void {
    const { directory, nodeId, endSessions, onLifeEnded, onLifeBegun } = this.#options;
    const record = directory.known(nodeId);
    const isCutOff = record === null || record.revoked;
    const linkKey = record?.life?.linkKey ?? null;
    if (linkKey !== this.#linkKey) {
      const hadLife = this.#linkKey !== null;
      this.#linkKey = linkKey;
      if (opening === null || opening.connectionId !== this.#session?.connectionId) {
        this.#endSession(isCutOff ? NODE_CLOSE.revoked : NODE_CLOSE.superseded);
      }
      if (hadLife) onLifeEnded();
      if (linkKey !== null) onLifeBegun();
    }
    if (isCutOff && !this.#isCutOff) endSessions(nodeId, null, NODE_CLOSE.revoked);
    this.#isCutOff = isCutOff;
  }

  /** Has the hub cut whatever was retired and is not known to be cut. */
  async cutRetired(): Promise<void> {
    const { registry, directory, accounts, nodeId } = this.#options;
    const record = directory.find(nodeId);
    if (record === null || record.uncutLinkKeys.length === 0) return;
    const linkKeys = record.uncutLinkKeys;
    if (record.nodeKey !== null && accounts.nodes().includes(record.nodeKey)) {
      await accounts.revoke(record.nodeKey, linkKeys);
    }
    await registry.ask("linkKeysCut", { nodeId, linkKeys }, REGISTRY_DEADLINE);
  }

  /** The node's account; made on its first link, and again when the hub's keeper has lost it. */
  async #account(record: NodeRecord): Promise<NodeKey> {
    const { registry, accounts, nodeId } = this.#options;
    const known = accounts.nodes();
    const ensure = (key: NodeKey | null, kind: "node" | "local-node" | "local-store") =>
      key !== null && known.includes(key) ? key : accounts.provision(kind);
    const nodeKey = await ensure(record.nodeKey, record.local ? "local-node" : "node");
    const keepsStore = record.local && accounts.keepsStores;
    const storeKey = keepsStore ? await ensure(record.storeKey, "local-store") : record.storeKey;
    if (nodeKey !== record.nodeKey || storeKey !== record.storeKey) {
      await registry.ask("provisioned", { nodeId, nodeKey, storeKey }, REGISTRY_DEADLINE);
    }
    return nodeKey;
  }

  async #credentials(
    nodeKey: NodeKey,
    linkKey: string,
    expiresInMs: number | null,
  ): Promise<string> {
    try {
      return await this.#options.accounts.issue(nodeKey, linkKey, { expiresInMs });
    } catch (error) {
      if (!(error instanceof LemonError) || error.code !== "node_revoked") throw error;
      // The hub's keeper cut the key by itself (somebody else held it), and this room missed the news.
      await this.retire(linkKey);
      throw new LemonError("node_superseded", {
        message: "The worker's link credentials are in other hands and revoked; start it again",
      });
    }
  }

  /** The session that the present life showed itself through last is its session. */
  #adopt(session: WorkerSession | null): void {
    if (session?.connectionId === this.#session?.connectionId) return;
    this.#endSession(NODE_CLOSE.replaced);
    if (session === null || session.closed.aborted) return;
    this.#session = session;
    session.closed.addEventListener(
      "abort",
      () => {
        if (this.#session === session) this.#session = null;
      },
      { once: true },
    );
  }

  #endSession({ code, reason }: CloseWord): void {
    const session = this.#session;
    this.#session = null;
    session?.close(code, reason);
  }
}

/** What follows a change of the record: its failure is no refusal, since the change stands. */
async function completing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof LemonError)) throw error;
    const { code, message, wire, retrySafe, details } = error;
    const known = { message, wire, retrySafe, details, mutationMayHaveApplied: true };
    throw new LemonError(code, { ...known, cause: error });
  }
}
