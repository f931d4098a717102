/**
 * Owns the controller's calls to its nodes, over core NATS (at most once: nothing is ever redelivered).
 *
 * 1. A call always ends: with the node's answer, its failure, or the deadline.
 * 2. An answer counts only when it comes from the node that was asked (the hub binds the subject to the
 *    sender's account) and names a call still under way (ids are random). Everything else is dropped: it
 *    proves only that somebody is on that node's link.
 * 3. "No responders" is proof that nothing was delivered, so the call may be sent again for a moment (a
 *    link that renews its credentials is away for some ms), and is then refused as `node_offline`.
 *    Nothing else is ever sent twice.
 * 4. A lost link settles what was sent at once, as uncertain; what still waited is refused as not sent.
 * 5. Nothing is handed to a connection that is down: the client would keep it and send it later.
 */
import type { Msg, NatsConnection, Subscription } from "@nats-io/transport-node";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import { encodeCall, MAX_DEADLINE_MS } from "./envelope.ts";
import { notSent, uncertain } from "./failure.ts";
import { type CallOptions, Flight } from "./flight.ts";
import { DEFAULT_FLOW_LIMITS, FlowControl, type FlowLimits } from "./flow.ts";
import { Renewals } from "./renewals.ts";
import { ALL_REPLIES, callSubject, lastToken, replySubject, senderOf } from "./subjects.ts";

/** How long a call that found no responders is sent again, and how far apart, in ms. */
const RESEND_FOR_MS = 50;
const RESEND_EVERY_MS = 5;
/**
 * How long a call counts as being on the link. A healthy link moves its bytes in far less, and a dead one
 * is found soon after by PINGs of 5 s, two of them unanswered. A run of half an hour must not fill the
 * link while it runs.
 */
const ON_LINK_MS = 10_000;

export interface RpcCaller {
  /**
   * Resolves with the node's result (plain data; its bytes are views on the message, copy what is kept).
   * Errors: the node's own; `node_offline`, `rate_limited`, `unavailable`, `too_large` (nothing was
   * sent); `node_superseded` (refused); `timeout`, `link_lost`, `invalid_remote_payload` (uncertain).
   */
  call(node: NodeKey, options: CallOptions): Promise<unknown>;
  /** The node's link is gone: settles its calls at once, with `why` where the outcome is uncertain. */
  settleNode(node: NodeKey, why: ErrorCode): void;
  /** Sends the node nothing until `resume`, at most for 3 s: it renews its link. */
  hold(node: NodeKey): void;
  resume(node: NodeKey): void;
  /**
   * Names the renewal of its link that is under way, or was a moment ago: the end of the link from before it is
   * no loss then. Null when there is none.
   */
  renewal(node: NodeKey): number | null;
  snapshot(): {
    readonly inFlight: number;
    readonly waiting: number;
    readonly bytesOnLinks: number;
  };
  /** Settles everything as the loss of the link does and takes no more calls. */
  stop(): void;
}

export interface RpcCallerOptions {
  /** In the controller's account. */
  readonly connection: NatsConnection;
  readonly clock: Clock;
  readonly limits?: Partial<FlowLimits>;
  /** An answer of this node came that no call waits for (any more). Must not throw. */
  readonly onStray?: (node: NodeKey) => void;
}

export function createRpcCaller(options: RpcCallerOptions): RpcCaller {
  return new Caller(options);
}

class Caller implements RpcCaller {
  readonly #connection: NatsConnection;
  readonly #clock: Clock;
  readonly #flow: FlowControl;
  readonly #renewals: Renewals;
  readonly #onStray: (node: NodeKey) => void;
  readonly #replies: Subscription;
  readonly #flights = new Map<string, Flight>();
  readonly #flightsTo = new Map<NodeKey, Set<Flight>>();
  /** What the flow still counts, oldest first. */
  readonly #onLink = new Set<Flight>();
  #cancelSweep: CancelTimer | null = null;
  #connected = true;
  #stopped = false;

