/** Owns the actors that one life is tested with: they do what they are told, and tell how they are stopped. */
import { expect } from "chai";
import type { ActorContext, ActorSpec, Death } from "../../supervision/actor.ts";
import { type TestSystem, testSystem } from "./supervision.ts";

export type Doing = { do: (work: () => unknown) => unknown };

/** A system and its doers. On disposal no timer may be left. */
export class Doers implements AsyncDisposable {
  readonly system: TestSystem = testSystem();
  /** What its behaviours' `stop` were told, in order. */
  readonly stops: Death["reason"][] = [];
  #context: ActorContext<Doing> | null = null;

  /** Of the latest life. */
  get context(): ActorContext<Doing> {
    if (this.#context === null) throw new Error("no life has begun");
    return this.#context;
  }

  set context(given: ActorContext<Doing>) {
    this.#context = given;
  }

  /** An actor that does what it is told, and may take a second to end. */
  doer(changes: Partial<ActorSpec<Doing>> = {}): ActorSpec<Doing> {
    return {
      id: "doer",
      kind: "doer",
      restart: "temporary",
      shutdownMs: 1_000,
      start: (given) => {
        this.context = given;
        return {
          handlers: { do: (work) => work() },
          stop: (reason) => void this.stops.push(reason),
        };
      },
      ...changes,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.system.shutdown();
    await this.system.clock.advance(30_000);
    await ended;
    expect(this.system.clock.pending, "timers left behind").to.equal(0);
  }
}
