/**
 * Owns the client as its user sees it: one connection after the other, or a single one
 * (`reconnecting-client.ts` is what does it).
 *
 * 1. A call belongs to one connection and never moves to the next: a mutation is never sent again.
 *    While there is none, a call is refused at once (`unavailable`, nothing sent); `ready` waits.
 * 2. It reconnects only when asked to, after a jittered back-off, and never after a refusal that
 *    another try can not change (a wrong token, another protocol).
 * 3. `onClose` listeners hear of every connection's end before the next attempt begins, so `close`
 *    called there is the last word.
 */
import type { InputOf, MethodName, ResultOf } from "../protocol/methods.ts";
import type { Role } from "../protocol/scopes.ts";
import type { BackoffPolicy } from "./backoff.ts";
import type { CallOptions } from "./connection.ts";
import type { ConnectError } from "./errors.ts";
import type { ClientEvent, EventsOptions } from "./events.ts";
import type { Hello } from "./incoming.ts";
import type { OpenSocket, SocketClose } from "./socket.ts";
import type { Timers } from "./timers.ts";

export interface ConnectOptions {
  /** `ws://host:port/ws`, or `wss://`. */
  readonly url: string;
  /**
   * Operator or session token. A function is asked before each connection, for a token that is renewed: what
   * it throws is thrown by `connect`; later it is asked again after the back-off.
   */
  readonly token?: string | null | (() => string | null | Promise<string | null>);
  /** Free text that names this client to the controller. */
  readonly clientId: string;
  readonly role?: Role;
  /** Narrows what the token grants. */
  readonly scopes?: readonly string[];
  /** Absent or false: one attempt, one connection. */
  readonly reconnect?: boolean | BackoffPolicy;
  /** Stops the attempts to connect; has no effect on a usable connection. */
  readonly signal?: AbortSignal;
  /** Bound of one attempt, from the socket's opening to `hello-ok`, in ms. Default 10,000. */
  readonly handshakeMs?: number;
  /** Calls that may wait for their answers. Default 256, what a controller takes. */
  readonly maxInFlight?: number;
  readonly openSocket?: OpenSocket;
  readonly timers?: Timers;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
}

/** The end of one connection. */
export interface ConnectionEnd extends SocketClose {
  /** Whether another attempt follows, unless a listener calls `close`. */
  readonly reconnecting: boolean;
}

export interface Client {
  /** What the peer said when the latest connection opened. */
  readonly hello: Hello;
  readonly connected: boolean;
  /**
   * Sends one request and waits for its answer. Rejects with a `CallError`; with a `LemonError`
   * `invalid_params` when the parameters break the method's bounds (nothing is sent then).
   */
  call<M extends MethodName>(
    method: M,
    params: InputOf<M>,
    options?: CallOptions,
  ): Promise<ResultOf<M>>;
  /** Resolves when connected; rejects with a `ConnectError` when `signal` aborts or no attempt follows. */
  ready(signal?: AbortSignal): Promise<Hello>;
  /**
   * The events of this connection and of those that follow it, from now on. A new connection hears
   * everything until it subscribes again (`events.subscribe`).
   */
  events(options?: EventsOptions): AsyncIterableIterator<ClientEvent, undefined>;
  /** Hears of each connection's end; answers the way to stop listening. */
  onClose(listener: (end: ConnectionEnd) => void): () => void;
  /** Hears of each connection after the first. */
  onReconnect(listener: (hello: Hello) => void): () => void;
  /**
   * Ends the connection and all attempts. Idempotent. `code` is 1000, or 3000 to 4999; `reason` at most 123
   * bytes. Throws `invalid_params` for others, and ends nothing then.
   */
  close(code?: number, reason?: string): void;
  /** Resolves when nothing follows any more: null after `close`, else what ended it for good. */
  readonly ended: Promise<ConnectError | null>;
}
