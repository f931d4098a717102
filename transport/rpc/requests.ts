/**
 * Owns what a node may ask of the controller: `ctl.<key>.<name>`, answered by the controller.
 *
 * 1. Who asks is read from the subject, which the hub binds to the sender's account; nothing in the
 *    payload is believed about it.
 * 2. What one node may have under way is bounded; more is refused without running anything.
 * 3. An answer has 5 s: then the hub has forgotten the way back (`ANSWER_WITHIN_MS` in keys/claims.ts).
 * 4. A request without a place for the answer runs all the same (a notice) and is not answered.
 */
import { errors, type Msg, type NatsConnection } from "@nats-io/transport-node";
import type { Logger } from "pino";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import { decode, encode } from "./codec.ts";
import { encodeDone, encodeFailed, fitting, readAnswer } from "./envelope.ts";
import { notSent, uncertain } from "./failure.ts";
import { allRequests, isRequestName, requestSubject, senderOf } from "./subjects.ts";

/** Requests of one node that may run at once. */
const MAX_RUNNING_PER_NODE = 16;

/** Gets plain data and validates it itself; `from` is proven. */
export type NodeRequestHandler = (from: NodeKey, params: unknown) => unknown;

export interface NodeRequestsOptions {
  /** In the controller's account. */
  readonly connection: NatsConnection;
  /** By name: a lower-case letter, then letters and hyphens. */
  readonly handlers: Readonly<Record<string, NodeRequestHandler>>;
  readonly log: Logger;
}

export interface NodeRequests {
  /** Takes no more requests; what runs is still answered. */
  stop(): void;
}

/** Throws `invalid_request` for a name that can not stand in a subject. */
export function serveNodeRequests(options: NodeRequestsOptions): NodeRequests {
  const { connection, handlers, log } = options;
  if (!Object.keys(handlers).every(isRequestName)) throw new LemonError("invalid_request");
  const running = new Map<NodeKey, number>();
  const refusal = encodeFailed(new LemonError("rate_limited"));
  const answer = (message: Msg, bytes: Uint8Array): void => {
    try {
      message.respond(fitting(bytes, connection.info?.max_payload));
    } catch {
      // The connection is closed; the node's own deadline tells it.
    }
  };

  const take = (handler: NodeRequestHandler, message: Msg): void => {
    const from = senderOf(message.subject);
    const before = running.get(from) ?? 0;
    if (before >= MAX_RUNNING_PER_NODE) {
      answer(message, refusal);
    } else {
      running.set(from, before + 1);
      void run(handler, from, message);
    }
  };
  const run = async (handler: NodeRequestHandler, from: NodeKey, message: Msg): Promise<void> => {
    try {
      answer(message, encodeDone(await handler(from, decodeParams(message.data))));
    } catch (error) {
      if (!(error instanceof LemonError)) {
        log.error(
          { error: error instanceof Error ? error.name : typeof error },
          "a node's request crashed",
        );
      }
      answer(message, encodeFailed(error));
    } finally {
      const left = (running.get(from) ?? 1) - 1;
      if (left > 0) running.set(from, left);
      else running.delete(from);
    }
  };

  const subscriptions = Object.entries(handlers).map(([name, handler]) =>
    connection.subscribe(allRequests(name), {
      callback: (error, message) => {
        if (error === null) take(handler, message);
      },
    }),
  );

  return {
    stop() {
      if (connection.isClosed()) return;
      for (const subscription of subscriptions) subscription.unsubscribe();
    },
  };
}

function decodeParams(bytes: Uint8Array): unknown {
  try {
    return decode(bytes);
  } catch {
    throw new LemonError("invalid_request");
  }
}

export interface RequestOptions {
  readonly deadlineMs: number;
  readonly mutation: boolean;
}

/**
 * Asks the controller. Errors: the controller's own; `unavailable` (the link is down or nobody there
 * serves the name: nothing was delivered), `timeout` (uncertain).
 */
export async function requestController(
  connection: NatsConnection,
  nodeKey: NodeKey,
  name: string,
  params: unknown,
  options: RequestOptions,
): Promise<unknown> {
  const { deadlineMs, mutation } = options;
  if (connection.isClosed()) throw notSent("unavailable");
  let message: Msg;
  try {
    message = await connection.request(requestSubject(nodeKey, name), encode(params), {
      timeout: deadlineMs,
    });
  } catch (error) {
    throw error instanceof errors.NoRespondersError ||
      (error instanceof errors.RequestError && error.isNoResponders())
      ? notSent("unavailable")
      : uncertain("timeout", mutation);
  }
  return readAnswer(message.data, mutation);
}
