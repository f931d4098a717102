/**
 * Owns an actor's place under its supervisor, and is the address of whoever lives there. Invariants:
 * 1. At most one life at a time; the next begins only after the end of the one before was told.
 * 2. Without a life every ask and tell is refused at once.
 */
import { LemonError } from "../protocol/errors.ts";
import type {
  ActorRef,
  ActorSpec,
  AskOptions,
  Death,
  MessageName,
  PayloadOf,
  Protocol,
  ReplyOf,
  Restart,
  TreeNode,
} from "./actor.ts";
import type { Child, Kernel, Parent, RestartCount, Started } from "./child.ts";
import type { Nursery } from "./comedy-host.ts";
import { Life, type LifeSetting } from "./life.ts";
import { tellSoon } from "./watchers.ts";

export class ActorCell<P extends Protocol> implements Child, ActorRef<P>, LifeSetting<P> {
  readonly path: string;
  readonly order: number;
  readonly spec: ActorSpec<P>;
  readonly #parent: Parent;
  #life: Life<P> | null = null;
  #born = false;
  #discarded = false;
  #endOrdered = false;
  #lastDeath: Death | null = null;
  #lastCrash: string | null = null;

  constructor(spec: ActorSpec<P>, parent: Parent, order: number) {
    this.path = `${parent.path}/${spec.id}`;
    this.order = order;
    this.spec = spec;
    this.#parent = parent;
  }

  // --- as an address ------------------------------------------------------------------------------

  ask<K extends MessageName<P>>(
    type: K,
    payload: PayloadOf<P, K>,
    options: AskOptions,
  ): Promise<ReplyOf<P, K>> {
    const life = this.#life;
    if (life === null) return Promise.reject(new LemonError("actor_unavailable"));
    return new Promise((resolve, reject) => {
      // `Handlers` holds the handler to the reply's type; a mailbox of many message types forgets it.
      const asker = { resolve: resolve as (reply: unknown) => void, reject };
      life.ask(type, payload, options.deadlineMs, asker);
    });
  }

  tell<K extends MessageName<P>>(type: K, payload: PayloadOf<P, K>): void {
    if (this.#life === null) throw new LemonError("actor_unavailable");
    this.#life.tell(type, payload);
  }

  stop(): Promise<void> {
    return this.#parent.retire(this);
  }

  watch(onDeath: (death: Death) => void): () => void {
    if (this.#life !== null) return this.#life.watch(onDeath);
    const death = this.#lastDeath ?? { path: this.path, reason: "shutdown", code: null };
    return tellSoon(onDeath, death, this.kernel.log);
  }

  // --- as a child ---------------------------------------------------------------------------------

  get id(): string {
    return this.spec.id;
  }

  get restart(): Restart {
    return this.spec.restart;
  }

  get alive(): boolean {
    return this.#life !== null;
  }

  get born(): boolean {
    return this.#born;
  }

  get discarded(): boolean {
    return this.#discarded;
  }

  begin(): Promise<Started> {
    this.#endOrdered = false;
    const life = new Life<P>(this);
    this.#life = life;
    return life.begin();
  }

  halt(): Promise<void> {
    if (this.#life === null) return Promise.resolve();
    this.#endOrdered = true;
    return this.#life.stop();
  }

  kill(): void {
    this.#endOrdered = true;
    this.#life?.kill();
  }

  discard(): void {
    this.#discarded = true;
  }

  describe(restarts: RestartCount): TreeNode {
    const life = this.#life;
    return {
      path: this.path,
      kind: this.spec.kind,
      state: life?.state ?? this.#stateWithoutLife(),
      restart: this.restart,
      mailboxDepth: life?.mailboxDepth ?? 0,
      oldestMessageAgeMs: life?.oldestMessageAgeMs ?? null,
      startedAtMs: life?.startedAtMs ?? null,
      restartsInWindow: restarts.inWindow,
      restartsLeft: restarts.left,
      lastCrash: this.#lastCrash,
      children: [],
    };
  }

  #stateWithoutLife(): TreeNode["state"] {
    if (this.#discarded) return "ended";
    return this.#born ? "backing_off" : "starting";
  }

  // --- as the setting of its lives ----------------------------------------------------------------

  get self(): ActorRef<P> {
    return this;
  }

  get kernel(): Kernel {
    return this.#parent.kernel;
  }

  get nursery(): Nursery {
    return this.#parent.nursery;
  }

  lifeUp(): void {
    this.#born = true;
  }

  lifeEnded(death: Death): void {
    const uptimeMs = this.#life?.uptimeMs ?? 0;
    this.#life = null;
    this.#lastDeath = death;
    if (death.reason === "crash" || death.reason === "init_failed") this.#lastCrash = death.code;
    this.#parent.childEnded(this, { death, uptimeMs, ordered: this.#endOrdered });
  }
}
