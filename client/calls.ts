/**
 * Owns the calls of one connection that wait for their answer.
 *
 * 1. Every call settles exactly once: by its answer, its deadline, its caller's signal, or the end of
 *    the connection, whichever comes first. A later answer is ignored.
 * 2. At most `capacity` wait; one more is refused before anything is sent.
 */
import type { LemonError } from "../protocol/errors.ts";
import { answeredError, CallError, type FailedCall } from "./errors.ts";
import type { Incoming } from "./incoming.ts";
import type { Timers } from "./timers.ts";

export interface Waiting {
  readonly call: FailedCall;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | null;
  /** Gets the validated result. */
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: LemonError) => void;
}

interface Entry extends Waiting {
  readonly release: () => void;
}

export class CallTable {
  readonly #timers: Timers;
  readonly #capacity: number;
  readonly #waiting = new Map<string, Entry>();
  #nextId = 1;

  constructor(timers: Timers, capacity: number) {
    this.#timers = timers;
    this.#capacity = capacity;
  }

  get full(): boolean {
    return this.#waiting.size >= this.#capacity;
  }

  /** Ids are never used twice on one connection. */
  nextId(): string {
    return `c${this.#nextId++}`;
  }

  add(id: string, waiting: Waiting): void {
    const cancelTimer = this.#timers.after(waiting.timeoutMs, () =>
      this.#fail(id, (call) => new CallError("timeout", call)),
    );
    const { signal } = waiting;
    const aborted = (): void =>
      this.#fail(id, (call) => new CallError("aborted", call, { cause: signal?.reason }));
    signal?.addEventListener("abort", aborted, { once: true });
    this.#waiting.set(id, {
      ...waiting,
      release: () => {
        cancelTimer();
        signal?.removeEventListener("abort", aborted);
      },
    });
  }

  /** Settles the call that a frame answers. A frame that answers none of ours is ignored. */
  answer(frame: Extract<Incoming, { id: string }>): void {
    const entry = this.#take(frame.id);
    if (entry === undefined) return;
    if (frame.kind === "failure") entry.reject(answeredError(frame.failure, entry.call));
    else if (frame.kind === "garbled") entry.reject(unreadableAnswer(entry.call));
    else this.#resolve(entry, frame.payload);
  }

  /** Settles every call: the connection is gone, and what was sent is uncertain. */
  lose(): void {
    for (const id of [...this.#waiting.keys()])
      this.#fail(id, (call) => new CallError("link_lost", call));
  }

  #resolve(entry: Entry, payload: unknown): void {
    let result: unknown;
    try {
      result = entry.call.spec.result.parse(payload);
    } catch {
      // Its words could quote the payload; and a hostile depth ends here as a RangeError.
      entry.reject(unreadableAnswer(entry.call));
      return;
    }
    if (isAbout(entry.call, result)) entry.resolve(result);
    else entry.reject(unreadableAnswer(entry.call));
  }

  #fail(id: string, error: (call: FailedCall) => CallError): void {
    const entry = this.#take(id);
    entry?.reject(error(entry.call));
  }

  #take(id: string): Entry | undefined {
    const entry = this.#waiting.get(id);
    if (entry === undefined) return undefined;
    this.#waiting.delete(id);
    entry.release();
    return entry;
  }
}

function unreadableAnswer(call: FailedCall): CallError {
  return new CallError("invalid_response", call, { answered: true });
}

/** Whether a result is about what was asked. */
function isAbout({ spec, params }: FailedCall, result: unknown): boolean {
  return spec.echoes.every((field) => Reflect.get(Object(result), field) === params[field]);
}
