/**
 * Owns what has to be so of a NATS system that is not ours before nodes are linked through it. What it
 * lacks is named, for its operator to add; nothing of it is changed by looking.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { AccountSigner } from "../keys/authority.ts";
import { controllerAccount } from "../keys/claims.ts";
import { MAX_PAYLOAD_BYTES } from "../nats-server/config.ts";
import { isNewEnough, OLDEST_NATS_SERVER } from "../nats-server/version.ts";
import {
  isNobodyThere,
  member,
  type OrderFault,
  type SystemApi,
  type SystemServer,
} from "./system-api.ts";

/** Every server of the system. Errors: `invalid_request` when `credsName` are no credentials of its system account. */
export async function systemServers(api: SystemApi, credsName: string): Promise<SystemServer[]> {
  try {
    return await api.servers();
  } catch (failure) {
    if (!isNobodyThere(failure)) throw failure;
    throw new LemonError("invalid_request", {
      message: `${credsName} holds credentials of another account than the system account`,
      cause: failure,
    });
  }
}

/** Errors: `nats_server_too_old`, naming the first server below the floor. */
export function refuseOldServers(servers: readonly SystemServer[]): void {
  const old = servers.find(({ version }) => !isNewEnough(version));
  if (old === undefined) return;
  const { name, version: found } = old;
  const needed = OLDEST_NATS_SERVER;
  throw new LemonError("nats_server_too_old", {
    message: `The NATS server ${name} runs ${found}; lemon needs at least ${needed} on every server`,
    details: { found, needed },
  });
}

/** Servers that would cut a link over which a large answer comes. */
export function lacksOfServers(servers: readonly SystemServer[]): string[] {
  return servers
    .filter(({ maxPayloadBytes }) => maxPayloadBytes < MAX_PAYLOAD_BYTES)
    .map(
      ({ name, maxPayloadBytes }) =>
        `the NATS server ${name} has max_payload ${maxPayloadBytes}, and nodes need ${MAX_PAYLOAD_BYTES}`,
    );
}

/** A server ends credentials by its own clock, and ours dates them; they hold an hour. */
const CLOCKS_APART_MS = 5 * 60_000;

/** Servers whose clocks would end the credentials of nodes too early, or let stolen ones live on. */
export function lacksOfClocks(servers: readonly SystemServer[], nowMs: number): string[] {
  return servers.flatMap(({ name, clockMs }) => {
    const aheadMs = clockMs === null ? 0 : clockMs - nowMs;
    if (Math.abs(aheadMs) <= CLOCKS_APART_MS) return [];
    const minutes = Math.round(Math.abs(aheadMs) / 60_000);
    return `the clock of the NATS server ${name} is ${minutes} minutes ${aheadMs > 0 ? "ahead of" : "behind"} the controller's`;
  });
}

/** What the controller's account does not offer to the accounts of nodes. Errors: `unavailable`. */
export async function lacksOfAccount(api: SystemApi, account: string): Promise<string[]> {
  try {
    return lacksOfClaims(await api.accountClaims(account));
  } catch (failure) {
    if (!isNobodyThere(failure)) throw failure;
    return [RESOLVER_LACKS.no_resolver];
  }
}

/** The same, of the claims themselves (the `nats` part of its JWT). */
export function lacksOfClaims(claims: unknown): string[] {
  const payload = member(member(claims, "limits"), "payload");
  const isSmall = typeof payload === "number" && payload >= 0 && payload < MAX_PAYLOAD_BYTES;
  return [
    ...missingExports(claims),
    ...(isSmall
      ? [
          `the controller's account has payload limit ${payload}, and nodes need ${MAX_PAYLOAD_BYTES}`,
        ]
      : []),
  ];
}

function missingExports(claims: unknown): string[] {
  const exports = member(claims, "exports");
  const held: readonly unknown[] = Array.isArray(exports) ? exports : [];
  return (controllerAccount().exports ?? [])
    .filter(
      ({ subject, type, account_token_position }) =>
        !held.some(
          (offered) =>
            member(offered, "subject") === subject &&
            member(offered, "type") === type &&
            member(offered, "account_token_position") === account_token_position &&
            member(offered, "token_req") !== true,
        ),
    )
    .map(
      ({ subject, type, account_token_position }) =>
        `the controller's account does not export the ${type} ${subject} with account_token_position ${account_token_position}`,
    );
}

/**
 * What keeps accounts from being made and deleted with this key. A server takes an account that anybody
 * signed and lets nobody use it, so it is asked with an order to delete no account at all. Errors:
 * `invalid_request` for a key that is not this system's operator's; `unavailable`.
 */
export async function lacksOfAuthority(
  api: SystemApi,
  signer: AccountSigner,
  keyName: string,
): Promise<string[]> {
  const fault = await api.orderFault(await signer.signDeletion([]));
  if (fault === "not_trusted") {
    throw new LemonError("invalid_request", {
      message: `${keyName} is no key of the operator of this NATS system`,
    });
  }
  return fault === null ? [] : [RESOLVER_LACKS[fault]];
}

const RESOLVER_LACKS: Readonly<Record<Exclude<OrderFault, "not_trusted">, string>> = {
  no_resolver: "the NATS servers keep no accounts that can be changed (resolver type: full)",
  no_deletion: "the NATS servers do not let accounts be deleted (resolver allow_delete: true)",
};
