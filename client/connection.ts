/**
 * Owns one connection: one socket from its opening to its end, the handshake, the calls on it.
 *
 * 1. It is handed out only after `hello-ok`; before that every failure is a `ConnectError`.
 * 2. What is sent is sent once. Nothing here ever repeats a frame.
 * 3. `ended` is told exactly once, after every waiting call has been settled.
 * 4. Nothing the peer sends can throw, grow a buffer without bound, or leave a call waiting past its
 *    deadline.
 */
import { LemonError } from "../protocol/errors.ts";
import { PROTOCOL_VERSION } from "../protocol/frames.ts";
import type { Fields, MethodSpec } from "../protocol/method.ts";
import { type InputOf, METHODS, type MethodName, type ResultOf } from "../protocol/methods.ts";
import { type ParamsReader, paramsReader } from "../protocol/params.ts";
import { CallTable } from "./calls.ts";
import { CallError, ConnectError, type FailedCall, refusedHandshake } from "./errors.ts";
import { type Hello, type Incoming, type IncomingEvent, readFrame } from "./incoming.ts";
import { Liveness, livenessFor } from "./liveness.ts";
import { connectText, type Greeting, notSent, requestText } from "./outgoing.ts";
import { LIVENESS_CLOSE_CODE, type OpenSocket, type Socket, type SocketClose } from "./socket.ts";
import type { Timers } from "./timers.ts";

export interface CallOptions {
  /** Stops the waiting, not the work: what was sent goes on at the other end. */
  readonly signal?: AbortSignal;
  /** How long to wait for the answer, in ms. Default: the method's own deadline and some grace. */
  readonly timeoutMs?: number;
}

export interface ConnectionOptions {
  readonly url: string;
  readonly greeting: Greeting;
  readonly openSocket: OpenSocket;
  readonly timers: Timers;
  /** From the opening of the socket to `hello-ok`. */
  readonly handshakeMs: number;
  readonly maxInFlight: number;
  readonly signal: AbortSignal | null;
  /** Told once, when it is usable and before any event of it. Must not throw. */
  readonly onOpened: (connection: Connection) => void;
  /** Hears the events of this connection, in order. Must not throw. */
  readonly onEvent: (event: IncomingEvent) => void;
}

/** What the control plane awaits beyond a method's deadline, and the way there and back, in ms. */
const ANSWER_GRACE_MS = 6_000;

/** The longest delay a platform timer takes. */
const LONGEST_TIMER_MS = 2_147_483_647;

/** Four times what a controller sends (`POLICY.maxPayload`); nothing of ours is longer. In UTF-16 units. */
const LONGEST_FRAME = 16_777_216;

/** How long the peer may take to answer our closing handshake. */
const CLOSE_GRACE_MS = 2_000;

