/**
 * Owns what each account of the hub may do: the claims that node-link.md proved against a peer that
 * speaks the raw leaf protocol. Pure: no key, no clock, no file.
 *
 * 1. The controller's account never changes when a node is added.
 * 2. A node's account imports its own two subject trees and nothing else, exports nothing, has no
 *    JetStream, and its one signing key is scoped: a user JWT it signs carries no rights of its own.
 */
import type { Account, ConnectionType, OperatorLimits, SigningKey } from "@nats-io/jwt";
import type { NodeKey } from "../../protocol/ids.ts";
import {
  CONTROLLER_EXPORT,
  controllerSubjects,
  NODE_EXPORT,
  nodeSubjects,
} from "../rpc/subjects.ts";

/**
 * `node`: a machine's account, reached as a leaf. `local-node` and `local-store`: the two accounts of
 * the node that shares the controller's process and server, reached by plain connections.
 */
export const ACCOUNT_KINDS = ["node", "local-node", "local-store"] as const;
export type AccountKind = (typeof ACCOUNT_KINDS)[number];

/**
 * How long the hub keeps the way back for an answer to a node's request, in ms (its own default is two
 * minutes). A node that asks for answers where none ever come, 30,000 times a second, makes the hub hold
 * 0.7 kB for each of them until then.
 */
const ANSWER_WITHIN_MS = 5_000;
/**
 * A revocation voids what was issued up to a time, in Unix seconds: here the end of the year 9999. A clock
 * that ran ahead while credentials were issued, or was set back since, saves none of them.
 */
const REVOKED_UP_TO_S = 253_402_300_799;
/** Position of the account's key in `node.<key>.…` and `ctl.<key>.…`, counted from 1. */
const KEY_TOKEN = 2;
const UNLIMITED = -1;

const NO_TRAFFIC_LIMITS = { subs: UNLIMITED, data: UNLIMITED, payload: UNLIMITED };
const JETSTREAM: OperatorLimits = {
  mem_storage: UNLIMITED,
  disk_storage: UNLIMITED,
  streams: UNLIMITED,
  consumer: UNLIMITED,
};

/** `conn` counts leafs too; a second one lets a replacement in while a frozen leaf is still there. */
const NODE_LIMITS: OperatorLimits = {
  ...NO_TRAFFIC_LIMITS,
  subs: 500,
  leaf: 2,
  conn: 2,
  imports: 2,
  exports: 0,
  wildcards: true,
};

export function systemAccount(): Partial<Account> {
  return {
    limits: {
      ...NO_TRAFFIC_LIMITS,
      conn: UNLIMITED,
      leaf: 0,
      imports: 0,
      exports: 0,
      wildcards: true,
    },
  };
}

export function controllerAccount(): Partial<Account> {
  return {
    limits: {
      ...NO_TRAFFIC_LIMITS,
      ...JETSTREAM,
      conn: UNLIMITED,
      leaf: 0,
      imports: 0,
      exports: 2,
      wildcards: true,
    },
    exports: [
      {
        name: "node",
        subject: NODE_EXPORT,
        type: "stream",
        account_token_position: KEY_TOKEN,
      },
      {
        name: "ctl",
        subject: CONTROLLER_EXPORT,
        type: "service",
        response_type: "Singleton",
        response_threshold: ANSWER_WITHIN_MS * 1_000_000,
        account_token_position: KEY_TOKEN,
      },
    ],
  };
}

/** What an account of this kind may do, without those of its users that are `revoked` (public nkeys). */
export function accountOf(
  kind: AccountKind,
  key: NodeKey,
  controller: string,
  signingKey: string,
  revoked: readonly string[],
): Partial<Account> {
  const revocations = Object.fromEntries(revoked.map((userKey) => [userKey, REVOKED_UP_TO_S]));
  if (kind === "local-store") {
    return {
      limits: {
        ...NO_TRAFFIC_LIMITS,
        ...JETSTREAM,
        conn: 4,
        leaf: 0,
        imports: 0,
        exports: 0,
        wildcards: true,
      },
      signing_keys: [scope(signingKey, ["STANDARD"], [], [])],
      revocations,
    };
  }
  const leaf = kind === "node";
  const types: ConnectionType[] = leaf ? ["LEAFNODE", "LEAFNODE_WS"] : ["STANDARD"];
  return {
    limits: leaf ? NODE_LIMITS : { ...NODE_LIMITS, leaf: 0 },
    imports: [
      { name: "node", type: "stream", account: controller, subject: nodeSubjects(key) },
      { name: "ctl", type: "service", account: controller, subject: controllerSubjects(key) },
    ],
    signing_keys: [scope(signingKey, types, [controllerSubjects(key)], [nodeSubjects(key)])],
    revocations,
  };
}

function scope(
  key: string,
  types: ConnectionType[],
  publish: string[],
  subscribe: string[],
): SigningKey {
  return {
    kind: "user_scope",
    key,
    role: "worker",
    template: {
      ...NO_TRAFFIC_LIMITS,
      pub: publish.length === 0 ? {} : { allow: publish },
      sub: subscribe.length === 0 ? {} : { allow: subscribe },
      bearer_token: false,
      allowed_connection_types: types,
    },
  };
}

/** What a JWT says; null when it is none. Its signature is not checked: the server does that. */
export function claimsOf(jwt: string): unknown {
  try {
    const claims: unknown = JSON.parse(
      Buffer.from(jwt.split(".")[1] ?? "", "base64url").toString("utf8"),
    );
    return claims;
  } catch {
    return null;
  }
}

/** Whether `held` says everything that `wanted` says; what it says beyond that does not matter. */
export function saysSame(held: unknown, wanted: unknown): boolean {
  if (typeof wanted !== "object" || wanted === null) return held === wanted;
  if (typeof held !== "object" || held === null) return false;
  const members = held as Readonly<Record<string, unknown>>;
  return Object.entries(wanted).every(([name, value]) => saysSame(members[name], value));
}
