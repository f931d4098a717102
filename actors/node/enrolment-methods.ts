/** Owns the methods by which a machine becomes a node and its workers come and go (control-plane-wire.md 2.5). */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { ParamsOf, ResultOf } from "../../protocol/methods.ts";
import type { ActorRef } from "../../supervision/actor.ts";
import { Attempts } from "../session/attempts.ts";
import { isWrongGuess } from "../session/authenticate.ts";
import type { AttemptBound } from "../session/buckets.ts";
import type { Caller, MethodHandlers } from "../session/handler.ts";
import type { Directory } from "./directory.ts";
import type { Fleet } from "./fleet.ts";
import { invalidChallenge, type NodePairingRequest, type PairingProtocol } from "./pairing.ts";
import { type Opening, SESSION_TTL_MS } from "./record.ts";
import type { NodeEvent } from "./sessions.ts";
import type { WorkerSession } from "./worker-link.ts";

export type EnrolmentMethod =
  | "node.pair.request"
  | "node.pair.list"
  | "node.pair.approve"
  | "node.pair.reject"
  | "node.pair.verify"
  | "connect.challenge"
  | "node.link.open";

/** What a challenge is worth that was given out for a device; null when it was not. Errors: `unauthorized`, and those of its store. */
export type RedeemDevice = (challenge: string) => Promise<ResultOf<"connect.challenge"> | null>;

export interface EnrolmentMethodsOptions {
  readonly fleet: Fleet;
  readonly directory: Directory;
  readonly pairing: ActorRef<PairingProtocol>;
  readonly publish: (event: NodeEvent) => void;
  readonly clock: Clock;
  readonly redeemDevice: RedeemDevice;
  /** What the answer of `node.link.open` names below the controller's own URL. */
  readonly leafPath: string;
  /** And what it names instead of it; null for nothing. */
  readonly leafUrl: string | null;
  /** Why nobody can join, in one line; null when they can. */
  readonly joinsRefused: string | null;
}

/** Codes have six digits, and name requests to whoever finds them. */
export const CODE_ATTEMPTS: AttemptBound = { burst: 10, refillMs: 6_000 };
export const CHALLENGE_ATTEMPTS: AttemptBound = { burst: 10, refillMs: 6_000 };
/** As many machines as a fleet brings at once; each request takes a place among the thousand that may wait. */
export const PAIRING_ATTEMPTS: AttemptBound = { burst: 120, refillMs: 1_000 };

/** Pairing waits for the registry, which waits for its store; below a method's 30 s. */
const DEADLINE = { deadlineMs: 25_000 } as const;

