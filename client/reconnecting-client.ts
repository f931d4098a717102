/** Owns the life of a client: one connection after the other, and what is told of each (`client.ts` says which). */
import { LemonError } from "../protocol/errors.ts";
import type { InputOf, MethodName, ResultOf } from "../protocol/methods.ts";
import type { Client, ConnectionEnd, ConnectOptions } from "./client.ts";
import type { CallOptions, Connection } from "./connection.ts";
import { Dialer, stoppedWaiting } from "./dialer.ts";
import { ConnectError } from "./errors.ts";
import { EventStream, type EventsOptions } from "./events.ts";
import type { Hello, IncomingEvent } from "./incoming.ts";
import { isOursToSend, REASON_MAX_BYTES, type SocketClose } from "./socket.ts";
import { platformTimers, type Timers } from "./timers.ts";

const NORMAL_CLOSURE = 1000;

export class ReconnectingClient implements Client {
  readonly #timers: Timers;
  readonly #dialer: Dialer;
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
  #openedAtMs = 0;
  /** Settles with the next connection, or with the reason why none follows. */
  #next = unobserved<Hello>();

  constructor(options: ConnectOptions) {
    const { signal, timers = platformTimers } = options;
    this.#timers = timers;
    this.#giveUp =
      signal === undefined ? this.#stopped.signal : AbortSignal.any([signal, this.#stopped.signal]);
    this.#dialer = new Dialer(options, this.#giveUp);
  }

  async start(): Promise<void> {
    void this.#follow(await this.#dialer.dial(this.#listener));
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
    refuseUnsendable(code, reason);
    this.#stopped.abort();
    this.#connection?.close(code, reason);
  }

  /** Lives through one connection after the other until none follows. */
  async #follow(first: Connection): Promise<void> {
    let connection = first;
    for (;;) {
      const close = await connection.ended;
      this.#dialer.lasted(this.#timers.monotonicMs() - this.#openedAtMs);
      const reconnecting = this.#dialer.goesOn;
      tell(this.#closeListeners, { ...close, reconnecting });
      if (!reconnecting || this.#giveUp.aborted) return this.#finish(lost(close));
      try {
        await this.#dialer.pause();
        connection = await this.#dialer.dial(this.#listener);
      } catch (error) {
        return this.#finish(error);
      }
    }
  }

  readonly #listener = {
    // In the moment of its welcome: its first events may stand in the same bytes.
    onOpened: (connection: Connection): void => {
      this.#connection = connection;
      this.#openedAtMs = this.#timers.monotonicMs();
      const awaited = this.#next;
      this.#next = unobserved();
      awaited.resolve(connection.hello);
      // With the first there is none yet.
      for (const stream of this.#streams) stream.reconnected();
      tell(this.#reconnectListeners, connection.hello);
    },
    onEvent: (event: IncomingEvent): void => {
      for (const stream of this.#streams) stream.push(event);
    },
  };

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
}

/** Every platform would throw at them, and each at a moment of its own. */
function refuseUnsendable(code = NORMAL_CLOSURE, reason = ""): void {
  if (isOursToSend(code) && new TextEncoder().encode(reason).length <= REASON_MAX_BYTES) return;
  throw new LemonError("invalid_params", {
    message: `A connection is closed with 1000, or 3000 to 4999, and a reason of at most ${REASON_MAX_BYTES} bytes`,
  });
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

function lost(close: SocketClose): ConnectError {
  return new ConnectError("link_lost", "unreachable", {
    message: `The connection ended (code ${close.code})`,
    close,
  });
}
