/**
 * Owns the durable fleet: the only writer of node records. Everybody else reads the directory.
 *
 * 1. Names are unique: one change at a time, checked against every record.
 * 2. A change is one document write: a crash leaves the record as it was or as it shall be.
 * 3. A removed node's id is spent (a deleted document's key can not be created again).
 */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId, NodeKey } from "../../protocol/ids.ts";
import type { ActorSpec, Handlers } from "../../supervision/actor.ts";
import { DocumentLedger, settlingSoon } from "../../transport/document-ledger.ts";
import type { Documents } from "../../transport/documents.ts";
import type { Identity } from "../session/handler.ts";
import type { Directory } from "./directory.ts";
import {
  admitLife,
  type Enrolment,
  enrolled,
  enrolledAnew,
  isUnclaimed,
  lifeOpened,
  lifeRenewed,
  lifeRetired,
  linkKeysCut,
  type NodeRecord,
  type Opening,
  removalBegun,
  revoked,
  sessionBegun,
  storeSeen,
  tokenDropped,
  tokenIssued,
  tokenUsed,
} from "./record.ts";
import { sha256 } from "./secrets.ts";

/**
 * What may be asked of the registry. A change answers the record as it then is. Errors of every change
 * of one node: `node_not_found`, and those of `Documents`.
 */
export type RegistryProtocol = {
  /**
   * Adds a node; repeated, it puts the new recovery hash in place. A node of that name whose machine
   * never came is taken over, unless it is among `held` (a challenge for it is still out).
   * Errors: `node_name_in_use`.
   */
  enrol: (ask: { readonly enrolment: Enrolment; readonly held: ReadonlySet<string> }) => NodeRecord;
  /** Errors: `node_name_in_use`. */
  rename: (ask: { readonly nodeId: NodeId; readonly name: string }) => NodeRecord;
  setRecovery: (ask: { readonly nodeId: NodeId; readonly recoveryHash: string }) => NodeRecord;
  /** A challenge was redeemed. Errors: `node_revoked` when the node was cut off since it was given. */
  beginSession: (ask: {
    readonly nodeId: NodeId;
    readonly revocations: number;
    readonly tokenHash: string;
  }) => NodeRecord;
  /**
   * Who offers this token: null is nobody we know. Errors: `node_revoked`; `node_superseded` (a newer
   * token was used).
   */
  identify: (ask: { readonly token: string }) => Identity | null | "expired";
  provisioned: (ask: {
    readonly nodeId: NodeId;
    readonly nodeKey: NodeKey;
    readonly storeKey: NodeKey | null;
  }) => NodeRecord;
  /**
   * A worker life shows itself: the current one, or a new one that retires it. The token that answers
   * it is issued in the same write; the local node (null) has none. Errors: `node_revoked`;
   * `node_superseded` (the life or the session that asks is not the newest).
   */
  openLife: (ask: {
    readonly nodeId: NodeId;
    readonly opening: Opening;
    readonly session: { readonly generation: number; readonly tokenHash: string } | null;
  }) => NodeRecord;
  /** The credentials of this life are in other hands. Does nothing when it is current no more. */
  retireLife: (ask: { readonly nodeId: NodeId; readonly linkKey: string }) => NodeRecord;
  /** The hub confirmed that it cut these. */
  linkKeysCut: (ask: {
    readonly nodeId: NodeId;
    readonly linkKeys: readonly string[];
  }) => NodeRecord;
  revoke: (ask: { readonly nodeId: NodeId }) => NodeRecord;
  beginRemoval: (ask: { readonly nodeId: NodeId }) => NodeRecord;
  /** Nothing of it is left on the hub. Repeated, it does nothing. */
  finishRemoval: (ask: { readonly nodeId: NodeId }) => null;
  /** What a node's pings told. */
  seen: (ask: {
    readonly nodeId: NodeId;
    readonly lastSeenMs: number;
    readonly storeId: string | null;
    readonly storeSequence: number | null;
  }) => NodeRecord;
  /** The registry's own: settles what is in doubt, or tries again later. */
  settle: (ask: null) => null;
};

const SETTLE_DEADLINE = { deadlineMs: 60_000 } as const;

export interface RegistryOptions {
  readonly documents: Documents<NodeRecord>;
  readonly directory: Directory;
  /** A token of this generation was used: sessions of older ones have to end. */
  readonly onSessionReplaced: (nodeId: NodeId, generation: number) => void;
  /** A change without a clear answer was decided, one way or the other. */
  readonly onSettled: (nodeId: NodeId) => void;
}

export function registrySpec(options: RegistryOptions): ActorSpec<RegistryProtocol> {
  return {
    id: "registry",
    kind: "node-registry",
    restart: "permanent",
    async start({ self, clock, signal }) {
      const { documents, directory, onSettled } = options;
      // A registry that has ended reads everything again when it is back.
      const settle = () => self.ask("settle", null, SETTLE_DEADLINE).catch(() => undefined);
      const onDoubt = settlingSoon({ clock, signal }, settle);
      const ledger: RecordLedger = new DocumentLedger({
        documents,
        keyOf: ({ nodeId }) => nodeId,
        tokensOf: ({ sessions }) => sessions.map(({ hash }) => hash),
        missing: "node_not_found",
        onKept: (record) => directory.put(record),
        onForgotten: (nodeId) => directory.forget(nodeId),
        onDoubt,
        onSettled,
      });
      await ledger.load();
      directory.replaceAll(ledger.values());
      return { handlers: handlers(options, ledger, clock, onDoubt) };
    },
  };
}

