/**
 * Owns the node's side of becoming one: which credentials it tries, and the pairing flow of
 * control-plane-wire.md 5.1 up to a session token.
 *
 * 1. What is stored is used first; an operator's authority only when asked for, or when the stored
 *    token is refused and an operator token is at hand.
 * 2. A durable id is never given up for a new one without `--pair`.
 */
import { type Client, ConnectError, connect, type OpenSocket } from "../../client/index.ts";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
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

/** Errors: `unauthorized` with what to do about it; those of the calls. */
export async function enrol(options: EnrolOptions): Promise<Session> {
  const { join, clock } = options;
  const stored = await findEnrolment(join.home, join.name, join.controller);
  if (join.token !== null) return await adopt(options, join.token, stored);
  const sameNode = join.nodeId === null || stored?.nodeId === join.nodeId;
  const anew = join.pair || join.repair || !sameNode;
  if (stored !== null && stored.token !== null && !anew) {
    if (join.operatorToken === null || (await isGood(options, stored.token))) {
      return { enrolment: stored, token: stored.token };
    }
  }
  return await pair(options, sameNode ? stored : null, clock);
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

async function pair(
  options: EnrolOptions,
  stored: Enrolment | null,
  clock: Clock,
): Promise<Session> {
  const { join } = options;
  const client = await connectAs(options, join.operatorToken);
  try {
    const nodeId = join.nodeId ?? (join.pair && !join.repair ? null : (stored?.nodeId ?? null));
    const { pairingId } = await client.call("node.pair.request", {
      nodeType: NODE_TYPE,
      nodeName: stored?.nodeName ?? join.name,
      capabilities: options.capabilities,
      ...(nodeId === null ? {} : recovery(join, nodeId, stored)),
    });
    const approval = await client.call("node.pair.approve", { pairingId });
    // Whatever happens next, the machine can prove that this id is its own.
    const approved: Enrolment = {
      localName: join.name,
      nodeName: stored?.nodeName ?? join.name,
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
      nodeName: identity.nodeName,
      storedAtMs: clock.nowMs(),
    };
    await storeEnrolment(join.home, enrolment);
    return { enrolment, token };
  } finally {
    client.close();
  }
}

function recovery(join: JoinOptions, nodeId: string, stored: Enrolment | null) {
  const recoveryToken = stored?.nodeId === nodeId ? stored.recoveryToken : null;
  return join.repair || recoveryToken === null
    ? { nodeId, repair: true }
    : { nodeId, recoveryToken };
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
