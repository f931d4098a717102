/**
 * Owns how we connect to a nats-server: who we are, and that a connection outlives its server.
 *
 * 1. A connection reconnects for ever; its owner closes it. What was in flight when it broke is the
 *    caller's to settle (`transport/rpc`, `transport/receipts`): NATS only lets it time out.
 * 2. A silent server is noticed within 10 s, not only one whose socket closed.
 */
import {
  connect,
  jwtAuthenticator,
  type NatsConnection,
  nkeyAuthenticator,
} from "@nats-io/transport-node";
import { LemonError } from "../protocol/errors.ts";

/** A plain nkey of a server whose accounts stand in its configuration, or a JWT user of an operator's. */
export type ConnectAs =
  | { readonly nkeySeed: Uint8Array }
  | { readonly jwt: string; readonly seed: Uint8Array };

export interface NatsConnectionOptions {
  /** `nats://host:port`. */
  readonly url: string;
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
const PING_MS = 5_000;
const UNANSWERED_PINGS = 2;

/** Errors: `unavailable` when the server does not take the first connection. */
export async function openConnection(options: NatsConnectionOptions): Promise<NatsConnection> {
  const { as, url, name, inboxPrefix } = options;
  try {
    return await connect({
      servers: url,
      name,
      authenticator:
        "jwt" in as ? jwtAuthenticator(as.jwt, as.seed) : nkeyAuthenticator(as.nkeySeed),
      timeout: FIRST_CONNECT_MS,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_WAIT_MS,
      reconnectJitter: RECONNECT_JITTER_MS,
      pingInterval: PING_MS,
      maxPingOut: UNANSWERED_PINGS,
      // A server that restarts may refuse us until its resolver has read our account.
      ignoreAuthErrorAbort: true,
      ...(inboxPrefix === undefined ? {} : { inboxPrefix }),
    });
  } catch (cause) {
    throw new LemonError("unavailable", {
      message: "The nats-server does not take our connection",
      cause,
    });
  }
}
