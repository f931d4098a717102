/**
 * Owns one `/ws` connection: its handshake, its caller, its end. One actor each, `temporary`: a connection
 * can not be started again.
 *
 * 1. Frames are read by the session itself, not through its mailbox: so the order of a connection's frames
 *    is the order of their handling, and reading stops when answers can not leave. The mailbox is for what
 *    others say to it.
 * 2. Before `hello-ok` a peer can do nothing but `connect`; it has `handshakeMs` to succeed, and one attempt
 *    at a time.
 * 3. Socket and actor end together: a closed socket ends the actor, a crash closes the socket with 1011, an
 *    ordered stop closes it with 1001 after what is in flight had `drainMs` to be answered.
 *
 * Source: control-plane-wire.md 1.3 and 1.5, rulings on `/ws`.
 */
import type { Logger } from "pino";
import type { CancelTimer } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { errorText, type Policy, type RequestFrame } from "../../protocol/frames.ts";
import type { ActorContext, ActorSpec, Behaviour, Death } from "../../supervision/actor.ts";
import type { Broadcast } from "../events/broadcast.ts";
import type { Connection, ConnectionListener } from "./connection.ts";
import type { Authenticate, Caller, Identity, OnNode } from "./handler.ts";
import {
  type Greeting,
  helloFrame,
  readGreeting,
  type ServerIdentity,
  scopesOf,
} from "./handshake.ts";
import type { Refusals } from "./refusals.ts";
import { Requests } from "./requests.ts";
import type { Roster } from "./roster.ts";
import type { Routes } from "./routes.ts";

/** What others may say to a session: nothing. Events go to its connection (`Broadcast`). */
export type SessionProtocol = Record<never, never>;

/** What all sessions of a control plane share. */
export interface SessionServices {
  readonly routes: Routes;
  readonly authenticate: Authenticate;
  readonly roster: Roster;
  readonly broadcast: Broadcast;
  readonly onNode: OnNode;
  readonly server: ServerIdentity;
  readonly log: Logger;
  readonly refusals: Refusals;
  readonly policy: Policy;
  readonly times: SessionTimes;
  readonly checkResults: boolean;
}

export interface SessionTimes {
  /** From the upgrade to a successful `connect`. */
  readonly handshakeMs: number;
  /** What requests in flight get to be answered when the control plane stops. */
  readonly drainMs: number;
  /** What a peer gets to see the close frame of an ordered stop. */
  readonly farewellMs: number;
}

/** The close code and reason of a session that ended so (RFC 6455 7.4.1). */
const FAREWELL: Readonly<Record<Death["reason"], readonly [code: number, reason: string]>> = {
  // Its socket had ended before it.
  normal: [1000, ""],
  shutdown: [1001, "server is shutting down"],
  killed: [1001, "server is shutting down"],
  crash: [1011, "internal error"],
  init_failed: [1011, "internal error"],
};
const POLICY_VIOLATION = 1008;

/** In place of a timer that is over, so that nothing of it is kept. */
const DONE: CancelTimer = () => {};

export function sessionSpec(
  connection: Connection,
  services: SessionServices,
): ActorSpec<SessionProtocol> {
  const { drainMs, farewellMs } = services.times;
  return {
    id: connection.id,
    kind: "session",
    restart: "temporary",
    // Its own times come first; the kernel's is for a session that does not keep them.
    shutdownMs: drainMs + farewellMs + 1_000,
    start: (context) => new Session(connection, services, context),
  };
}

type Phase =
  | { readonly name: "new" }
  | { readonly name: "connecting" }
  | { readonly name: "admitted"; readonly requests: Requests };

class Session implements Behaviour<SessionProtocol>, ConnectionListener {
  readonly handlers = {};
  readonly #connection: Connection;
  readonly #services: SessionServices;
  readonly #context: ActorContext<SessionProtocol>;
  #phase: Phase = { name: "new" };
  #ended = false;
  #cancelHandshake: CancelTimer;

