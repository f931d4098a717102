/**
 * Owns the node's side of becoming one: which credentials it tries, and the pairing flow of
 * control-plane-wire.md 5.1 up to a session token.
 *
 * 1. What is stored is used first; an operator's authority only when asked for, or when the stored
 *    token is refused and an operator token is at hand.
 * 2. A durable id is never given up for a new one without `--pair`, nor taken over by an operator's
 *    authority without `--repair`.
 */
import { type Client, ConnectError, connect, type OpenSocket } from "../../client/index.ts";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { UsageError } from "../exit.ts";
import type { JoinOptions } from "../options.ts";
import { type Enrolment, findEnrolment, storeEnrolment } from "./enrolment-file.ts";

/** What the controller knows this kind of node as. */
const NODE_TYPE = "coding_agent";

export interface EnrolOptions {
  readonly join: JoinOptions;
  readonly capabilities: Readonly<Record<string, unknown>>;
  readonly openSocket: OpenSocket;
  readonly clock: Clock;
  /** Ends the attempts. */
  readonly signal: AbortSignal;
}

/** The session a worker connects with. */
export interface Session {
  readonly enrolment: Enrolment;
  readonly token: string;
}

/**
 * Finds out what speaks against a join before anything is fetched for it, and changes nothing: what is asked
 * for can not be, or the controller does not take the token, or is not there. Errors: as `enrol`.
 */
export async function vet(options: EnrolOptions): Promise<void> {
  const { join } = options;
  const { home, name: localName, controller, nodeId } = join;
  const stored = await findEnrolment(home, { localName, controller, nodeId });
  if (join.token === null) {
    if (stored !== null && stored.token !== null && !join.pair && !join.repair) return;
    claimOf(join, stored);
  }
  const client = await connectAs(options, join.token ?? join.operatorToken);
  client.close();
}

/** Errors: `invalid_params` when what is asked for can not be; those of the connection and the calls. */
export async function enrol(options: EnrolOptions): Promise<Session> {
  const { join } = options;
  const { home, name: localName, controller, nodeId } = join;
  const stored = await findEnrolment(home, { localName, controller, nodeId });
  if (join.token !== null) return await adopt(options, join.token, stored);
  if (stored !== null && stored.token !== null && !join.pair && !join.repair) {
    if (join.operatorToken === null || (await isGood(options, stored.token))) {
      return { enrolment: stored, token: stored.token };
    }
  }
  return await pair(options, stored);
}

/** Joins with a session token that somebody else obtained. */
async function adopt(
  options: EnrolOptions,
  token: string,
  stored: Enrolment | null,
): Promise<Session> {
  const { join, clock } = options;
  const client = await connectAs(options, token);
  const { clientId, role } = client.hello;
  client.close();
  if (role !== "node" || clientId === null) {
    throw new LemonError("unauthorized", {
      message: "The token given with --token is no node's session token",
    });
  }
  if (join.nodeId !== null && join.nodeId !== clientId) {
    throw new LemonError("unauthorized", {
      message: "The token given with --token is another node's than --node-id names",
    });
  }
  const enrolment: Enrolment = {
    localName: join.name,
    nodeName: join.name,
    recoveryToken: stored !== null && stored.nodeId === clientId ? stored.recoveryToken : null,
    token,
    nodeId: clientId,
    controller: join.controller,
    storedAtMs: clock.nowMs(),
  };
  await storeEnrolment(join.home, enrolment);
  return { enrolment, token };
}

/** A controller that can not be reached now has refused nothing: the worker goes on trying with the token. */
async function isGood(options: EnrolOptions, token: string): Promise<boolean> {
  try {
    const client = await connectAs(options, token);
    client.close();
    return true;
  } catch (failure) {
    if (!(failure instanceof ConnectError) || failure.reason === "aborted") throw failure;
    return failure.retrySafe;
  }
}

async function pair(options: EnrolOptions, stored: Enrolment | null): Promise<Session> {
  const { join, clock } = options;
  const claim = claimOf(join, stored);
  const client = await connectAs(options, join.operatorToken);
  try {
    const { pairingId } = await client.call("node.pair.request", {
      nodeType: NODE_TYPE,
      // That of a node which comes back stays what it is.
      nodeName: join.name,
      capabilities: options.capabilities,
      ...claim,
    });
    const approval = await client.call("node.pair.approve", { pairingId });
    // Whatever happens next, the machine can prove that this id is its own.
    const approved: Enrolment = {
      localName: join.name,
      nodeName: join.name,
      token: null,
      nodeId: approval.nodeId,
      controller: join.controller,
      recoveryToken: approval.token ?? stored?.recoveryToken ?? null,
      storedAtMs: clock.nowMs(),
    };
    await storeEnrolment(join.home, approved);
    const { token, identity } = await client.call("connect.challenge", {
      challenge: approval.challengeToken,
    });
    const enrolment = {
      ...approved,
      token,
      nodeName: identity.type === "node" ? identity.nodeName : approved.nodeName,
      storedAtMs: clock.nowMs(),
    };
    await storeEnrolment(join.home, enrolment);
    return { enrolment, token };
  } finally {
    client.close();
  }
}

/** What this machine asks to be: a new node (nothing), or one that exists, and by what right. */
function claimOf(join: JoinOptions, stored: Enrolment | null) {
  const nodeId = join.nodeId ?? (join.pair && !join.repair ? null : (stored?.nodeId ?? null));
  if (nodeId === null && join.repair) {
    throw new UsageError("--repair wants --node-id: no enrolment of this name is stored here");
  }
  if (nodeId === null) return {};
  if (join.repair) return { nodeId, repair: true };
  const recoveryToken = stored?.recoveryToken ?? null;
  if (recoveryToken !== null) return { nodeId, recoveryToken };
  throw new UsageError(
    "nothing stored here can recover the node; add --repair to take it over by the operator's authority",
  );
}

function connectAs(options: EnrolOptions, token: string | null): Promise<Client> {
  const { join, openSocket, signal } = options;
  return connect({
    url: join.controller,
    token,
    clientId: `lemon-execution-node-pair:${join.name}`,
    openSocket,
    signal,
  });
}
