/** Owns the workers that supervisors are tested with: they crash when told to, and tell of each life. */
import { expect } from "chai";
import type {
  ActorContext,
  ActorRef,
  ActorSpec,
  Restart,
  SupervisorRef,
} from "../../supervision/actor.ts";
import { settle } from "./fake-clock.ts";
import { type TestSystem, testSystem } from "./supervision.ts";

export type Worker = { ping: (p: null) => string };

/** A system and its workers. On disposal no timer may be left. */
export class CrashingWorkers implements AsyncDisposable {
  readonly system: TestSystem = testSystem();
  /** The context of each worker's latest life. */
  readonly contexts = new Map<string, ActorContext<Worker>>();
  /** Workers whose start fails. */
  readonly broken = new Set<string>();
  /** What happened to the workers: `a up`, `a down`. */
  readonly events: string[] = [];

  worker(id: string, restart: Restart = "permanent"): ActorSpec<Worker> {
    return {
      id,
      kind: "worker",
      restart,
      shutdownMs: 1_000,
      start: (context) => {
        this.contexts.set(id, context);
        if (this.broken.has(id)) {
          this.events.push(`${id} fails`);
          throw new RangeError("a secret");
        }
        this.events.push(`${id} up`);
        return {
          handlers: { ping: () => id },
          stop: () => void this.events.push(`${id} down`),
        };
      },
    };
  }

  async start(supervisor: SupervisorRef, ...ids: readonly string[]): Promise<ActorRef<Worker>[]> {
    const refs = [];
    for (const id of ids) refs.push(await supervisor.startActor(this.worker(id)));
    return refs;
  }

  /** The worker's latest life crashes; whatever is due at this instant follows. */
  async crash(id: string): Promise<void> {
    this.contexts.get(id)?.crash(new TypeError("a secret"));
    await settle();
  }

  /** What has happened since the last time one asked. */
  news(): string[] {
    return this.events.splice(0);
  }

  stateOf(path: string): string {
    const search = [this.system.snapshot()];
    for (const node of search) {
      if (node.path === path) return node.state;
      search.push(...node.children);
    }
    return "not there";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.system.shutdown();
    await this.system.clock.advance(30_000);
    await ended;
    expect(this.system.clock.pending, "timers left behind").to.equal(0);
  }
}
