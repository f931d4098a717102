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
 * 6. A child has at most one life at a time. What a life left running when its deadline passed is abandoned:
 *    its code may still run, but can no longer answer; `context.signal` tells it to give up.
 */
import type { Logger } from "pino";
import type { Clock } from "../host/clock.ts";

/** What an actor understands: message name → (payload) → reply. */
export type Protocol = Record<string, (payload: never) => unknown>;
export type MessageName<P extends Protocol> = Extract<keyof P, string>;
export type PayloadOf<P extends Protocol, K extends MessageName<P>> = Parameters<P[K]>[0];
export type ReplyOf<P extends Protocol, K extends MessageName<P>> = Awaited<ReturnType<P[K]>>;

export interface AskOptions {
  /**
   * How long the asker waits, in ms from now; an ask without end does not exist. One that is not a finite
   * number above 0 has passed already: the ask is refused with `message_expired`.
   */
  readonly deadlineMs: number;
}

/**
 * The address of an actor. It stays valid over restarts of the same child; while the actor is down
 * (back-off, stopping, ended), an ask or a tell is refused at once with `actor_unavailable`. Messages to
 * one that is starting wait for it.
 *
 * An ask rejects with a `LemonError`, never anything else: one that the handler threw (without its cause), or
 * - `mailbox_full`, `actor_unavailable`, `message_expired`: it was not handled and never will be;
 * - `deadline_exceeded`, `actor_crashed`, `actor_ended`: it was taken, and may have had its effect.
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
  /**
   * Ends it in order and for good, whatever its restart kind: the message in hand is finished, those that
   * wait are refused, `stop` runs. Resolves when it has ended. Never rejects. An actor that waits for its
   * own stop waits out its own deadline: it is to `end()`.
   */
  stop(): Promise<void>;
  /**
   * Calls `onDeath` exactly once, when the current life ends; when there is none, soon, with the end of the
   * last one. Returns the way to stop watching. What `onDeath` throws is logged and goes no further.
   */
  watch(onDeath: (death: Death) => void): () => void;
}

/** Why a life ended. */
export interface Death {
  readonly path: string;
  /**
   * `normal`: by its own `end()`. `shutdown`: it was stopped. `crash`, `init_failed`: it threw, `init_failed`
   * before it was up. `killed`: it was stopped and did not end within its deadline.
   */
  readonly reason: "normal" | "shutdown" | "crash" | "init_failed" | "killed";
  /**
   * For `crash` and `init_failed` the table's code, the error class's name or the type of what was thrown:
   * never a message, which could hold content. A supervisor that gave up has `restart_intensity_exceeded`.
   */
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
  /**
   * Releases what this life holds. Runs once, however the life ends, before the death is told: after the
   * message in hand, bounded by the shutdown deadline. With `killed` that has passed: what it does at once
   * still counts, and nobody waits for the rest.
   */
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
  /**
   * Ends this life as a crash, from work that runs outside a handler. Whoever waits for an answer has
   * `actor_crashed` at once. During `start` it is a failed start; after the end it is only logged.
   */
  crash(error: unknown): void;
  /** Ends this life normally once the mailbox's current message is done. */
  end(): void;
  /** What this life stands for was replaced and runs from now on: so the tree says. No restart, no new life. */
  beganAnew(): void;
  /**
   * Aborted when nothing of this life may go on: at a crash, after `stop` in an ordered end, when its deadline
   * has passed, and when it is stopped while it starts. Hand it to whatever runs outside a handler.
   */
  readonly signal: AbortSignal;
}

/** `permanent` always restarts, `transient` after a crash only, `temporary` never. */
export type Restart = "permanent" | "transient" | "temporary";

export interface ActorSpec<P extends Protocol> {
  /**
   * Unique among its siblings; becomes part of the path, so it holds no content: 1 to 256 characters without
   * `/` and control characters.
   */
  readonly id: string;
  /** What it is, for the tree: `session`, `process-run`, … */
  readonly kind: string;
  readonly restart: Restart;
  /** How long an ordered stop may take before the actor is killed (abandoned), in ms. Default 5,000. */
  readonly shutdownMs?: number;
  /** Messages that may wait. Default 1,024. */
  readonly mailboxCapacity?: number;
  /** Begins a life; it has no deadline of its own. A throw is a failed start, which counts as a restart. */
  readonly start: (context: ActorContext<P>) => Behaviour<P> | Promise<Behaviour<P>>;
}

/**
 * Who is restarted when a child fails: it alone, all, or it and those started after it. A group stops in reverse
 * order and starts in order, after one back-off; members that fail while it falls cost no restart of their own.
 * Temporary children that fall with a group are not started again.
 */
export type Strategy = "one_for_one" | "one_for_all" | "rest_for_one";

export interface Intensity {
  /**
   * More restarts than this inside the window end the supervisor as a crash: its children stop, and its own
   * supervisor restarts it, with its permanent and transient children, or gives up in turn.
   */
  readonly restarts: number;
  readonly windowMs: number;
}

/** The delay doubles from `firstMs` to `maxMs`; half of it is left to chance. */
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
  /**
   * Starts a child and waits for its first life. A first start that fails leaves no child behind, whatever its
   * restart kind, and rejects with the very error of its `start`; else with `actor_already_started`,
   * `invalid_request` (the id), or `actor_unavailable` when this supervisor is down or the child was stopped
   * before it was up. `one_for_all` and `rest_for_one` start one child at a time and none during a recovery, so
   * there a child's `start` must not wait for a sibling to be started.
   */
  startActor<P extends Protocol>(spec: ActorSpec<P>): Promise<ActorRef<P>>;
  startSupervisor(spec: SupervisorSpec): Promise<SupervisorRef>;
  stop(): Promise<void>;
  watch(onDeath: (death: Death) => void): () => void;
}

/**
 * One row of the live tree. Times in Unix ms; `lastCrash` is a code, never a message. For a supervisor
 * (`kind` is `supervisor`) `restartsInWindow` are those of all its children and `restartsLeft` what it allows
 * before it gives up; for another child its own ones, and what its supervisor has left (null: never restarted).
 * `ended` is said of a whole tree only: a child that ended for good is not in it any more.
 */
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
