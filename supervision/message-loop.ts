/**
 * Owns the handling of one life's messages. Invariants:
 * 1. One at a time, first in first out, also across `await`: the next is taken when the one before is done.
 * 2. It is held until it is opened and takes nothing in once it is closed; what waited then is refused.
 * 3. Every ask it took is settled: by the handler, by its deadline, or by `abandon`.
 * 4. Nothing an actor's code throws gets out of here except through `crashed`.
 */
import type { Clock } from "../host/clock.ts";
import { type ErrorCode, LemonError } from "../protocol/errors.ts";
import type { Death, Handlers, MessageName, PayloadOf, Protocol } from "./actor.ts";
import { Later } from "./actor.ts";
import type { Place } from "./comedy-host.ts";
import { Ask, type Asker, DeathNotice, type Letter, Mailbox, Tell } from "./mailbox.ts";
import { isRefusal, isThenable } from "./outcome.ts";

const DEFAULT_CAPACITY = 1_024;
/** After so many messages an actor lets the others have their turn. */
const MESSAGES_PER_TURN = 32;

/** The life whose messages these are. */
export interface LoopOwner {
  readonly clock: Clock;
  /** A handler, or what it promised for later, threw what is no answer. */
  crashed(error: unknown): void;
  /** A message that had been taken is done with. */
  messageDone(): void;
  warn(line: string, fields: object): void;
}

export class MessageLoop<P extends Protocol> {
  readonly #owner: LoopOwner;
  readonly #mailbox: Mailbox<P>;
  #phase: "held" | "open" | "closed" = "held";
  #place: Place | null = null;
  #handlers: Handlers<P> | null = null;
  /** The message whose handler runs. */
  #current: Letter<P> | null = null;
  /** Messages answered with a `later` that has not settled yet. */
  #laters: Set<Letter<P>> | null = null;
  #turnAsked = false;
  #messagesLeft = 0;

  constructor(owner: LoopOwner, capacity: number = DEFAULT_CAPACITY) {
    this.#owner = owner;
    this.#mailbox = new Mailbox(capacity);
  }

  get depth(): number {
    return this.#mailbox.depth;
  }

  get oldestAgeMs(): number | null {
    const oldestMs = this.#mailbox.oldestMs;
    return oldestMs === null ? null : this.#owner.clock.monotonicMs() - oldestMs;
  }

  /** True while a handler runs. */
  get busy(): boolean {
    return this.#current !== null;
  }

  /** True while an answer promised for later is still to come. */
  get owing(): boolean {
    return this.#laters !== null && this.#laters.size > 0;
  }

  // --- in -----------------------------------------------------------------------------------------

  ask<K extends MessageName<P>>(
    type: K,
    payload: PayloadOf<P, K>,
    deadlineMs: number,
    asker: Asker,
  ): void {
    const { clock } = this.#owner;
    const refusal = this.#refusal();
    if (refusal !== null) {
      asker.reject(refusal);
    } else if (deadlineMs > 0 && Number.isFinite(deadlineMs)) {
      this.#push(new Ask(clock, clock.monotonicMs(), type, payload, deadlineMs, asker));
    } else {
      asker.reject(new LemonError("message_expired"));
    }
  }

  tell<K extends MessageName<P>>(type: K, payload: PayloadOf<P, K>): void {
    const refusal = this.#refusal();
    if (refusal !== null) throw refusal;
    this.#push(new Tell(this.#owner.clock.monotonicMs(), type, payload));
  }

