/**
 * Owns what a controller was told of somebody else's NATS system, and what is missing for nodes: what was
 * not given, and what the system is found to lack. Nothing of the system is changed.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { AccountSigner } from "../../transport/keys/authority.ts";
import {
  type HandedCredentials,
  openCredentials,
  openOperatorKey,
} from "../../transport/keys/handed-keys.ts";
import type { NoAuthority } from "../../transport/link/accounts.ts";
import type { SystemApi, SystemServer } from "../../transport/link/system-api.ts";
import {
  lacksOfAccount,
  lacksOfAuthority,
  lacksOfClocks,
  lacksOfServers,
  refuseOldServers,
  systemServers,
} from "../../transport/link/vetting.ts";
import type { ExternalNats } from "../options.ts";

/** Copies of what a controller must not lose: one server may be lost. */
const WANTED_REPLICAS = 3;

export interface HandedKeys {
  readonly controller: HandedCredentials | null;
  readonly system: HandedCredentials | null;
  readonly signer: AccountSigner | null;
  /** What of them was not given. */
  readonly missing: readonly string[];
}

/** Errors: `invalid_request`, `permission_denied`, `not_found`, naming the flag. */
export function openHandedKeys(nats: ExternalNats, nowMs: number): HandedKeys {
  const credentials = (path: string | null, name: string) =>
    path === null ? null : openCredentials({ path, name }, nowMs);
  const controller = credentials(nats.credsFile, "--nats-creds");
  const { operatorKeyFile: path, sysCredsFile } = nats;
  return {
    controller,
    system: credentials(sysCredsFile, "--nats-sys-creds"),
    // Without an account of ours there is none that a node's could import from.
    signer:
      path === null
        ? null
        : openOperatorKey({ path, name: "--nats-operator-key" }, controller?.account ?? ""),
    missing: [
      ...(nats.credsFile === null ? [notGiven("--nats-creds")] : []),
      ...(sysCredsFile === null ? [notGiven("--nats-sys-creds")] : []),
      ...(path === null ? [notGiven("--nats-operator-key")] : []),
    ],
  };
}

export interface Vetted {
  /** What is missing for accounts to be made. */
  readonly accountLacks: readonly string[];
  /** What is missing for a node to be linked, given an account. */
  readonly nodeLacks: readonly string[];
  /** And beside that for one on a machine of its own, whose credentials end. */
  readonly leafLacks: readonly string[];
  /** Copies that its JetStream can keep. */
  readonly replicas: number;
}

/** Errors: `nats_server_too_old`, `invalid_request`, `unavailable`. */
export async function vet(
  controller: NatsConnection,
  api: SystemApi | null,
  keys: HandedKeys,
  { nowMs }: Pick<Clock, "nowMs">,
): Promise<Vetted> {
  const { missing, signer } = keys;
  if (api === null) {
    const servers = [serverOf(controller)];
    return {
      accountLacks: missing,
      nodeLacks: lacksOfServers(servers),
      leafLacks: [],
      replicas: replicasOn(servers),
    };
  }
  const servers = await systemServers(api, "--nats-sys-creds");
  refuseOldServers(servers);
  const ofAuthority =
    signer === null ? [] : await lacksOfAuthority(api, signer, "--nats-operator-key");
  const ofAccount =
    keys.controller === null ? [] : await lacksOfAccount(api, keys.controller.account);
  return {
    accountLacks: [...missing, ...ofAuthority],
    nodeLacks: [...ofAccount, ...lacksOfServers(servers)],
    leafLacks: lacksOfClocks(servers, nowMs()),
    replicas: replicasOn(servers),
  };
}

/** What changes accounts; or, where something is missing for it, that. */
export function authorityOf(
  signer: AccountSigner | null,
  lacks: readonly string[],
): AccountSigner | NoAuthority {
  const missing = sentence("No account can be changed on this NATS system", lacks);
  if (missing !== null) return { missing };
  if (signer === null) throw new LemonError("internal_error");
  return signer;
}

/** The server that answers, as it describes itself to everybody. */
export function serverOf({ info }: NatsConnection): SystemServer {
  return {
    name: info?.server_name ?? "",
    version: info?.version ?? "",
    maxPayloadBytes: info?.max_payload ?? 0,
    // As many as it names; that they all have JetStream is likely, not known.
    jetStreamPeers: info?.cluster === undefined ? 1 : (info.connect_urls?.length ?? 1),
    clockMs: null,
  };
}

function replicasOn(servers: readonly SystemServer[]): number {
  const peers = Math.max(...servers.map(({ jetStreamPeers }) => jetStreamPeers));
  return Math.min(WANTED_REPLICAS, peers);
}

const NOT_GIVEN = " is not given";

export function notGiven(flag: string): string {
  return `${flag}${NOT_GIVEN}`;
}

/** Null when nothing is lacking. What the NATS system lacks says itself what to change there. */
export function sentence(what: string, lacks: readonly string[]): string | null {
  if (lacks.length === 0) return null;
  const all = [...new Set(lacks)];
  const flags = all.filter((lack) => lack.endsWith(NOT_GIVEN)).length;
  const mend =
    flags === 0 ? [] : [`start the controller again with ${flags === 1 ? "it" : "these"}`];
  return `${what}: ${[...all, ...mend].join("; ")}`;
}
