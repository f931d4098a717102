/**
 * Owns which actor serves which process id: one for each id in work, started with the first call and
 * stopped after the last, when no run of it is under way either.
 */
import type { ActorRef } from "../../supervision/actor.ts";
import type { RunProtocol } from "./run-actor.ts";

interface Entry {
  readonly actor: Promise<ActorRef<RunProtocol>>;
  /** Calls in flight, and a run under way. */
  users: number;
}

/** Starts an actor for an id; it tells `onRun` of each run it begins. */
export type StartActor = (
  id: string,
  onRun: (finished: Promise<unknown>) => void,
) => Promise<ActorRef<RunProtocol>>;

export class Table {
  readonly #start: StartActor;
  readonly #entries = new Map<string, Entry>();

  constructor(start: StartActor) {
    this.#start = start;
  }

  /** Whether an id is in work. */
  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Calls of one id reach its actor in the order in which they were made here. */
  async use<T>(id: string, call: (actor: ActorRef<RunProtocol>) => Promise<T>): Promise<T> {
    const entry = this.#entries.get(id) ?? this.#open(id);
    entry.users += 1;
    try {
      return await call(await entry.actor);
    } finally {
      this.#leave(id, entry);
    }
  }

  #open(id: string): Entry {
    const entry: Entry = {
      users: 0,
      actor: this.#start(id, (finished) => {
        entry.users += 1;
        void finished.then(() => this.#leave(id, entry));
      }),
    };
    this.#entries.set(id, entry);
    entry.actor.then(
      // One that crashed serves nobody any more, whoever still waits for it.
      (actor) => actor.watch(() => this.#forget(id, entry)),
      () => this.#forget(id, entry),
    );
    return entry;
  }

  #leave(id: string, entry: Entry): void {
    entry.users -= 1;
    if (entry.users > 0) return;
    this.#forget(id, entry);
    entry.actor.then(
      (actor) => void actor.stop(),
      () => {},
    );
  }

  #forget(id: string, entry: Entry): void {
    if (this.#entries.get(id) === entry) this.#entries.delete(id);
  }
}