  /** News of a death; let in whatever waits already. */
  notify(death: Death, onDeath: (death: Death) => unknown): void {
    if (this.#phase === "closed") return;
    this.#push(new DeathNotice(this.#owner.clock.monotonicMs(), death, onDeath));
  }

  #refusal(): LemonError | null {
    if (this.#phase === "closed") return new LemonError("actor_unavailable");
    return this.#mailbox.full ? new LemonError("mailbox_full") : null;
  }

  #push(letter: Letter<P>): void {
    this.#mailbox.push(letter);
    if (this.#phase === "open" && this.#current === null) this.#askForTurn();
  }

  // --- handling -----------------------------------------------------------------------------------

  open(place: Place, handlers: Handlers<P>): void {
    this.#phase = "open";
    this.#place = place;
    this.#handlers = handlers;
    if (this.#mailbox.depth > 0) this.#askForTurn();
  }

  #askForTurn(): void {
    if (this.#turnAsked) return;
    this.#turnAsked = true;
    this.#place?.turn();
  }

  /** What the place calls when it is this actor's turn. */
  turn(): void {
    this.#turnAsked = false;
    this.#messagesLeft = MESSAGES_PER_TURN;
    this.#work();
  }

  #work(): void {
    while (this.#phase === "open" && this.#current === null) {
      if (this.#mailbox.depth === 0) return;
      if (this.#messagesLeft === 0) {
        this.#askForTurn();
        return;
      }
      this.#messagesLeft -= 1;
      const letter = this.#mailbox.take();
      if (letter !== null && !letter.expire(this.#owner.clock.monotonicMs())) this.#handle(letter);
    }
  }

  #handle(letter: Letter<P>): void {
    if (this.#handlers === null) return;
    this.#current = letter;
    let outcome: unknown;
    let pending: Promise<unknown> | null;
    try {
      outcome = letter.handle(this.#handlers);
      pending = isThenable(outcome) ? Promise.resolve(outcome) : null;
    } catch (error) {
      this.#failed(letter, error);
      return;
    }
    if (pending === null) {
      this.#done(letter, outcome);
      return;
    }
    pending.then(
      (reply) => {
        this.#done(letter, reply);
        this.#work();
      },
      (error: unknown) => {
        this.#failed(letter, error);
        this.#work();
      },
    );
  }

  #done(letter: Letter<P>, reply: unknown): void {
    this.#current = null;
    try {
      if (reply instanceof Later) this.#answerLater(letter, Promise.resolve(reply.promise));
      else letter.answer(reply);
    } catch (error) {
      // A reply whose own code throws when it is looked at.
      this.#refuse(letter, error);
    }
    this.#owner.messageDone();
  }

  #failed(letter: Letter<P>, error: unknown): void {
    this.#current = null;
    this.#refuse(letter, error);
    this.#owner.messageDone();
  }

  #answerLater(letter: Letter<P>, promise: Promise<unknown>): void {
    this.#laters ??= new Set();
    const laters = this.#laters;
    laters.add(letter);
    promise.then(
      (reply) => {
        laters.delete(letter);
        letter.answer(reply);
        this.#owner.messageDone();
      },
      (error: unknown) => {
        laters.delete(letter);
        this.#refuse(letter, error);
        this.#owner.messageDone();
      },
    );
  }

  /** What a handler threw is an answer if it is one of the table's errors, else a crash. */
  #refuse(letter: Letter<P>, error: unknown): void {
    if (!isRefusal(error)) {
      letter.refuse(new LemonError("actor_crashed"));
      this.#owner.crashed(error);
    } else if (!letter.refuse(error)) {
      this.#owner.warn("a refusal that nobody hears", { code: error.code });
    }
  }

  // --- the end ------------------------------------------------------------------------------------

  /** Nothing comes in any more, and nothing that waits is handled; the message in hand may finish. */
  close(): void {
    this.#phase = "closed";
    let unheard = 0;
    for (let letter = this.#mailbox.take(); letter !== null; letter = this.#mailbox.take()) {
      if (!letter.refuse(new LemonError("actor_unavailable"))) unheard += 1;
    }
    if (unheard > 0) this.#owner.warn("told messages were not handled", { count: unheard });
  }

  /** Settles what was taken and will not be answered any more. */
  abandon(code: ErrorCode): void {
    this.#current?.refuse(new LemonError(code));
    if (this.#laters === null) return;
    for (const letter of this.#laters) letter.refuse(new LemonError(code));
    this.#laters.clear();
  }
}
