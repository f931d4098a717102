/**
 * Owns the node's side of calls: takes them, runs the handler, answers. Calls run side by side; order
 * and exclusion are the actors' business.
 *
 * 1. A call for another worker life is refused (`node_superseded`) before its handler hears of it.
 * 2. A handler runs at most once a call, and its call is answered at most once.
 * 3. An answer too large for the link is replaced by `response_too_large`; a caller never just waits.
 * 4. An answer leaves in one go, however many messages it is. Answers are held while the link renews its credentials, and none is lost over it.
 */
import type { Msg, NatsConnection } from "@nats-io/transport-node";
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import { answerMessages, decodeCall, encodeFailed } from "./envelope.ts";
import { notSent } from "./failure.ts";
import { callSubject, controllerSubjects } from "./subjects.ts";

/** Calls that may run at once. The controller bounds what it sends; this bounds what a fault could. */
const MAX_RUNNING = 2_048;

export interface CallContext {
  /** How long the caller still waits, counted from the call's arrival, in ms. */
  readonly deadlineMs: number;
}

/** Gets plain data (its bytes are views on the message: copy what is kept) and validates it itself. */
export type RpcHandler = (params: unknown, context: CallContext) => unknown;

export interface RpcServerOptions {
  /** The worker's connection to account LINK (or to its account on the hub). */
  readonly connection: NatsConnection;
  readonly nodeKey: NodeKey;
  readonly generation: number;
  readonly handlers: Readonly<Record<string, RpcHandler>>;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface RpcServer {
  readonly running: number;
  /** Keeps answers back until `resume`. */
  hold(): void;
  resume(): void;
  /** Takes no more calls; resolves when every call taken has been answered. */
  stop(): Promise<void>;
}

export function serveRpc(options: RpcServerOptions): RpcServer {
  return new Server(options);
}

/** The messages that make it up. */
type Answer = readonly Uint8Array[];

class Server implements RpcServer {
  readonly #options: RpcServerOptions;
  readonly #handlers: ReadonlyMap<string, RpcHandler>;
  readonly #replyPrefix: string;
  readonly #subscription;
  readonly #running = new Set<Promise<void>>();
  /** Null when answers go out at once. Bounded by the calls that may run. */
  #heldBack: { readonly subject: string; readonly answer: Answer }[] | null = null;

  constructor(options: RpcServerOptions) {
    this.#options = options;
    this.#handlers = new Map(Object.entries(options.handlers));
    this.#replyPrefix = controllerSubjects(options.nodeKey).slice(0, -1);
    this.#subscription = options.connection.subscribe(callSubject(options.nodeKey), {
      callback: (error, message) => {
        if (error === null) this.#take(message);
      },
    });
  }

  get running(): number {
    return this.#running.size;
  }

  hold(): void {
    this.#heldBack ??= [];
  }

  resume(): void {
    const held = this.#heldBack ?? [];
    this.#heldBack = null;
    for (const { subject, answer } of held) this.#publish(subject, answer);
  }

  async stop(): Promise<void> {
    if (!this.#options.connection.isClosed() && !this.#subscription.isClosed()) {
      // Drained, not cut: a call that is already here is answered. The connection may close meanwhile.
      await this.#subscription.drain().catch(() => undefined);
    }
    while (this.#running.size > 0) await Promise.all(this.#running);
    this.resume();
  }

  #take(message: Msg): void {
    const subject = message.reply;
    // A call without a way to answer it is none of the controller's.
    if (subject === undefined || !subject.startsWith(this.#replyPrefix)) return;
    if (this.#running.size >= MAX_RUNNING) {
      this.#answer(subject, [encodeFailed(notSent("unavailable"))]);
      return;
    }
    const work = this.#run(message.data, subject).finally(() => this.#running.delete(work));
    this.#running.add(work);
  }

  async #run(bytes: Uint8Array, subject: string): Promise<void> {
    const { clock, connection, generation, log } = this.#options;
    const arrivedMs = clock.monotonicMs();
    let deadlineMs = Number.POSITIVE_INFINITY;
    let answer: Answer;
    try {
      const call = decodeCall(bytes);
      deadlineMs = call.deadlineMs;
      if (call.generation !== generation) throw new LemonError("node_superseded");
      const handler = this.#handlers.get(call.method);
      if (handler === undefined) throw new LemonError("capability_missing");
      const result = await handler(call.params, { deadlineMs });
      answer = answerMessages(result, connection.info?.max_payload);
    } catch (error) {
      // The class alone: a foreign error's message can hold a path, an argument or worse.
      if (!(error instanceof LemonError)) {
        log.error({ error: error instanceof Error ? error.name : typeof error }, "a call crashed");
      }
      answer = [encodeFailed(error)];
    }
    if (clock.monotonicMs() - arrivedMs < deadlineMs) this.#answer(subject, answer);
  }

  #answer(subject: string, answer: Answer): void {
    if (this.#heldBack === null) this.#publish(subject, answer);
    else this.#heldBack.push({ subject, answer });
  }

  #publish(subject: string, answer: Answer): void {
    const { connection, log } = this.#options;
    try {
      for (const message of answer) connection.publish(subject, message);
    } catch (error) {
      // The connection is closed: the caller learns from the link, not from us.
      log.warn(
        { error: error instanceof Error ? error.name : typeof error },
        "an answer was not sent",
      );
    }
  }
}
