/**
 * Owns the events of a client as its user reads them: an async iterator over whatever connections there
 * are, one after the other.
 *
 * 1. Events come in order, each once. Where some are missing the iterator says so: a `Missed` stands in
 *    their place, never nothing.
 * 2. What waits for a slow reader is bounded.
 * 3. It ends when the client does: quietly after `close`, else with the `ConnectError` that ended it.
 */
import { type AnyEventName, EVENT_SPECS, type PayloadOf } from "../protocol/events.ts";
import type { ConnectError } from "./errors.ts";
import type { IncomingEvent } from "./incoming.ts";

/** Events that were not told: while there was no connection, or because the reader was too far behind. */
export interface Missed {
  readonly missed: "reconnected" | "behind";
}

export type ClientEvent = IncomingEvent | Missed;

/** An event whose payload is what this version declares (`protocol/events.ts`). */
export interface KnownEvent<E extends AnyEventName> extends IncomingEvent {
  readonly event: E;
  readonly payload: PayloadOf<E>;
}

/** Whether it is this event, with a payload as this version knows it. A newer peer may add members. */
export function isEvent<E extends AnyEventName>(
  event: ClientEvent,
  name: E,
): event is KnownEvent<E> {
  if (!("event" in event) || event.event !== name) return false;
  return EVENT_SPECS[name].payload.safeParse(event.payload).success;
}

export interface EventsOptions {
  /** Ends the iterator. */
  readonly signal?: AbortSignal;
  /** Events that may wait to be read. Default 1,000. */
  readonly limit?: number;
}

const DEFAULT_LIMIT = 1_000;

type Turn = IteratorResult<ClientEvent, undefined>;

const DONE: Turn = { done: true, value: undefined };

export class EventStream implements AsyncIterableIterator<ClientEvent, undefined> {
  readonly #limit: number;
  readonly #signal: AbortSignal | undefined;
  readonly #among: Set<EventStream>;
  readonly #waiting: ClientEvent[] = [];
  readonly #readers: PromiseWithResolvers<Turn>[] = [];
  #ended = false;
  #failure: ConnectError | null = null;

  /** It is among the streams that are told, until it ends. */
  constructor(options: EventsOptions, among: Set<EventStream>) {
    this.#limit = options.limit ?? DEFAULT_LIMIT;
    this.#signal = options.signal;
    this.#among = among.add(this);
    if (this.#signal?.aborted === true) this.end(null);
    this.#signal?.addEventListener("abort", this.#aborted, { once: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  push(event: IncomingEvent): void {
    if (this.#ended) return;
    if (this.#waiting.length < this.#limit) this.#give(event);
    else this.#miss("behind");
  }

  /** There was no connection for a while. */
  reconnected(): void {
    if (!this.#ended) this.#miss("reconnected");
  }

  /** No more come; what waits can still be read. */
  end(failure: ConnectError | null): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = failure;
    this.#signal?.removeEventListener("abort", this.#aborted);
    this.#among.delete(this);
    for (const reader of this.#readers.splice(0)) this.#settle(reader);
  }

  next(): Promise<Turn> {
    const reader = Promise.withResolvers<Turn>();
    const value = this.#waiting.shift();
    if (value !== undefined) reader.resolve({ done: false, value });
    else if (this.#ended) this.#settle(reader);
    else this.#readers.push(reader);
    return reader.promise;
  }

  return(): Promise<Turn> {
    this.#waiting.length = 0;
    this.end(null);
    this.#failure = null;
    return Promise.resolve(DONE);
  }

  #give(event: ClientEvent): void {
    const reader = this.#readers.shift();
    if (reader === undefined) this.#waiting.push(event);
    else reader.resolve({ done: false, value: event });
  }

  /** Once for all that are missing at this place. */
  #miss(missed: Missed["missed"]): void {
    const last = this.#waiting.at(-1);
    if (last === undefined || !("missed" in last)) this.#give({ missed });
  }

  /** The failure is told once; whoever asks again after it learns that it is over. */
  #settle(reader: PromiseWithResolvers<Turn>): void {
    const failure = this.#failure;
    this.#failure = null;
    if (failure === null) reader.resolve(DONE);
    else reader.reject(failure);
  }

  readonly #aborted = (): void => {
    this.end(null);
  };
}