type RecordLedger = DocumentLedger<NodeId, NodeRecord>;

function handlers(
  { directory, onSessionReplaced }: RegistryOptions,
  ledger: RecordLedger,
  clock: Clock,
  settleLater: () => void,
): Handlers<RegistryProtocol> {
  const change = (nodeId: NodeId, make: (record: NodeRecord) => NodeRecord) =>
    ledger.change(nodeId, (record) => {
      if (record.removing) throw new LemonError("node_not_found");
      return make(record);
    });
  const token = (hash: string) => ({ hash, issuedAtMs: clock.nowMs() });

  return {
    async settle() {
      try {
        await ledger.settle();
      } catch (error) {
        if (!(error instanceof LemonError)) throw error;
        settleLater();
      }
      return null;
    },

    async enrol({ enrolment, held }) {
      await ledger.settle();
      const { nodeId, recoveryHash } = enrolment;
      if (directory.find(nodeId) !== null) {
        return await change(nodeId, (record) => ({ ...record, recoveryHash }));
      }
      const holder = directory.named(enrolment.name);
      if (holder === null) return await ledger.create(enrolled(enrolment, clock.nowMs()));
      if (!isUnclaimed(holder) || held.has(holder.nodeId)) throw new LemonError("node_name_in_use");
      return await change(holder.nodeId, (record) =>
        enrolledAnew(record, enrolment, clock.nowMs()),
      );
    },

    async rename({ nodeId, name }) {
      await ledger.settle();
      const holder = directory.named(name);
      if (holder !== null && holder.nodeId !== nodeId) throw new LemonError("node_name_in_use");
      return await change(nodeId, (record) =>
        record.name === name ? record : { ...record, name },
      );
    },

    setRecovery: ({ nodeId, recoveryHash }) =>
      change(nodeId, (record) => ({ ...record, recoveryHash })),

    async beginSession({ nodeId, revocations, tokenHash }) {
      const record = await change(nodeId, (before) => {
        if (before.revocations !== revocations) throw new LemonError("node_revoked");
        return sessionBegun(before, token(tokenHash));
      });
      onSessionReplaced(nodeId, record.sessionGeneration);
      return record;
    },

    async identify({ token: offered }) {
      const hash = sha256(offered);
      const record = await ledger.settledHolder(hash);
      const session = record?.sessions.find((row) => row.hash === hash);
      if (record === null || session === undefined) return null;
      const { nodeId } = record;
      if (session.expiresAtMs <= clock.nowMs()) {
        await change(nodeId, (before) => tokenDropped(before, session));
        return "expired";
      }
      // A failed `connect` is UNAUTHORIZED on the wire; the classification says why.
      if (record.revoked) throw new LemonError("node_revoked");
      if (session.generation < record.sessionGeneration) {
        throw new LemonError("node_superseded", { wire: "UNAUTHORIZED" });
      }
      if (session.generation > record.sessionGeneration) {
        await change(nodeId, (before) => tokenUsed(before, session));
        onSessionReplaced(nodeId, session.generation);
      }
      const node = { nodeId, sessionGeneration: session.generation };
      return { role: "node", clientId: nodeId, node };
    },

    provisioned: ({ nodeId, nodeKey, storeKey }) =>
      change(nodeId, (record) => ({ ...record, nodeKey, storeKey })),

    openLife: ({ nodeId, opening, session }) =>
      change(nodeId, (before) => {
        admitLife(before, opening.linkKey, session?.generation ?? null);
        const record = session === null ? before : tokenIssued(before, token(session.tokenHash));
        if (record.life?.linkKey !== opening.linkKey) {
          return lifeOpened(record, opening, clock.nowMs());
        }
        const { sealKey, serverName } = record.life;
        if (sealKey !== opening.sealKey || serverName !== opening.serverName) {
          throw new LemonError("invalid_params", {
            message: "Invalid params: sealKey, serverName: must stay those of the worker life",
          });
        }
        return lifeRenewed(record, opening, clock.nowMs());
      }),

    retireLife: ({ nodeId, linkKey }) =>
      change(nodeId, (record) => (record.life?.linkKey === linkKey ? lifeRetired(record) : record)),

    linkKeysCut: ({ nodeId, linkKeys }) =>
      ledger.change(nodeId, (record) => linkKeysCut(record, linkKeys)),

    revoke: ({ nodeId }) => change(nodeId, revoked),

    beginRemoval: ({ nodeId }) =>
      ledger.change(nodeId, (record) => (record.removing ? record : removalBegun(record))),

    async finishRemoval({ nodeId }) {
      await ledger.delete(nodeId);
      return null;
    },

    seen: ({ nodeId, lastSeenMs, storeId, storeSequence }) =>
      change(nodeId, (record) => storeSeen({ ...record, lastSeenMs }, storeId, storeSequence)),
  };
}