const NORMAL_CLOSURE = 1000;
const PROTOCOL_ERROR = 1002;

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #socket: Socket;
  readonly #calls: CallTable;
  /** Of the methods that were called: what can be known of a declaration is worked out once. */
  readonly #readers = new Map<string, ParamsReader<Fields>>();
  readonly #ended = Promise.withResolvers<SocketClose>();
  readonly #ready = Promise.withResolvers<Connection>();
  #phase: "opening" | "open" | "ended" = "opening";
  #hello: Hello | null = null;
  #liveness: Liveness | null = null;
  #cancelTimer: () => void;

  /** Resolves with a usable connection, or rejects with a `ConnectError`. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    if (options.signal?.aborted === true) throw abortedConnect(options.signal);
    try {
      return await new Connection(options).#ready.promise;
    } catch (error) {
      throw error instanceof LemonError
        ? error
        : unreachable("The socket could not be made", error);
    }
  }

  private constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#calls = new CallTable(options.timers, options.maxInFlight);
    // A factory that throws has left nothing behind, so it comes before the timer.
    this.#socket = options.openSocket(options.url, {
      opened: () => this.#greet(),
      text: (data) => this.#receive(data),
      binary: () => this.#breach(PROTOCOL_ERROR, "binary frame"),
      closed: (close) => this.#closed(close),
    });
    this.#cancelTimer = options.timers.after(options.handshakeMs, () =>
      this.#giveUp(unreachable("The controller did not complete the handshake in time")),
    );
    options.signal?.addEventListener("abort", this.#aborted, { once: true });
  }

  /** What the peer said of itself when this connection opened. */
  get hello(): Hello {
    if (this.#hello === null) throw new LemonError("handshake_required");
    return this.#hello;
  }

  /** Resolves when the connection has ended, whoever ended it. */
  get ended(): Promise<SocketClose> {
    return this.#ended.promise;
  }

  get usable(): boolean {
    return this.#phase === "open";
  }

  /** Sends at once (no `await` stands before it), so calls leave in the order they were made. */
  async call<M extends MethodName>(
    method: M,
    params: InputOf<M>,
    options: CallOptions = {},
  ): Promise<ResultOf<M>> {
    // The table hands over only what the method's own result schema has accepted.
    return (await this.#send(method, params, options)) as ResultOf<M>;
  }

  /** Ends the connection from our side; waiting calls are settled at once. Idempotent. */
  close(code = NORMAL_CLOSURE, reason = ""): void {
    if (this.#phase === "ended") return;
    const opening = this.#phase === "opening";
    this.#end({ code, reason, failure: null });
    if (opening) this.#ready.reject(unreachable("The connection was closed before it was usable"));
    this.#cancelTimer = this.#options.timers.after(CLOSE_GRACE_MS, () => this.#socket.drop());
    this.#socket.close(code, reason);
  }

  /** Asked whatever the number of calls in flight: that they all wait is no reason to think it dead. */
  async #probe(): Promise<void> {
    await this.#send("health", {}, {}, true);
  }

  #send(
    method: MethodName,
    given: unknown,
    options: CallOptions,
    beyondBound = false,
  ): Promise<unknown> {
    const spec = METHODS.get(method);
    if (spec === undefined) throw new LemonError("method_not_found");
    const params = this.#readerOf(spec)(given);
    const call: FailedCall = { spec, method, params };
    const { signal = null } = options;
    if (signal?.aborted === true) throw notSent("aborted", call, "The caller had already stopped");
    if (this.#phase !== "open") throw notSent("unavailable", call, "The connection has ended");
    if (this.#calls.full && !beyondBound) throw new CallError("too_many_requests_in_flight", call);

    const { policy } = this.hello;
    const id = this.#calls.nextId();
    const text = requestText(id, call, policy.maxPayload);
    if (this.#socket.bufferedBytes > policy.maxBufferedBytes)
      throw notSent("unavailable", call, "The connection does not take what already waits");

    const timeoutMs = options.timeoutMs ?? spec.deadlineMs(params) + ANSWER_GRACE_MS;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#calls.add(id, {
      call,
      timeoutMs: Math.min(timeoutMs, LONGEST_TIMER_MS),
      signal,
      resolve,
      reject,
    });
    this.#socket.send(text);
    return promise;
  }

  #readerOf(spec: MethodSpec): ParamsReader<Fields> {
    const reader = this.#readers.get(spec.name) ?? paramsReader(spec);
    this.#readers.set(spec.name, reader);
    return reader;
  }

  #greet(): void {
    if (this.#phase !== "opening") return;
    this.#socket.send(connectText(this.#options.greeting));
  }

  #receive(data: string): void {
    if (this.#phase === "ended") return;
    this.#liveness?.heard();
    const frame: Incoming = data.length > LONGEST_FRAME ? { kind: "unreadable" } : readFrame(data);
    switch (frame.kind) {
      case "foreign":
        break;
      case "unreadable":
        this.#breach(PROTOCOL_ERROR, "unreadable frame");
        break;
      case "hello":
        this.#welcome(frame.hello);
        break;
      case "event":
        if (this.#phase === "open") this.#options.onEvent(frame.event);
        break;
      default:
        if (this.#phase === "open") this.#calls.answer(frame);
        else if (frame.kind === "failure") this.#giveUp(refusedHandshake(frame.failure));
        else this.#breach(PROTOCOL_ERROR, "no answer to connect");
    }
  }

  #welcome(hello: Hello): void {
    if (this.#phase !== "opening") return;
    if (hello.protocol !== PROTOCOL_VERSION) {
      const message = `The controller speaks protocol ${hello.protocol}, this client ${PROTOCOL_VERSION}`;
      this.#giveUp(new ConnectError("not_implemented", "refused", { message }));
      return;
    }
    this.#cancelTimer();
    this.#phase = "open";
    this.#hello = hello;
    this.#options.signal?.removeEventListener("abort", this.#aborted);
    this.#liveness = new Liveness(
      this.#options.timers,
      livenessFor(hello.policy.tickIntervalMs),
      // Only that something comes back matters, be it a refusal.
      () => void this.#probe().catch(() => {}),
      () => this.#breach(LIVENESS_CLOSE_CODE, "liveness"),
    );
    this.#options.onOpened(this);
    this.#ready.resolve(this);
  }

  /** The peer broke the protocol, or is silent: end it without waiting for a closing handshake. */
  #breach(code: number, reason: string): void {
    if (this.#phase === "opening") {
      this.#giveUp(unreachable("The peer does not speak this protocol"));
      return;
    }
    if (this.#phase === "ended") return;
    this.#end({ code, reason, failure: null });
    this.#socket.close(code, reason);
    this.#socket.drop();
  }

  #giveUp(error: ConnectError): void {
    if (this.#phase !== "opening") return;
    this.#end({ code: NORMAL_CLOSURE, reason: "", failure: null });
    this.#ready.reject(error);
    this.#socket.close(NORMAL_CLOSURE, "");
    this.#socket.drop();
  }

  #closed(close: SocketClose): void {
    // After our own closing handshake there is nothing left to drop.
    this.#cancelTimer();
    if (this.#phase === "ended") return;
    const opening = this.#phase === "opening";
    this.#end(close);
    if (opening) this.#ready.reject(closedEarly(close));
  }

  #end(close: SocketClose): void {
    this.#phase = "ended";
    this.#cancelTimer();
    this.#liveness?.stop();
    this.#options.signal?.removeEventListener("abort", this.#aborted);
    this.#calls.lose();
    this.#ended.resolve(close);
  }

  readonly #aborted = (): void => {
    if (this.#options.signal !== null) this.#giveUp(abortedConnect(this.#options.signal));
  };
}

function unreachable(message: string, cause?: unknown): ConnectError {
  return new ConnectError("unavailable", "unreachable", { message, cause });
}

function closedEarly(close: SocketClose): ConnectError {
  return new ConnectError("unavailable", "unreachable", { message: sentenceOf(close), close });
}

function abortedConnect(signal: AbortSignal): ConnectError {
  return new ConnectError("aborted", "aborted", {
    message: "The caller stopped waiting for the connection",
    cause: signal.reason,
  });
}

function sentenceOf({ code, failure }: SocketClose): string {
  return failure === null
    ? `The connection was closed before the handshake (code ${code})`
    : `The controller can not be reached (${failure})`;
}