export function enrolmentMethods(
  options: EnrolmentMethodsOptions,
): MethodHandlers<EnrolmentMethod> {
  const { fleet, directory, pairing, publish, clock, redeemDevice } = options;
  const { leafPath, leafUrl, joinsRefused } = options;

  const refuseJoin = (): void => {
    if (joinsRefused !== null) throw new LemonError("unavailable", { message: joinsRefused });
  };

  const requests = new Attempts(clock, PAIRING_ATTEMPTS);
  const codes = new Attempts(clock, CODE_ATTEMPTS);
  const challenges = new Attempts(clock, CHALLENGE_ATTEMPTS);

  /** Whoever it was given out for. */
  const redeem = async (challenge: string): Promise<ResultOf<"connect.challenge">> => {
    const device = await redeemDevice(challenge);
    if (device !== null) return device;
    const redeemed = await pairing.ask("redeem", { challenge }, DEADLINE);
    if (redeemed === null) throw invalidChallenge();
    const { record, sessionToken } = redeemed;
    const { nodeId, name: nodeName } = record;
    return {
      verified: true,
      identity: { type: "node", nodeId, nodeName },
      token: sessionToken,
      summary: {
        verified: true,
        identityType: "node",
        identityId: nodeId,
        tokenTtlMs: SESSION_TTL_MS,
      },
    };
  };

  return {
    "node.pair.request": async (params, { remoteAddress }) => {
      requests.spend(remoteAddress);
      const request = await pairing.ask("request", params, DEADLINE);
      const { pairingId, code, nodeType, nodeName, expiresAtMs } = request;
      publish({
        event: "node.pair.requested",
        payload: { pairingId, code, nodeType, nodeName, expiresAtMs },
      });
      return { pairingId, code, expiresAtMs, summary: summary(request, { expiresAtMs }) };
    },

    "node.pair.list": async () => {
      const waiting = await pairing.ask("list", null, DEADLINE);
      return { requests: waiting.map(listed), summary: { requestCount: waiting.length } };
    },

    "node.pair.approve": async ({ pairingId }) => {
      refuseJoin();
      const approval = await pairing.ask("approve", { pairingId }, DEADLINE);
      const { request, nodeId, recoveryToken, challenge, challengeExpiresAtMs, recovered } =
        approval;
      await fleet.ensure(nodeId);
      publish({
        event: "node.pair.resolved",
        payload: { pairingId, nodeId, approved: true, rejected: false },
      });
      return {
        nodeId,
        ...(recoveryToken === null ? {} : { token: recoveryToken }),
        challengeToken: challenge,
        approved: true,
        summary: summary(request, { nodeId, approved: true, recovered, challengeExpiresAtMs }),
      };
    },

    "node.pair.reject": async ({ pairingId }) => {
      const request = await pairing.ask("reject", { pairingId }, DEADLINE);
      publish({
        event: "node.pair.resolved",
        payload: { pairingId, nodeId: null, approved: false, rejected: true },
      });
      return { pairingId, rejected: true, summary: summary(request, { rejected: true }) };
    },

    "node.pair.verify": async ({ code }, { remoteAddress }) => {
      const verify = () => pairing.ask("verify", { code }, DEADLINE);
      const { request, status } = await codes.guard(remoteAddress, verify, isWrongCode);
      const { pairingId } = request;
      const valid = status !== "rejected";
      return { valid, status, ...(valid ? { pairingId } : {}), summary: { valid, status } };
    },

    "connect.challenge": async ({ challenge }, { remoteAddress }) =>
      await challenges.charge(remoteAddress, () => redeem(challenge), isWrongGuess),

    "node.link.open": async (params, caller) => {
      const { nodeId, session } = sessionOf(caller);
      // A life that shows itself again only renews what it has. A new one would end that one first.
      if (directory.byId(nodeId).life?.linkKey !== params.linkKey) refuseJoin();
      const opened = await fleet.open(nodeId, openingOf(params), session);
      // Only the local node's credentials have no end, and it opens no session.
      if (opened.session === null || opened.linkLifetimeMs === null) {
        throw new LemonError("internal_error");
      }
      const { record, nodeKey, linkJwt, linkLifetimeMs } = opened;
      return {
        nodeId,
        nodeName: record.name,
        nodeKey,
        generation: record.generation,
        linkJwt,
        linkLifetimeMs,
        leafPath,
        leafUrl,
        sessionToken: opened.session.token,
        sessionTokenExpiresAtMs: opened.session.expiresAtMs,
        registeredStoreId: record.store?.id ?? null,
        registeredStoreSequence: record.store?.sequence ?? null,
      };
    },
  };
}

function isWrongCode(failure: unknown): boolean {
  return failure instanceof LemonError && failure.code === "pairing_not_found";
}

function sessionOf(caller: Caller): { nodeId: WorkerNodeId; session: WorkerSession } {
  if (caller.node === null) throw new LemonError("forbidden");
  const { connectionId, closed, close } = caller;
  const { nodeId, sessionGeneration } = caller.node;
  return { nodeId, session: { connectionId, sessionGeneration, closed, close } };
}
type WorkerNodeId = NonNullable<Caller["node"]>["nodeId"];

function openingOf(params: ParamsOf<"node.link.open">): Opening {
  const { linkKey, sealKey, serverName, lemonVersion, capabilities } = params;
  return {
    linkKey,
    sealKey,
    serverName,
    lemonVersion,
    capabilities,
    storeId: params.storeId ?? null,
    storeSequence: params.storeSequence ?? null,
  };
}

function listed({
  pairingId,
  code,
  nodeType,
  nodeName,
  capabilities,
  expiresAtMs,
  createdAtMs,
}: NodePairingRequest) {
  return { pairingId, code, nodeType, nodeName, capabilities, expiresAtMs, createdAtMs };
}

function summary(
  { pairingId, nodeType, capabilities }: NodePairingRequest,
  more: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return { pairingId, nodeType, capabilityCount: Object.keys(capabilities).length, ...more };
}
