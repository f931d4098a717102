/**
 * Owns the messages that wait for one life of an actor, and what becomes of each. Invariants:
 * 1. First in, first out; at most `capacity` messages wait, and one too many is refused, never dropped.
 *    News of a death is always let in: it is bounded by what the actor itself watches.
 * 2. An ask is settled exactly once: by its answer, a refusal or its deadline.
 * 3. An ask whose deadline passed while it waited leaves the mailbox: it takes up no room and is never handled.
 */
import type { Clock } from "../host/clock.ts";
import { LemonError } from "../protocol/errors.ts";
import type { Death, Handlers, MessageName, PayloadOf, Protocol } from "./actor.ts";

export class Mailbox<P extends Protocol> {
  readonly #capacity: number;
  #first: Letter<P> | null = null;
  #last: Letter<P> | null = null;
  #depth = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get depth(): number {
    return this.#depth;
  }

  get full(): boolean {
    return !(this.#depth < this.#capacity);
  }

  /** Monotonic time at which the message that waits longest came in; null when none waits. */
  get oldestMs(): number | null {
    return this.#first?.queuedAtMs ?? null;
  }

  push(letter: Letter<P>): void {
    letter.box = this;
    letter.ahead = this.#last;
    if (this.#last === null) this.#first = letter;
    else this.#last.behind = letter;
    this.#last = letter;
    this.#depth += 1;
  }

  take(): Letter<P> | null {
    const letter = this.#first;
    if (letter !== null) this.remove(letter);
    return letter;
  }

  remove(letter: Letter<P>): void {
    const { ahead, behind } = letter;
    if (ahead === null) this.#first = behind;
    else ahead.behind = behind;
    if (behind === null) this.#last = ahead;
    else behind.ahead = ahead;
    letter.box = null;
    letter.ahead = null;
    letter.behind = null;
    this.#depth -= 1;
  }
}

/** One message. It is its own place in the mailbox's list, so that one that expired leaves in a single step. */
export abstract class Letter<P extends Protocol> {
  /** The mailbox it waits in; null before and after. */
  box: Mailbox<P> | null = null;
  ahead: Letter<P> | null = null;
  behind: Letter<P> | null = null;
  readonly queuedAtMs: number;

  constructor(queuedAtMs: number) {
    this.queuedAtMs = queuedAtMs;
  }

  /** Calls the actor's handler; whatever that returns or throws comes out. */
  abstract handle(handlers: Handlers<P>): unknown;
  abstract answer(reply: unknown): void;
  /** False when nobody waits for an answer, so that nobody hears of the refusal. */
  abstract refuse(error: LemonError): boolean;
  /** True when its deadline has passed; it has then been settled and must not be handled. */
  expire(_nowMs: number): boolean {
    return false;
  }
}

export class Tell<P extends Protocol, K extends MessageName<P>> extends Letter<P> {
  readonly #type: K;
  readonly #payload: PayloadOf<P, K>;

  constructor(queuedAtMs: number, type: K, payload: PayloadOf<P, K>) {
    super(queuedAtMs);
    this.#type = type;
    this.#payload = payload;
  }

  override handle(handlers: Handlers<P>): unknown {
    return callHandler(handlers, this.#type, this.#payload);
  }

  override answer(): void {}

  override refuse(): boolean {
    return false;
  }
}

/** Who waits for the answer; its promise is typed where the ask is made. */
export interface Asker {
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: LemonError) => void;
}

export class Ask<P extends Protocol, K extends MessageName<P>> extends Letter<P> {
  readonly #type: K;
  readonly #payload: PayloadOf<P, K>;
  readonly #deadlineAtMs: number;
  readonly #cancelDeadline: () => void;
  #asker: Asker | null;

  constructor(
    clock: Clock,
    queuedAtMs: number,
    type: K,
    payload: PayloadOf<P, K>,
    deadlineMs: number,
    asker: Asker,
  ) {
    super(queuedAtMs);
    this.#type = type;
    this.#payload = payload;
    this.#deadlineAtMs = queuedAtMs + deadlineMs;
    this.#asker = asker;
    this.#cancelDeadline = clock.after(deadlineMs, () => this.#deadlinePassed());
  }

  override handle(handlers: Handlers<P>): unknown {
    return callHandler(handlers, this.#type, this.#payload);
  }

  override answer(reply: unknown): void {
    this.#settle()?.resolve(reply);
  }

  override refuse(error: LemonError): boolean {
    this.#settle()?.reject(crossing(error));
    return true;
  }

  /** A busy event loop may take a message before the timer that was due gets its turn. */
  override expire(nowMs: number): boolean {
    if (nowMs < this.#deadlineAtMs) return false;
    this.refuse(new LemonError("message_expired"));
    return true;
  }

  #deadlinePassed(): void {
    if (this.box === null) {
      this.refuse(new LemonError("deadline_exceeded"));
    } else {
      this.box.remove(this);
      this.refuse(new LemonError("message_expired"));
    }
  }

  #settle(): Asker | null {
    const asker = this.#asker;
    this.#asker = null;
    this.#cancelDeadline();
    return asker;
  }
}

/** Another actor's end, as a message of this one. */
export class DeathNotice<P extends Protocol> extends Letter<P> {
  readonly #death: Death;
  readonly #onDeath: (death: Death) => unknown;

  constructor(queuedAtMs: number, death: Death, onDeath: (death: Death) => unknown) {
    super(queuedAtMs);
    this.#death = death;
    this.#onDeath = onDeath;
  }

  override handle(): unknown {
    return this.#onDeath(this.#death);
  }

  override answer(): void {}

  override refuse(): boolean {
    return true;
  }
}

function callHandler<P extends Protocol, K extends MessageName<P>>(
  handlers: Handlers<P>,
  type: K,
  payload: PayloadOf<P, K>,
): unknown {
  // Reached only by a sender that went around the types: its fault, not the actor's.
  if (typeof handlers[type] !== "function" || type in Object.prototype) {
    throw new LemonError("method_not_found");
  }
  return handlers[type](payload);
}

/** An error as it may cross from one actor to another: its cause is for the log of where it was thrown. */
function crossing(error: LemonError): LemonError {
  if (error.cause === undefined) return error;
  const { code, message, details, wire, retrySafe, mutationMayHaveApplied } = error;
  return new LemonError(code, { message, details, wire, retrySafe, mutationMayHaveApplied });
}
