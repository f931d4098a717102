/**
 * Owns the words of the actor kernel: what an actor is given, what it must supply, and what the
 * others may do with it. No behaviour lives here; `system.ts` is the door.
 *
 * Invariants every actor may rely on:
 * 1. One message at a time, first in first out, also across `await`.
 * 2. A full mailbox refuses the sender at once (`mailbox_full`); nothing is dropped silently.
 * 3. An ask always ends: with the reply, an error of the table, or `deadline_exceeded`. A message
 *    whose deadline passed before it was taken is never handled (`message_expired`).
 * 4. A `LemonError` thrown by a handler is an answer. Anything else thrown is a crash: the asker gets
 *    `actor_crashed`, the messages still waiting get `actor_unavailable`, the supervisor decides.
 * 5. Whoever watches an actor learns that it ended, and why, exactly once.
 */
import type { Logger } from "pino";
import type { Clock } from "../host/clock.ts";

/** What an actor understands: message name → (payload) → reply. */
export type Protocol = Record<string, (payload: never) => unknown>;
export type MessageName<P extends Protocol> = Extract<keyof P, string>;
export type PayloadOf<P extends Protocol, K extends MessageName<P>> = Parameters<P[K]>[0];
export type ReplyOf<P extends Protocol, K extends MessageName<P>> = Awaited<ReturnType<P[K]>>;

export interface AskOptions {
  /** How long the asker waits, in ms from now; an ask without end does not exist. */
  readonly deadlineMs: number;
}

/**
 * The address of an actor. It stays valid over restarts of the same child; while the actor is down
 * (back-off, ended), an ask or a tell is refused at once with `actor_unavailable`.
 */
export interface ActorRef<P extends Protocol> {
  /** Slash-separated place in the tree, for example `/lemon/nodes/worker-1`. Free of content. */
  readonly path: string;
  ask<K extends MessageName<P>>(
    type: K,
    payload: PayloadOf<P, K>,
    options: AskOptions,
  ): Promise<ReplyOf<P, K>>;
  /** Enqueues without an answer. Throws `mailbox_full` or `actor_unavailable`. */
  tell<K extends MessageName<P>>(type: K, payload: PayloadOf<P, K>): void;
  /** Asks it to end in order (its `stop` runs); resolves when it has ended. Never rejects. */
  stop(): Promise<void>;
  /** Calls `onDeath` exactly once, when the current life ends; at once when there is none. Returns the way to stop watching. */
  watch(onDeath: (death: Death) => void): () => void;
}

/** Why a life ended. `code` is a code of the table or the error class's name: never a message, which could hold content. */
export interface Death {
  readonly path: string;
  readonly reason: "normal" | "shutdown" | "crash" | "init_failed" | "killed";
  readonly code: string | null;
}

/**
 * A handler that returns `later(promise)` frees the mailbox at once and answers when the promise
 * settles: for work that must not hold up the messages behind it.
 */
export class Later<T> {
  readonly promise: Promise<T>;
  constructor(promise: Promise<T>) {
    this.promise = promise;
  }
}
export function later<T>(promise: Promise<T>): Later<T> {
  return new Later(promise);
}

type Answer<T> = T | Later<Awaited<T>> | Promise<Awaited<T> | Later<Awaited<T>>>;

export type Handlers<P extends Protocol> = {
  readonly [K in MessageName<P>]: (payload: PayloadOf<P, K>) => Answer<ReplyOf<P, K>>;
};

/** One life of an actor, as its `start` returns it. */
export interface Behaviour<P extends Protocol> {
  readonly handlers: Handlers<P>;
  /** Releases what this life holds. Runs once, before the death is told, bounded by the shutdown deadline. */
  readonly stop?: (reason: Death["reason"]) => void | Promise<void>;
}

/** What a life is given by the kernel. */
export interface ActorContext<P extends Protocol> {
  readonly self: ActorRef<P>;
  readonly log: Logger;
  readonly clock: Clock;
  /** Hears of another actor's death as a message of this actor's own mailbox (it is never refused there). */
  watch(
    other: { watch: ActorRef<P>["watch"] },
    onDeath: (death: Death) => void | Promise<void>,
  ): () => void;
  /** Ends this life as a crash, from work that runs outside a handler. */
  crash(error: unknown): void;
  /** Ends this life normally once the mailbox's current message is done. */
  end(): void;
  /** Aborted when this life ends: hand it to whatever runs outside a handler. */
  readonly signal: AbortSignal;
}

/** `permanent` always restarts, `transient` after a crash only, `temporary` never. */
export type Restart = "permanent" | "transient" | "temporary";

export interface ActorSpec<P extends Protocol> {
  /** Unique among its siblings; becomes part of the path, so it holds no content. */
  readonly id: string;
  /** What it is, for the tree: `session`, `process-run`, … */
  readonly kind: string;
  readonly restart: Restart;
  /** How long an ordered stop may take before the actor is killed (abandoned), in ms. Default 5,000. */
  readonly shutdownMs?: number;
  /** Messages that may wait. Default 1,024. */
  readonly mailboxCapacity?: number;
  /** Begins a life. A throw is a failed start, which counts as a restart. */
  readonly start: (context: ActorContext<P>) => Behaviour<P> | Promise<Behaviour<P>>;
}

export type Strategy = "one_for_one" | "one_for_all" | "rest_for_one";

export interface Intensity {
  /** More restarts than this inside the window end the supervisor, which escalates. */
  readonly restarts: number;
  readonly windowMs: number;
}

export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
  /** A life at least this long puts the delay back to `firstMs`. */
  readonly resetAfterMs: number;
}

export interface SupervisorSpec {
  readonly id: string;
  readonly strategy: Strategy;
  readonly restart: Restart;
  readonly intensity: Intensity;
  readonly backoff: Backoff;
  /**
   * `reverse` (the default): one child after the other, the last one started first. `together`: all at once,
   * for many children that do not need each other (sessions, runs), whose deadlines would add up.
   */
  readonly stopOrder?: "reverse" | "together";
}

/** A supervisor as its owner sees it. Children start in the order given and stop in reverse. */
export interface SupervisorRef {
  readonly path: string;
  /** Starts a child and waits for its first life; rejects with the error of its `start` when that fails (a temporary or failing first start leaves no child behind). */
  startActor<P extends Protocol>(spec: ActorSpec<P>): Promise<ActorRef<P>>;
  startSupervisor(spec: SupervisorSpec): Promise<SupervisorRef>;
  stop(): Promise<void>;
  watch(onDeath: (death: Death) => void): () => void;
}

/** One row of the live tree. Times in Unix ms; `lastCrash` is a code, never a message. */
export interface TreeNode {
  readonly path: string;
  readonly kind: string;
  readonly state: "starting" | "running" | "backing_off" | "stopping" | "ended";
  readonly restart: Restart;
  readonly mailboxDepth: number;
  readonly oldestMessageAgeMs: number | null;
  readonly startedAtMs: number | null;
  readonly restartsInWindow: number;
  readonly restartsLeft: number | null;
  readonly lastCrash: string | null;
  readonly children: readonly TreeNode[];
}

/** One process's tree of actors. */
export interface ActorSystem {
  readonly root: SupervisorRef;
  snapshot(): TreeNode;
  /**
   * Stops everything in reverse order, and abandons what is left when `withinMs` (default: the system's
   * `shutdownMs`) is over. Idempotent: a second call can bring that moment nearer, never further away.
   */
  shutdown(options?: { readonly withinMs?: number }): Promise<void>;
  /** Resolves when the tree has ended: by `shutdown`, or because the root gave up. */
  readonly ended: Promise<Death>;
}