  constructor({ connection, clock, limits, onStray = () => {} }: RpcCallerOptions) {
    this.#connection = connection;
    this.#clock = clock;
    this.#onStray = onStray;
    this.#flow = new FlowControl({ ...DEFAULT_FLOW_LIMITS, ...limits });
    this.#renewals = new Renewals(this.#flow, clock);
    this.#replies = connection.subscribe(ALL_REPLIES, {
      callback: (error, message) => {
        if (error === null) this.#answered(message);
      },
    });
    void this.#followConnection();
  }

  async call(node: NodeKey, options: CallOptions): Promise<unknown> {
    const { generation, deadlineMs, method, params } = options;
    if (!(deadlineMs > 0 && deadlineMs <= MAX_DEADLINE_MS) || !Number.isSafeInteger(generation)) {
      throw new LemonError("invalid_request");
    }
    if (!this.#canSend()) throw notSent("unavailable");
    const maxPayload = this.#connection.info?.max_payload;
    if (maxPayload === undefined) throw notSent("unavailable");
    const payload = encodeCall({ generation, deadlineMs, method, params });
    if (payload.length > maxPayload) throw new LemonError("too_large");
    return await new Promise((resolve, reject) => {
      const launch = (flight: Flight): void => this.#launch(flight);
      const flight = new Flight(node, options, payload, launch, resolve, reject);
      this.#register(flight);
      flight.cancelDeadline = this.#clock.after(deadlineMs, () => this.#expire(flight));
      try {
        this.#flow.enter(flight);
      } catch (refusal) {
        this.#settle(flight, refusal instanceof LemonError ? refusal : notSent("unavailable"));
      }
    });
  }

  settleNode(node: NodeKey, why: ErrorCode): void {
    const flights = [...(this.#flightsTo.get(node) ?? [])];
    // Those that wait go first: the end of another would start them into a link that is gone.
    for (const flight of flights) if (!flight.sent) this.#settle(flight, notSent("node_offline"));
    for (const flight of flights) this.#settle(flight, uncertain(why, flight.mutation));
    this.#renewals.forget(node);
  }

  hold(node: NodeKey): void {
    if (!this.#stopped) this.#renewals.hold(node);
  }

  resume(node: NodeKey): void {
    this.#renewals.resume(node);
  }

  renewal(node: NodeKey): number | null {
    return this.#renewals.of(node);
  }

  snapshot(): { inFlight: number; waiting: number; bytesOnLinks: number } {
    return {
      inFlight: this.#flights.size,
      waiting: this.#flow.waiting,
      bytesOnLinks: this.#flow.flyingBytes,
    };
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#settleAll();
    this.#renewals.stop();
    this.#cancelSweep?.();
    if (!this.#connection.isClosed()) this.#replies.unsubscribe();
  }

  #canSend(): boolean {
    return this.#connected && !this.#stopped && !this.#connection.isClosed();
  }

  #register(flight: Flight): void {
    this.#flights.set(flight.id, flight);
    const toNode = this.#flightsTo.get(flight.node);
    if (toNode === undefined) this.#flightsTo.set(flight.node, new Set([flight]));
    else toNode.add(flight);
  }

  /** Its turn has come. Must not throw: it may run inside the end of another call. */
  #launch(flight: Flight): void {
    flight.launchedAtMs = this.#clock.monotonicMs();
    this.#onLink.add(flight);
    this.#send(flight);
    this.#armSweep();
  }

  #send(flight: Flight): void {
    if (flight.payload === null || !this.#canSend()) {
      this.#settle(flight, notSent(flight.payload === null ? "node_offline" : "unavailable"));
      return;
    }
    try {
      this.#connection.publish(callSubject(flight.node), flight.payload, {
        reply: replySubject(flight.node, flight.id),
      });
      flight.sent = true;
    } catch {
      this.#settle(flight, notSent("unavailable"));
    }
  }

  #answered(message: Msg): void {
    const sender = senderOf(message.subject);
    const flight = this.#flights.get(lastToken(message.subject));
    const noResponders = message.data.length === 0 && message.headers?.code === 503;
    if (flight === undefined || flight.node !== sender) {
      if (!noResponders) this.#onStray(sender);
      return;
    }
    // A call that is not on the link has nothing to be answered.
    if (!flight.sent) return;
    if (noResponders) {
      this.#refused(flight);
      return;
    }
    try {
      const answer = flight.answer.take(message.data, this.#connection.info?.max_payload ?? 0);
      if (answer === null) return;
      this.#end(flight);
      flight.resolve(answer[0]);
    } catch (failure) {
      this.#end(flight);
      flight.reject(
        failure instanceof LemonError
          ? failure
          : uncertain("invalid_remote_payload", flight.mutation),
      );
    }
  }

  #refused(flight: Flight): void {
    flight.sent = false;
    const nowMs = this.#clock.monotonicMs();
    flight.refusedAtMs ??= nowMs;
    if (nowMs - flight.refusedAtMs >= RESEND_FOR_MS) {
      this.#settle(flight, notSent("node_offline"));
      return;
    }
    flight.cancelResend = this.#clock.after(RESEND_EVERY_MS, () => this.#send(flight));
  }

  #expire(flight: Flight): void {
    this.#settle(flight, flight.sent ? uncertain("timeout", flight.mutation) : notSent("timeout"));
  }

  #settle(flight: Flight, error: LemonError): void {
    if (this.#end(flight)) flight.reject(error);
  }

  /** Takes a call out of every book; false when it had ended before. */
  #end(flight: Flight): boolean {
    if (!this.#flights.delete(flight.id)) return false;
    const toNode = this.#flightsTo.get(flight.node);
    toNode?.delete(flight);
    if (toNode?.size === 0) this.#flightsTo.delete(flight.node);
    flight.cancelDeadline?.();
    flight.cancelResend?.();
    this.#onLink.delete(flight);
    flight.payload = null;
    this.#flow.leave(flight);
    return true;
  }

  #settleAll(): void {
    for (const flight of [...this.#flights.values()]) {
      this.#settle(
        flight,
        flight.sent ? uncertain("link_lost", flight.mutation) : notSent("unavailable"),
      );
    }
  }

  /** One timer, for the oldest call on the link; none when there is none. */
  #armSweep(): void {
    const [oldest] = this.#onLink;
    if (this.#cancelSweep !== null || oldest === undefined) return;
    const dueMs = oldest.launchedAtMs + ON_LINK_MS - this.#clock.monotonicMs();
    this.#cancelSweep = this.#clock.after(dueMs, () => this.#sweep());
  }

  #sweep(): void {
    this.#cancelSweep = null;
    const nowMs = this.#clock.monotonicMs();
    for (const flight of [...this.#onLink]) {
      if (flight.launchedAtMs + ON_LINK_MS > nowMs) break;
      this.#onLink.delete(flight);
      flight.payload = null;
      this.#flow.leave(flight);
    }
    this.#armSweep();
  }

  async #followConnection(): Promise<void> {
    for await (const status of this.#connection.status()) {
      if (this.#stopped) return;
      if (status.type === "disconnect") {
        this.#connected = false;
        this.#settleAll();
      } else if (status.type === "reconnect") {
        this.#connected = true;
      }
    }
    this.#connected = false;
    this.#settleAll();
  }
}