  constructor(
    connection: Connection,
    services: SessionServices,
    context: ActorContext<SessionProtocol>,
  ) {
    this.#connection = connection;
    this.#services = services;
    this.#context = context;
    this.#cancelHandshake = context.clock.after(services.times.handshakeMs, () => {
      void connection.close(POLICY_VIOLATION, "handshake timeout");
    });
    connection.attach(this);
  }

  // --- what the socket says -----------------------------------------------------------------------

  onRequest(frame: RequestFrame): void {
    if (this.#ended) return;
    try {
      if (frame.method === "connect") this.#connect(frame);
      else if (this.#phase.name === "admitted") this.#phase.requests.handle(frame);
      else this.#refuse(frame.id, new LemonError("handshake_required"));
    } catch (error) {
      this.#context.crash(error);
    }
  }

  onAnswersSent(): void {
    if (this.#phase.name === "admitted") this.#phase.requests.answersSent();
  }

  onEnd(): void {
    this.#release();
    this.#context.end();
  }

  // --- the handshake ------------------------------------------------------------------------------

  #connect({ id, params }: RequestFrame): void {
    if (this.#phase.name !== "new") {
      this.#refuse(id, new LemonError("already_connected"));
      return;
    }
    let greeting: Greeting;
    try {
      greeting = readGreeting(params);
    } catch (failure) {
      this.#refuse(id, failure);
      return;
    }
    this.#phase = { name: "connecting" };
    this.#authenticate(id, greeting).catch(this.#context.crash);
  }

  async #authenticate(id: string, greeting: Greeting): Promise<void> {
    const { token, role, clientId } = greeting;
    const { remoteAddress, directLoopback } = this.#connection;
    const { authenticate, roster } = this.#services;
    using arrival = roster.arrive();
    let identity: Identity;
    try {
      const offered = { token, role, clientId, remoteAddress, directLoopback };
      identity = await authenticate(offered);
      arrival.refuseEnded(identity);
    } catch (failure) {
      if (this.#ended) return;
      this.#phase = { name: "new" };
      this.#refuse(id, failure);
      return;
    }
    if (!this.#ended) this.#admit(identity, greeting);
  }

  #admit(identity: Identity, greeting: Greeting): void {
    this.#cancelHandshake();
    this.#cancelHandshake = DONE;
    const context = this.#context;
    const connection = this.#connection;
    const { broadcast, checkResults, log, onNode, policy, roster, routes, server } = this.#services;
    const caller: Caller = {
      ...identity,
      connectionId: connection.id,
      scopes: scopesOf(identity, greeting.scopes),
      remoteAddress: connection.remoteAddress,
      // Made by the kernel when it is first asked for: most connections never need one.
      get closed() {
        return context.signal;
      },
      close: (code, reason) => void connection.close(code, reason),
    };
    const requests = new Requests({
      routes,
      connection,
      caller,
      clock: context.clock,
      log,
      maxPayload: policy.maxPayload,
      checkResults,
      crash: context.crash,
    });
    this.#phase = { name: "admitted", requests };
    connection.admit();
    connection.answer(JSON.stringify(helloFrame(caller, server, routes.names, policy)));
    // After hello-ok, which is the first frame that a client reads.
    broadcast.join(caller, connection);
    roster.enter(caller, context.clock.nowMs());
    if (caller.role === "node") onNode(caller, (attention) => connection.attend(attention));
    log.info({ connection: connection.id, role: caller.role }, "connected");
  }

  #refuse(id: string, failure: unknown): void {
    const error = failure instanceof LemonError ? failure : new LemonError("internal_error");
    this.#connection.answer(errorText(id, error, false));
    this.#services.refusals.count(failure);
  }

  // --- the end ------------------------------------------------------------------------------------

  async stop(reason: Death["reason"]): Promise<void> {
    if (reason === "shutdown") await this.#drain();
    const gone = this.#connection.close(...FAREWELL[reason]);
    this.#release();
    if (reason === "shutdown") await this.#within(this.#services.times.farewellMs, gone);
  }

  /** Lets what is in flight be answered and the answers leave, for as long as that may take. */
  async #drain(): Promise<void> {
    if (this.#phase.name !== "admitted" || this.#ended) return;
    const { requests } = this.#phase;
    await this.#within(
      this.#services.times.drainMs,
      requests.drain().then(() => this.#connection.flushed()),
    );
  }

  /** Resolves with the promise, or when the time is over. */
  async #within(limitMs: number, done: Promise<void>): Promise<void> {
    let cancel: CancelTimer = () => {};
    const over = new Promise<void>((resolve) => {
      cancel = this.#context.clock.after(limitMs, resolve);
    });
    await Promise.race([done, over]);
    cancel();
  }

  #release(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelHandshake();
    if (this.#phase.name === "admitted") this.#phase.requests.end();
    this.#services.broadcast.leave(this.#connection.id);
    this.#services.roster.leave(this.#connection.id);
  }
}
