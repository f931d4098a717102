/**
 * Owns how a machine becomes a node, up to its first session token (control-plane-wire.md 2.5).
 *
 * 1. All of it is in memory; a controller that restarts has forgotten it, and the machine asks again.
 * 2. Which durable id a request is for is settled when it is made: approving it again, after whatever
 *    failure, never makes a second node.
 * 3. A challenge is worth one session, and nothing once its node was cut off.
 */
import { randomUUID } from "node:crypto";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId } from "../../protocol/ids.ts";
import type { ParamsOf } from "../../protocol/methods.ts";
import type { ActorRef, ActorSpec, Handlers } from "../../supervision/actor.ts";
import type { Directory } from "./directory.ts";
import { type Entry as BookEntry, PairingBook, type PairingRequest } from "./pairing-book.ts";
import { isUnclaimed, type NodeRecord, refuseLocal } from "./record.ts";
import type { RegistryProtocol } from "./registry.ts";
import { type Secrets, sameHash, sha256 } from "./secrets.ts";

/** One change of the registry, with the reading back that a silent store needs. */
const REGISTRY_DEADLINE = { deadlineMs: 20_000 } as const;

/** What a machine says of itself. */
type Asked = Pick<ParamsOf<"node.pair.request">, "nodeType" | "nodeName"> & {
  readonly capabilities: NodeRecord["capabilities"];
};
export type NodePairingRequest = PairingRequest<Asked>;

/** How a request may have the durable id it is for. */
type Claim =
  | { readonly kind: "new" }
  | { readonly kind: "recovery"; readonly tokenHash: string }
  | { readonly kind: "repair" };

interface Held {
  readonly claim: Claim;
  nodeId: NodeId;
  /** Of the node when the request was approved: what is granted again must still be that. */
  revocations: number;
  recoveryHash: string | null;
}
type Entry = BookEntry<Asked, Held>;

interface Approval {
  readonly request: NodePairingRequest;
  readonly nodeId: NodeId;
  /** Given out once; null when the node came back by it, or when it was given out before. */
  readonly recoveryToken: string | null;
  readonly challenge: string;
  readonly challengeExpiresAtMs: number;
  /** The node was enrolled before this approval. */
  readonly recovered: boolean;
}

export type PairingProtocol = {
  /**
   * Errors: `node_name_in_use`; `rate_limited`; for a node that comes back also `node_not_found`,
   * `node_revoked`, `forbidden` (a wrong recovery token), `conflict` (the local node).
   */
  request: (ask: ParamsOf<"node.pair.request">) => NodePairingRequest;
  /** Those that wait, oldest first. */
  list: (ask: null) => readonly NodePairingRequest[];
  /** Errors: `pairing_not_found`, `pairing_not_pending`, `pairing_expired`, and those of `request`. */
  approve: (ask: { readonly pairingId: string }) => Approval;
  /** Errors: `pairing_not_found`, `pairing_not_pending`, `pairing_expired`. */
  reject: (ask: { readonly pairingId: string }) => NodePairingRequest;
  /** Errors: `pairing_not_found`, `pairing_expired`. */
  verify: (ask: { readonly code: string }) => Pick<Entry, "request" | "status">;
  /** Takes the challenge for a session token; null when it is none of ours. Errors: `unauthorized`. */
  redeem: (ask: { readonly challenge: string }) => {
    readonly record: NodeRecord;
    readonly sessionToken: string;
  } | null;
};

export interface PairingOptions {
  readonly registry: ActorRef<RegistryProtocol>;
  readonly directory: Directory;
  readonly secrets: Secrets;
}

export function pairingSpec(options: PairingOptions): ActorSpec<PairingProtocol> {
  return {
    id: "pairing",
    kind: "node-pairing",
    restart: "permanent",
    start: ({ clock }) => ({
      handlers: handlers(options, new PairingBook(clock, options.secrets)),
    }),
  };
}

