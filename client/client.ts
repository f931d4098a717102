/**
 * Owns the client as its user sees it: one connection after the other, or a single one.
 *
 * 1. A call belongs to one connection and never moves to the next: a mutation is never sent again.
 *    While there is none, a call is refused at once (`unavailable`, nothing sent); `ready` waits.
 * 2. It reconnects only when asked to, after a jittered back-off, and never after a refusal that
 *    another try can not change (a wrong token, another protocol).
 * 3. `onClose` listeners hear of every connection's end before the next attempt begins, so `close`
 *    called there is the last word.
 */
import { LemonError } from "../protocol/errors.ts";
import type { InputOf, MethodName, ResultOf } from "../protocol/methods.ts";
import type { Role } from "../protocol/scopes.ts";
import { Backoff, type BackoffPolicy, DEFAULT_BACKOFF } from "./backoff.ts";
import { type CallOptions, Connection } from "./connection.ts";
import { ConnectError } from "./errors.ts";
import { type ClientEvent, EventStream, type EventsOptions } from "./events.ts";
import type { Hello } from "./incoming.ts";
import { type OpenSocket, openPlatformSocket, type SocketClose } from "./socket.ts";
import { platformTimers, type Timers } from "./timers.ts";

export interface ConnectOptions {
  /** `ws://host:port/ws`, or `wss://`. */
  readonly url: string;
  /** Operator or session token. A function is asked before each connection, for a token that is renewed. */
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
  /** Ends the connection and all attempts. Idempotent. */
  close(code?: number, reason?: string): void;
  /** Resolves when nothing follows any more: null after `close`, else what ended it for good. */
  readonly ended: Promise<ConnectError | null>;
}

/**
 * Connects. Resolves with a connected client or rejects with a `ConnectError`. With `reconnect` the
 * first connection is tried for as long as the later ones: until `signal` aborts or it is refused.
 */
export async function connect(options: ConnectOptions): Promise<Client> {
  const protocol = URL.parse(options.url)?.protocol;
  if (protocol !== "ws:" && protocol !== "wss:")
    throw new LemonError("invalid_params", {
      message: "The controller's URL must be ws:// or wss://",
    });
  const client = new ReconnectingClient(options);
  await client.start();
  return client;
}

const DEFAULT_HANDSHAKE_MS = 10_000;
const DEFAULT_MAX_IN_FLIGHT = 256;

class ReconnectingClient implements Client {
  readonly #options: ConnectOptions;
  readonly #timers: Timers;
  readonly #backoff: Backoff | null;
  readonly #stopped = new AbortController();
  /** Ends the attempts: our own `close`, or the caller's signal. */
  readonly #giveUp: AbortSignal;
  readonly #ended = Promise.withResolvers<ConnectError | null>();
  readonly #closeListeners = new Set<(end: ConnectionEnd) => void>();
  readonly #streams = new Set<EventStream>();
  /** Nothing follows any more. */
  #isOver = false;
  readonly #reconnectListeners = new Set<(hello: Hello) => void>();
  /** The latest one, usable or ended: an ended one refuses calls by itself. */
  #connection: Connection | null = null;
  /** Settles with the next connection, or with the reason why none follows. */
  #next = unobserved<Hello>();

  constructor(options: ConnectOptions) {
    this.#options = options;
    this.#timers = options.timers ?? platformTimers;
    const { reconnect = false, random = Math.random, signal } = options;
    this.#backoff =
      reconnect === false
        ? null
        : new Backoff(reconnect === true ? DEFAULT_BACKOFF : reconnect, random);
    this.#giveUp =
      signal === undefined ? this.#stopped.signal : AbortSignal.any([signal, this.#stopped.signal]);
  }

  async start(): Promise<void> {
    const connection = await this.#establish();
    this.#adopt(connection);
    void this.#follow(connection);
  }

  get hello(): Hello {
    return this.#latest().hello;
  }

  get connected(): boolean {
    return this.#connection?.usable === true;
  }

  get ended(): Promise<ConnectError | null> {
    return this.#ended.promise;
  }

  call<M extends MethodName>(
    method: M,
    params: InputOf<M>,
    options?: CallOptions,
  ): Promise<ResultOf<M>> {
    return this.#latest().call(method, params, options);
  }

  ready(signal?: AbortSignal): Promise<Hello> {
    if (this.connected) return Promise.resolve(this.hello);
    if (signal === undefined) return this.#next.promise;
    const { promise, resolve, reject } = Promise.withResolvers<Hello>();
    const aborted = (): void => reject(stoppedWaiting(signal.reason));
    if (signal.aborted) aborted();
    signal.addEventListener("abort", aborted, { once: true });
    this.#next.promise.then(resolve, reject);
    return promise.finally(() => signal.removeEventListener("abort", aborted));
  }

