/**
 * The door of raw work on nodes that are connected to `/ws` themselves: `node.invoke` and its answers.
 *
 *   /invocations      one_for_one
 *     <invokeId>      one actor an invocation, while it waits
 *
 * 1. The connection that called is told the outcome exactly once, after it was told the id; nobody else is.
 *    When it is gone, the work goes on and its outcome is dropped.
 * 2. The node's connection alone is told the request.
 */
import { randomUUID } from "node:crypto";
import { LemonError } from "../../protocol/errors.ts";
import { errorFrame } from "../../protocol/frames.ts";
import type { NodeId } from "../../protocol/ids.ts";
import { jsonBreach } from "../../protocol/json-policy.ts";
import type { ActorRef, SupervisorRef } from "../../supervision/actor.ts";
import type { Broadcast } from "../events/broadcast.ts";
import type { NodeRecord } from "../node/record.ts";
import type { NodeSocket } from "../node/sockets.ts";
import type { Caller, MethodHandlers } from "../session/handler.ts";
import { InvocationBook } from "./book.ts";
import { type InvocationProtocol, invocationSpec, type NodeAnswer } from "./invocation.ts";
import { isRefusedMethod } from "./refused-methods.ts";

export type InvocationMethod = "node.invoke" | "node.invoke.result";

export interface InvocationsOptions {
  /** Where the supervisor of this room is started, under the id `invocations`. */
  readonly parent: SupervisorRef;
  /** The node that a caller names, and the connection that serves it now. Errors: `node_not_found`. */
  readonly socketOf: (selector: string) => {
    readonly record: Pick<NodeRecord, "nodeId" | "name" | "life">;
    readonly socket: NodeSocket | null;
  };
  readonly broadcast: Pick<Broadcast, "tell">;
}

export interface Invocations {
  readonly methods: MethodHandlers<InvocationMethod>;
  /** Tells every caller that what it waits for is uncertain now, and takes no more. */
  stop(): Promise<void>;
}

type InvocationRef = ActorRef<InvocationProtocol>;

const DEFAULT_TIMEOUT_MS = 30_000;
/** An answer is handled at once. */
const ANSWER_DEADLINE = { deadlineMs: 5_000 } as const;

export async function openInvocations(options: InvocationsOptions): Promise<Invocations> {
  const { parent, socketOf, broadcast } = options;
  const supervisor = await parent.startSupervisor({
    id: "invocations",
    strategy: "one_for_one",
    restart: "permanent",
    // Its children are temporary: it never restarts anything, and so never gives up.
    intensity: { restarts: 0, windowMs: 1_000 },
    backoff: { firstMs: 100, maxMs: 1_000, resetAfterMs: 10_000 },
    stopOrder: "together",
  });
  let stopping = false;
  const book = new InvocationBook<Promise<InvocationRef>>();

  /** Begins to wait for a node that was asked. */
  const wait = (
    invokeId: string,
    nodeId: NodeId,
    socket: NodeSocket,
    caller: Caller,
    timeoutMs: number,
  ): void => {
    const complete = ({ result, error }: NodeAnswer): void => {
      // Whatever happens to its actor, the first outcome is the only one.
      if (!book.settle(invokeId)) return;
      const ok = error === null;
      const completed = { invokeId, nodeId, ok, result, error };
      broadcast.tell(caller.connectionId, "node.invoke.completed", completed);
    };
    const fail = (failure: LemonError): void =>
      complete({ result: null, error: shownFailure(failure) });
    const started = Promise.withResolvers<InvocationRef>();
    const { connectionId, sessionGeneration } = socket;
    book.begin(invokeId, { nodeId, connectionId, sessionGeneration }, started.promise);
    const spec = invocationSpec({
      invokeId,
      timeoutMs,
      socketClosed: socket.closed,
      tellNode: (reason) => {
        const cancel = { invokeId, nodeId, reason };
        broadcast.tell(socket.connectionId, "node.invoke.cancel", cancel);
      },
      onAnswer: complete,
      onFailure: fail,
    });
    supervisor.startActor(spec).then(started.resolve, (failure: unknown) => {
      // The control plane is being stopped; the node may have begun.
      fail(new LemonError("actor_ended", { cause: failure }));
      started.reject(new LemonError("invoke_settled"));
    });
    // Whoever answers learns of it; without an answer nobody has to.
    started.promise.catch(() => undefined);
  };

  return {
    methods: {
      // Not asynchronous: the caller is told the id before anything about it.
      "node.invoke"(params, caller) {
        const { nodeId: selector, method, args = {}, timeoutMs = DEFAULT_TIMEOUT_MS } = params;
        if (stopping) throw new LemonError("unavailable");
        refuseBreach(args);
        refuseOwned(method);
        const { record, socket } = socketOf(selector);
        const { nodeId, name: nodeName } = record;
        if (socket === null) throw notReachable(record);
        book.refuseBeyondBounds(nodeId);
        const invokeId = randomUUID();
        const request = { invokeId, nodeId, nodeName, method, args, timeoutMs };
        const sent = broadcast.tell(socket.connectionId, "node.invoke.request", request);
        if (!sent) throw notReachable(record);
        wait(invokeId, nodeId, socket, caller, timeoutMs);
        const status = "pending";
        return { invokeId, nodeId, method, status, summary: { invokeId, nodeId, status } };
      },

      async "node.invoke.result"({ invokeId, result = null, error = null }, caller) {
        const { nodeId, pending } = book.answeredBy(invokeId, caller);
        const actor = await pending;
        await actor.ask("answer", { result, error }, ANSWER_DEADLINE).catch(refuseLate);
        const ok = error === null;
        return {
          invokeId,
          received: true,
          summary: {
            invokeId,
            nodeId,
            status: ok ? "completed" : "error",
            ok,
            hasResult: result !== null,
            hasError: !ok,
          },
        };
      },
    },
    stop() {
      stopping = true;
      return supervisor.stop();
    },
  };
}

function refuseBreach(args: unknown): void {
  const kind = jsonBreach(args);
  if (kind === null) return;
  throw new LemonError("invalid_params", {
    message: "args violate JSON payload policy",
    details: { kind },
  });
}

function refuseOwned(method: string): void {
  if (!isRefusedMethod(method)) return;
  throw new LemonError("forbidden", {
    message: "This method is the control plane's own: it can not be asked of a node",
  });
}

function notReachable({ life }: Pick<NodeRecord, "life">): LemonError {
  if (life === null) return new LemonError("node_offline", { message: "Node is not online" });
  return new LemonError("capability_missing", {
    message: "The node has a worker with a link, which takes no raw invocations",
  });
}

/** As the error of a method reads, so that clients have one way to read both. */
function shownFailure(failure: LemonError): Readonly<Record<string, unknown>> {
  const { message, details } = errorFrame("", failure, true).error;
  return { message, ...details };
}

/** It was settled while the answer was on its way. */
function refuseLate(failure: unknown): never {
  const over = failure instanceof LemonError && failure.code === "actor_unavailable";
  throw over ? new LemonError("invoke_settled") : failure;
}
