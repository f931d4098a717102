/**
 * Owns how we connect to a nats-server: who we are, and that a connection outlives its server.
 *
 * 1. A connection reconnects for ever; its owner closes it. What was in flight when it broke is the
 *    caller's to settle (`transport/rpc`, `transport/receipts`): NATS only lets it time out.
 * 2. A silent server is noticed within 10 s, not only one whose socket closed.
 * 3. Closing it is safe at any moment, also in the one in which its server goes.
 */
import { isIP } from "node:net";
import { setImmediate } from "node:timers/promises";
import { checkServerIdentity as nameFault, type PeerCertificate } from "node:tls";
import {
  type Authenticator,
  type ConnectionOptions,
  connect,
  errors,
  jwtAuthenticator,
  type NatsConnection,
  nkeyAuthenticator,
} from "@nats-io/transport-node";
import { LemonError } from "../protocol/errors.ts";
import type { NatsAddress, NatsSystem } from "./nats-address.ts";

/**
 * A plain nkey of a server whose accounts stand in its configuration; a JWT user of an operator's, by its
 * keys or by what somebody else answers with; or nobody in particular.
 */
export type ConnectAs =
  | { readonly nkeySeed: Uint8Array }
  | { readonly jwt: string; readonly seed: Uint8Array }
  | { readonly authenticator: Authenticator }
  | "nobody";

/** A NATS system that is not our own child. */
export interface RemoteSystem {
  readonly system: NatsSystem;
  /** PEM of the authorities to trust instead of the system's; null: the system's. Given, TLS is demanded. */
  readonly ca: string | null;
}

export interface NatsConnectionOptions {
  /** `nats://host:port` of a server of our own, on this machine; or somebody else's system. */
  readonly url: string | RemoteSystem;
  /** Shown in the server's own listings. */
  readonly name: string;
  readonly as: ConnectAs;
  /** Where answers arrive; a node may subscribe below its own subjects alone. */
  readonly inboxPrefix?: string;
}

const FIRST_CONNECT_MS = 5_000;
/** A server that restarts listens again after 35 to 65 ms. */
const RECONNECT_WAIT_MS = 50;
const RECONNECT_JITTER_MS = 50;
/** Others connect to it too, and all of them come back at once. */
const REMOTE_RECONNECT_WAIT_MS = 250;
const REMOTE_RECONNECT_JITTER_MS = 250;
/** After two that were not answered the third is not sent: a silent server is given up in 6 to 9 s. */
const PING_MS = 3_000;
const UNANSWERED_PINGS = 2;

/** Errors: `unavailable` when the server does not take the first connection; `connectRefusal` says why. */
export async function openConnection(options: NatsConnectionOptions): Promise<NatsConnection> {
  const { as, url, name, inboxPrefix } = options;
  try {
    const connection = await connect({
      ...where(url),
      ...who(as),
      name,
      timeout: FIRST_CONNECT_MS,
      maxReconnectAttempts: -1,
      pingInterval: PING_MS,
      maxPingOut: UNANSWERED_PINGS,
      // Else the stack of every request is captured: 45 µs each.
      noAsyncTraces: true,
      // A server that restarts may refuse us until its resolver has read our account.
      ignoreAuthErrorAbort: true,
      ...(inboxPrefix === undefined ? {} : { inboxPrefix }),
    });
    if (typeof url !== "string") rememberServers(connection, url);
    return closingInTurn(connection);
  } catch (cause) {
    throw new LemonError("unavailable", {
      message: "The nats-server does not take our connection",
      cause,
    });
  }
}

/**
 * The NATS client takes its listeners off a socket when it closes, one that has just failed included:
 * an unsubscription that met the server's end would then end this process. So what was said in the same
 * turn fails first, while somebody still listens.
 */
function closingInTurn(connection: NatsConnection): NatsConnection {
  const close = connection.close.bind(connection);
  connection.close = async () => {
    await setImmediate();
    await close();
  };
  return connection;
}

/** Why no server took a first connection: who we are, how it is encrypted, or that none answers. */
export type ConnectRefusal = "credentials" | "tls" | "no_answer";

/** What an error of `openConnection` comes from. */
export function connectRefusal(failure: LemonError): ConnectRefusal {
  for (let cause = failure.cause; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof errors.AuthorizationError) return "credentials";
    if (cause instanceof errors.UserAuthenticationExpiredError) return "credentials";
    if (isAboutTls(cause)) return "tls";
  }
  return "no_answer";
}

/** Node's errors of a handshake and of a certificate; the NATS client's, when TLS is not offered. */
function isAboutTls(cause: Error): boolean {
  const code = "code" in cause && typeof cause.code === "string" ? cause.code : "";
  return /^(?:ERR_(?:TLS|SSL)_|EPROTO$)|CERT/.test(code) || /'tls'/.test(cause.message);
}

function where(url: string | RemoteSystem): Partial<ConnectionOptions> {
  if (typeof url === "string") {
    return {
      servers: url,
      reconnectTimeWait: RECONNECT_WAIT_MS,
      reconnectJitter: RECONNECT_JITTER_MS,
    };
  }
  const { system, ca } = url;
  return {
    servers: system.servers.map(hostPort),
    reconnectTimeWait: REMOTE_RECONNECT_WAIT_MS,
    reconnectJitter: REMOTE_RECONNECT_JITTER_MS,
    reconnectJitterTLS: REMOTE_RECONNECT_JITTER_MS,
    ...(system.tls || ca !== null ? { tls: tlsOptions(system, ca) } : {}),
  };
}

function hostPort({ host, port }: NatsAddress): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The NATS client forgets a server that did not take its first connection; it may well take a later one. */
function rememberServers(connection: NatsConnection, { system }: RemoteSystem): void {
  const known = connection.getServers().map(({ listen }) => listen);
  const forgotten = system.servers.map(hostPort).filter((server) => !known.includes(server));
  if (forgotten.length > 0) connection.setServers([...known, ...forgotten]);
}

/**
 * The NATS client does not tell Node which address it dialled, so Node takes a server without a name for
 * `localhost`. Then its certificate has to be for one of the addresses we were given.
 */
function tlsOptions({ servers }: NatsSystem, ca: string | null) {
  const addresses = servers.map(({ host }) => host).filter((host) => isIP(host) !== 0);
  const isNamed = servers.some(({ host }) => host === "localhost");
  const checkServerIdentity = (host: string, certificate: PeerCertificate): Error | undefined => {
    if (host !== "localhost" || isNamed) return nameFault(host, certificate);
    const faults = addresses.map((address) => nameFault(address, certificate));
    return faults.includes(undefined) ? undefined : (faults[0] ?? nameFault(host, certificate));
  };
  return { checkServerIdentity, ...(ca === null ? {} : { ca }) };
}

function who(as: ConnectAs): Partial<ConnectionOptions> {
  if (as === "nobody") return {};
  if ("authenticator" in as) return { authenticator: as.authenticator };
  return {
    authenticator: "jwt" in as ? jwtAuthenticator(as.jwt, as.seed) : nkeyAuthenticator(as.nkeySeed),
  };
}