function handlers(
  { registry, directory, secrets }: PairingOptions,
  book: PairingBook<Asked, Held>,
): Handlers<PairingProtocol> {
  const paired = (nodeId: string): NodeRecord => {
    const record = directory.find(nodeId);
    if (record !== null) return record;
    throw new LemonError("node_not_found", { message: "Paired node was not found" });
  };

  const open = (asked: Asked, claim: Claim, nodeId: NodeId): Entry =>
    book.open(asked, { claim, nodeId, revocations: 0, recoveryHash: null });

  /** The nodes whose machine may still come with its challenge. */
  const heldNodes = (): Set<string> => new Set(book.challenged().map(({ held }) => held.nodeId));

  /** A machine that is new here. */
  const requestNew = (ask: ParamsOf<"node.pair.request">): Entry => {
    const { nodeName, nodeType, capabilities = {} } = ask;
    const holder = directory.named(nodeName);
    if (holder !== null && !isUnclaimed(holder)) throw new LemonError("node_name_in_use");
    const claim = book.challenged().find(({ held }) => held.nodeId === holder?.nodeId);
    if (claim !== undefined) {
      // Often it is the same machine, whose first try was cut off.
      throw new LemonError("node_name_in_use", {
        details: { retryAfterMs: book.challengedForMs(claim) },
      });
    }
    const nodeId = randomUUID() as NodeId;
    return open({ nodeType, nodeName, capabilities }, { kind: "new" }, nodeId);
  };

  /** A machine that was here before. Its name and type stay; `node.rename` gives another name. */
  const requestAgain = (ask: ParamsOf<"node.pair.request">, nodeId: string): Entry => {
    const record = paired(nodeId);
    refuseLocal(record);
    const { name: nodeName, type: nodeType } = record;
    const asked = { nodeType, nodeName, capabilities: ask.capabilities ?? record.capabilities };
    if (ask.repair === true) return open(asked, { kind: "repair" }, record.nodeId);
    if (ask.recoveryToken === undefined) {
      throw new LemonError("invalid_params", {
        message: "Missing one of: recoveryToken or repair",
      });
    }
    const tokenHash = sha256(ask.recoveryToken);
    refuseWrongRecovery(record, tokenHash);
    return open(asked, { kind: "recovery", tokenHash }, record.nodeId);
  };

  /** What the first approval of a request does. */
  const grant = async (
    entry: Entry,
  ): Promise<{ readonly record: NodeRecord; readonly recoveryToken: string | null }> => {
    const { request } = entry;
    const { claim, nodeId } = entry.held;
    if (claim.kind === "recovery") {
      const record = paired(nodeId);
      refuseWrongRecovery(record, claim.tokenHash);
      return { record, recoveryToken: null };
    }
    const recoveryToken = secrets.token();
    const recoveryHash = sha256(recoveryToken);
    if (claim.kind === "repair") {
      paired(nodeId);
      const ask = { nodeId, recoveryHash };
      const record = await registry.ask("setRecovery", ask, REGISTRY_DEADLINE);
      return { record, recoveryToken };
    }
    const { nodeName: name, nodeType: type, capabilities } = request;
    const enrolment = { nodeId, name, type, capabilities, recoveryHash, local: false };
    const ask = { enrolment, held: heldNodes() };
    const record = await registry.ask("enrol", ask, REGISTRY_DEADLINE);
    return { record, recoveryToken };
  };

  /** What was approved before the node was cut off, or passed to another machine, is void. */
  const grantAgain = ({
    held,
  }: Entry): { readonly record: NodeRecord; readonly recoveryToken: null } => {
    const record = paired(held.nodeId);
    if (record.revocations !== held.revocations) throw new LemonError("node_revoked");
    // Another pairing took the node over since: it is not this request's any more.
    if (record.recoveryHash !== held.recoveryHash) throw new LemonError("pairing_not_pending");
    return { record, recoveryToken: null };
  };

  return {
    request: (ask) =>
      (ask.nodeId === undefined ? requestNew(ask) : requestAgain(ask, ask.nodeId)).request,

    list: () => book.waiting().map(({ request }) => request),

    async approve({ pairingId }) {
      const entry = book.find(pairingId);
      const { held } = entry;
      const again = entry.status === "approved";
      const { record, recoveryToken } = again ? grantAgain(entry) : await grant(entry);
      held.nodeId = record.nodeId;
      held.revocations = record.revocations;
      held.recoveryHash = record.recoveryHash;
      entry.status = "approved";
      const { challenge, expiresAtMs } = book.giveChallenge(entry);
      return {
        request: entry.request,
        nodeId: record.nodeId,
        recoveryToken,
        challenge,
        challengeExpiresAtMs: expiresAtMs,
        recovered: again || held.claim.kind !== "new",
      };
    },

    reject: ({ pairingId }) => book.reject(pairingId).request,

    verify({ code }) {
      const entry = book.byCode(code);
      if (entry === null) {
        throw new LemonError("pairing_not_found", { message: "Invalid pairing code" });
      }
      if (book.isOver(entry)) {
        throw new LemonError("pairing_expired", { message: "Pairing code has expired" });
      }
      return { request: entry.request, status: entry.status };
    },

    redeem: ({ challenge }) =>
      book.redeem(challenge, async ({ held: { nodeId, revocations } }) => {
        const sessionToken = secrets.token();
        const ask = { nodeId, revocations, tokenHash: sha256(sessionToken) };
        try {
          const record = await registry.ask("beginSession", ask, REGISTRY_DEADLINE);
          return { record, sessionToken };
        } catch (error) {
          // Removed or cut off since: what was granted before is void.
          const isVoid =
            error instanceof LemonError &&
            (error.code === "node_not_found" || error.code === "node_revoked");
          throw isVoid ? invalidChallenge() : error;
        }
      }),
  };
}

function refuseWrongRecovery(record: NodeRecord, tokenHash: string): void {
  if (record.revoked) throw new LemonError("node_revoked");
  if (record.recoveryHash === null || !sameHash(record.recoveryHash, tokenHash)) {
    throw new LemonError("forbidden", { message: "Recovery token is invalid" });
  }
}

/** For a challenge that is worth nothing, or never was. */
export function invalidChallenge(): LemonError {
  return new LemonError("unauthorized", { message: "Invalid challenge" });
}
