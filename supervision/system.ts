/**
 * Owns the door of the actor kernel: one tree of actors, its root supervisor, its end. Invariants:
 * 1. `shutdown` always ends, within its deadline: what does not stop by then is abandoned.
 * 2. `ended` resolves exactly once, with the death of the root, when no actor of the tree lives any more.
 */
import type { Logger } from "pino";
import type { Clock } from "../host/clock.ts";
import type { ActorSystem, Death, SupervisorSpec, TreeNode } from "./actor.ts";
import type { Child, Kernel, LifeEnd, Parent } from "./child.ts";
import { type Nursery, openComedy } from "./comedy-host.ts";
import { Supervisor } from "./supervisor.ts";

export interface ActorSystemOptions {
  /** The first part of every path. */
  readonly name: string;
  readonly log: Logger;
  readonly clock: Clock;
  /** Spreads back-offs: numbers from 0 up to, not including, 1. Default `Math.random`. */
  readonly random?: () => number;
  /** How the root treats its children; when it gives up the system has ended. */
  readonly root?: Partial<Pick<SupervisorSpec, "strategy" | "intensity" | "backoff" | "stopOrder">>;
  /** How long a whole shutdown may take, in ms. Default 30,000. */
  readonly shutdownMs?: number;
}

const DEFAULT_SHUTDOWN_MS = 30_000;

const DEFAULT_ROOT = {
  strategy: "one_for_one",
  // A service that falls more often than this is not mended by starting it again.
  intensity: { restarts: 5, windowMs: 60_000 },
  backoff: { firstMs: 100, maxMs: 10_000, resetAfterMs: 30_000 },
} as const;

/** Starts an empty tree; it lives until `shutdown`, or until the root gives up. */
export function createActorSystem(options: ActorSystemOptions): ActorSystem {
  return new System(options);
}

class System implements ActorSystem, Parent {
  readonly root: Supervisor;
  readonly ended: Promise<Death>;
  /** The root's path begins the tree. */
  readonly path = "";
  readonly kernel: Kernel;
  readonly nursery: Nursery;
  readonly #shutdownMs: number;
  #tellEnded: (death: Death) => void = () => {};
  #cancelDeadline: () => void = () => {};
  /** Monotonic time at which what still lives is abandoned. */
  #deadlineAtMs = Number.POSITIVE_INFINITY;

  constructor(options: ActorSystemOptions) {
    const { name, log, clock, random = Math.random, root, shutdownMs } = options;
    this.kernel = { clock, random, log };
    this.nursery = openComedy(log);
    this.#shutdownMs = shutdownMs ?? DEFAULT_SHUTDOWN_MS;
    this.ended = new Promise((resolve) => {
      this.#tellEnded = resolve;
    });
    const spec = { id: name, restart: "temporary", ...DEFAULT_ROOT, ...root } as const;
    this.root = new Supervisor(spec, this, 0);
    void this.root.begin();
  }

  snapshot(): TreeNode {
    return this.root.describe();
  }

  async shutdown({ withinMs = this.#shutdownMs } = {}): Promise<void> {
    if (this.root.alive) {
      this.#abandonAfter(withinMs);
      await this.root.halt();
    }
  }

  #abandonAfter(delayMs: number): void {
    const deadlineAtMs = this.kernel.clock.monotonicMs() + delayMs;
    if (deadlineAtMs >= this.#deadlineAtMs) return;
    this.#deadlineAtMs = deadlineAtMs;
    this.#cancelDeadline();
    this.#cancelDeadline = this.kernel.clock.after(delayMs, () => this.root.kill());
  }

  // --- as the parent of the root ------------------------------------------------------------------

  retire(): Promise<void> {
    return this.shutdown();
  }

  childEnded(root: Child, { death }: LifeEnd): void {
    this.#cancelDeadline();
    root.discard();
    this.nursery.close();
    this.#tellEnded(death);
  }
}