  events(options: EventsOptions = {}): EventStream {
    const stream = new EventStream(options, this.#streams);
    if (this.#isOver) stream.end(null);
    return stream;
  }

  onClose(listener: (end: ConnectionEnd) => void): () => void {
    this.#closeListeners.add(listener);
    return () => this.#closeListeners.delete(listener);
  }

  onReconnect(listener: (hello: Hello) => void): () => void {
    this.#reconnectListeners.add(listener);
    return () => this.#reconnectListeners.delete(listener);
  }

  close(code?: number, reason?: string): void {
    this.#stopped.abort();
    this.#connection?.close(code, reason);
  }

  /** Lives through one connection after the other until none follows. */
  async #follow(first: Connection): Promise<void> {
    let connection = first;
    for (;;) {
      const openedAtMs = this.#timers.monotonicMs();
      const close = await connection.ended;
      this.#backoff?.lasted(this.#timers.monotonicMs() - openedAtMs);
      const reconnecting = this.#backoff !== null && !this.#giveUp.aborted;
      tell(this.#closeListeners, { ...close, reconnecting });
      if (!reconnecting || this.#giveUp.aborted) return this.#finish(lost(close));
      try {
        await this.#pause();
        connection = await this.#establish();
      } catch (error) {
        return this.#finish(error);
      }
      this.#adopt(connection);
      // `close` may have come while the connection was on its way here from its welcome.
      if (this.#stopped.signal.aborted) connection.close();
      else this.#resumed(connection.hello);
    }
  }

  #resumed(hello: Hello): void {
    for (const stream of this.#streams) stream.reconnected();
    tell(this.#reconnectListeners, hello);
  }

  async #establish(): Promise<Connection> {
    for (;;) {
      try {
        return await this.#attempt();
      } catch (error) {
        if (this.#backoff === null || !(error instanceof ConnectError) || isFinal(error))
          throw error;
        await this.#pause();
      }
    }
  }

  async #attempt(): Promise<Connection> {
    const { url, token = null, clientId, role, scopes, handshakeMs, maxInFlight } = this.#options;
    const greeting = {
      token: typeof token === "function" ? await token() : token,
      clientId,
      ...(role === undefined ? {} : { role }),
      ...(scopes === undefined ? {} : { scopes }),
    };
    return Connection.open({
      url,
      greeting,
      openSocket: this.#options.openSocket ?? openPlatformSocket,
      timers: this.#timers,
      handshakeMs: handshakeMs ?? DEFAULT_HANDSHAKE_MS,
      maxInFlight: maxInFlight ?? DEFAULT_MAX_IN_FLIGHT,
      signal: this.#giveUp,
      onEvent: (event) => {
        for (const stream of this.#streams) stream.push(event);
      },
    });
  }

  #adopt(connection: Connection): void {
    this.#connection = connection;
    const awaited = this.#next;
    this.#next = unobserved();
    awaited.resolve(connection.hello);
  }

  #latest(): Connection {
    // `connect` hands the client out only after the first connection.
    if (this.#connection === null) throw new LemonError("handshake_required");
    return this.#connection;
  }

  #finish(cause: unknown): void {
    const error =
      cause instanceof ConnectError
        ? cause
        : new ConnectError("unavailable", "unreachable", {
            message: "The next connection could not be prepared",
            cause,
          });
    this.#next.reject(error);
    this.#isOver = true;
    for (const stream of [...this.#streams])
      stream.end(this.#stopped.signal.aborted ? null : error);
    this.#ended.resolve(this.#stopped.signal.aborted ? null : error);
  }

  /** Waits for the next delay of the back-off. */
  #pause(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const stop = (): void => reject(stoppedWaiting(this.#giveUp.reason));
    if (this.#giveUp.aborted) stop();
    const cancel = this.#timers.after(this.#backoff?.next() ?? 0, resolve);
    this.#giveUp.addEventListener("abort", stop, { once: true });
    return promise.finally(() => {
      cancel();
      this.#giveUp.removeEventListener("abort", stop);
    });
  }
}

/** A promise whose rejection is no fault when nobody waits for it. */
function unobserved<T>(): PromiseWithResolvers<T> {
  const resolvers = Promise.withResolvers<T>();
  resolvers.promise.catch(() => {});
  return resolvers;
}

/** Each listener hears, whatever another one throws; what is thrown surfaces as uncaught. */
function tell<T>(listeners: ReadonlySet<(value: T) => void>, value: T): void {
  for (const listener of [...listeners]) {
    try {
      listener(value);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}

/** Refusals that the same token and the same peer would only repeat. */
function isFinal(error: ConnectError): boolean {
  if (error.reason === "aborted") return true;
  return error.reason === "refused" && !error.retrySafe;
}

function stoppedWaiting(cause: unknown): ConnectError {
  return new ConnectError("aborted", "aborted", {
    message: "The caller stopped waiting for the connection",
    cause,
  });
}

function lost(close: SocketClose): ConnectError {
  return new ConnectError("link_lost", "unreachable", {
    message: `The connection ended (code ${close.code})`,
    close,
  });
}
