/** Owns what an actor's `start` is given. Made of getters, so that an actor which uses little pays for little. */
import type { Logger } from "pino";
import type { Clock } from "../host/clock.ts";
import type { ActorContext, ActorRef, Protocol } from "./actor.ts";
import type { Life, LifeSetting } from "./life.ts";

export class LifeContext<P extends Protocol> implements ActorContext<P> {
  readonly #life: Life<P>;
  readonly #setting: LifeSetting<P>;
  #log: Logger | null = null;

  constructor(life: Life<P>, setting: LifeSetting<P>) {
    this.#life = life;
    this.#setting = setting;
  }

  get self(): ActorRef<P> {
    return this.#setting.self;
  }

  get clock(): Clock {
    return this.#setting.kernel.clock;
  }

  get log(): Logger {
    this.#log ??= this.#setting.kernel.log.child({ actor: this.self.path });
    return this.#log;
  }

  get signal(): AbortSignal {
    return this.#life.signal;
  }

  // Functions rather than methods: an actor may take them apart (`({ crash, end }) => …`).

  get watch(): ActorContext<P>["watch"] {
    return (other, onDeath) => this.#life.watchAnother(other, onDeath);
  }

  get crash(): (error: unknown) => void {
    return (error) => this.#life.crash(error);
  }

  get end(): () => void {
    return () => this.#life.endNormally();
  }

  get beganAnew(): () => void {
    return () => this.#life.beganAnew();
  }
}
