/**
 * Owns the waiting of one invocation: from the moment its node was asked until its outcome is known. An actor
 * each, `temporary`: what a node was asked once is never asked again, and a crash is told as what it is.
 *
 * 1. The outcome is told once: the node's answer, the deadline, the end of the node's connection or this
 *    actor's own, whichever is first.
 * 2. What is not answered is told as uncertain; where the node may still be at it, it is told to give up.
 * 3. Nothing of the arguments is kept, and nothing of the result or the error is logged.
 */
import type { CancelTimer } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { type JsonBreach, jsonBreach } from "../../protocol/json-policy.ts";
import type { ActorContext, ActorSpec, Behaviour, Death } from "../../supervision/actor.ts";

/** What a node answered; null is nothing. */
export interface NodeAnswer {
  readonly result: unknown;
  /** Any JSON of its own. */
  readonly error: unknown;
}

export type InvocationProtocol = {
  /** Errors: `too_large` or `invalid_request` for an answer that can not be passed on. */
  answer: (answer: NodeAnswer) => null;
};

/** Why a node is told to give up. */
export type CancelReason = "timeout" | "invalid_result" | "stopped";

export interface InvocationOptions {
  readonly invokeId: string;
  readonly timeoutMs: number;
  /** Aborted when the connection that was asked ends. */
  readonly socketClosed: AbortSignal;
  readonly tellNode: (reason: CancelReason) => void;
  readonly onAnswer: (answer: NodeAnswer) => void;
  readonly onFailure: (failure: LemonError) => void;
}

export function invocationSpec(options: InvocationOptions): ActorSpec<InvocationProtocol> {
  return {
    id: options.invokeId,
    kind: "invocation",
    restart: "temporary",
    start: (context) => new Invocation(options, context),
  };
}

class Invocation implements Behaviour<InvocationProtocol> {
  readonly #options: InvocationOptions;
  readonly #context: ActorContext<InvocationProtocol>;
  #settled = false;
  #cancelDeadline: CancelTimer = () => {};

  constructor(options: InvocationOptions, context: ActorContext<InvocationProtocol>) {
    this.#options = options;
    this.#context = context;
    const { socketClosed, timeoutMs } = options;
    this.#cancelDeadline = context.clock.after(timeoutMs, () => this.#onDeadline());
    if (socketClosed.aborted) this.#onSocketEnd();
    else socketClosed.addEventListener("abort", this.#onSocketEnd);
  }

  readonly handlers = {
    answer: (answer: NodeAnswer) => {
      const breach = jsonBreach(answer.result) ?? jsonBreach(answer.error);
      if (breach !== null) throw this.#refused(breach);
      this.#settle();
      this.#options.onAnswer(answer);
      return null;
    },
  };

  stop(_reason: Death["reason"]): void {
    if (this.#settled) return;
    this.#options.tellNode("stopped");
    this.#fail("actor_ended", "The control plane gave up before the node answered");
  }

  #onDeadline(): void {
    this.#options.tellNode("timeout");
    this.#fail("timeout", "The node did not answer in time");
  }

  readonly #onSocketEnd = (): void => {
    this.#fail("link_lost", "The node's connection ended before it answered");
  };

  #fail(code: "actor_ended" | "timeout" | "link_lost", what: string): void {
    this.#settle();
    this.#options.onFailure(
      new LemonError(code, { message: `${what}; what the node did is unknown` }),
    );
  }

  /** What the node is refused with; the caller learns that there was an answer, and which bound it broke. */
  #refused(kind: JsonBreach): LemonError {
    this.#settle();
    this.#options.tellNode("invalid_result");
    this.#options.onFailure(new LemonError("invalid_remote_payload", { details: { kind } }));
    return new LemonError(kind === "max_bytes" ? "too_large" : "invalid_request", {
      message: "result violates JSON payload policy",
      details: { kind },
    });
  }

  #settle(): void {
    this.#settled = true;
    this.#cancelDeadline();
    this.#options.socketClosed.removeEventListener("abort", this.#onSocketEnd);
    this.#context.end();
  }
}
