/**
 * Owns a supervisor: its children, its count of restarts, its own lives. Invariants:
 * 1. Children are in the order in which they were added; they stop in the reverse of it, one at a time
 *    (`stopOrder: "together"`: all at once).
 * 2. One restart more than the intensity allows ends this life of the supervisor as a crash, which its own
 *    supervisor hears of like that of any child.
 * 3. A supervisor that is restarted has its permanent and transient children again, in their order and under
 *    their old addresses; the temporary ones are gone.
 */
import type { Clock } from "../host/clock.ts";
import { LemonError } from "../protocol/errors.ts";
import type {
  ActorRef,
  ActorSpec,
  Death,
  Protocol,
  Restart,
  SupervisorRef,
  SupervisorSpec,
  TreeNode,
} from "./actor.ts";
import { ActorCell } from "./actor-cell.ts";
import { BackoffDelay } from "./backoff.ts";
import type { Child, Kernel, LifeEnd, Parent, Started } from "./child.ts";
import type { Nursery } from "./comedy-host.ts";
import { GroupRestart } from "./group-restart.ts";
import { RestartWindow } from "./intensity.ts";
import { OneForOne } from "./one-for-one.ts";
import type { Family, RestartPlan } from "./restart-plan.ts";
import { tellSoon, Watchers } from "./watchers.ts";

/** What becomes part of a path: no slash, no control character, not too long to read. */
const CHILD_ID = /^[^/\p{Cc}]{1,256}$/u;

export class Supervisor implements SupervisorRef, Child, Parent, Family {
  readonly path: string;
  readonly order: number;
  readonly #spec: SupervisorSpec;
  readonly #parent: Parent;
  readonly #children = new Map<string, Child>();
  readonly #window: RestartWindow<Child>;
  readonly #delays = new WeakMap<Child, BackoffDelay>();
  #nextOrder = 0;
  #state: "down" | "starting" | "running" | "stopping" = "down";
  #born = false;
  #discarded = false;
  readonly #watchers = new Watchers();
  #lastDeath: Death | null = null;
  #lastCrash: string | null = null;

  // --- of the present life ------------------------------------------------------------------------
  #nursery: Nursery | null = null;
  #plan: RestartPlan;
  #startedAtMs: number | null = null;
  #upSinceMs: number | null = null;
  #uptimeMs = 0;
  #ending: Promise<void> | null = null;
  #endOrdered = false;
  /** It was told to abandon what does not stop. */
  #hurried = false;

  constructor(spec: SupervisorSpec, parent: Parent, order: number) {
    this.path = `${parent.path}/${spec.id}`;
    this.order = order;
    this.#spec = spec;
    this.#parent = parent;
    this.#window = new RestartWindow(spec.intensity);
    this.#plan = this.#newPlan();
  }

  // --- as its owner sees it -----------------------------------------------------------------------

  async startActor<P extends Protocol>(spec: ActorSpec<P>): Promise<ActorRef<P>> {
    const cell = new ActorCell(spec, this, this.#takeOrder());
    await this.#add(cell);
    return cell;
  }

  async startSupervisor(spec: SupervisorSpec): Promise<SupervisorRef> {
    const supervisor = new Supervisor(spec, this, this.#takeOrder());
    await this.#add(supervisor);
    return supervisor;
  }

  stop(): Promise<void> {
    return this.#parent.retire(this);
  }

  watch(onDeath: (death: Death) => void): () => void {
    if (this.alive) return this.#watchers.add(onDeath);
    const death = this.#lastDeath ?? { path: this.path, reason: "shutdown", code: null };
    return tellSoon(onDeath, death, this.kernel.log);
  }

  async #add(child: Child): Promise<void> {
    if (!this.#active()) throw new LemonError("actor_unavailable");
    if (!CHILD_ID.test(child.id)) throw new LemonError("invalid_request");
    if (this.#children.has(child.id)) throw new LemonError("actor_already_started");
    this.#children.set(child.id, child);
    const started = await this.#plan.inTurn(() => this.#firstStart(child));
    if (started.up) return;
    this.#remove(child);
    throw started.error;
  }

  async #firstStart(child: Child): Promise<Started> {
    // While it waited for its turn the supervisor may have ended, or its owner may have stopped it.
    if (!child.discarded && this.#active() && this.#children.get(child.id) === child) {
      return child.begin();
    }
    return { up: false, error: new LemonError("actor_unavailable") };
  }

  #takeOrder(): number {
    this.#nextOrder += 1;
    return this.#nextOrder;
  }

  // --- as the parent of its children --------------------------------------------------------------

  get kernel(): Kernel {
    return this.#parent.kernel;
  }

  get nursery(): Nursery {
    this.#nursery ??= this.#parent.nursery.nursery(this.id);
    return this.#nursery;
  }

  childEnded(child: Child, { death, uptimeMs, ordered }: LifeEnd): void {
    if (!child.born || child.discarded) {
      this.#remove(child);
    } else if (ordered) {
      // It went down with its group or with this supervisor, and comes up with them again.
      if (child.restart === "temporary") this.#remove(child);
    } else if (!callsForRestart(child.restart, death)) {
      this.#remove(child);
    } else if (this.#active()) {
      this.#plan.childFailed(child, uptimeMs);
    }
  }

  retire(child: Child): Promise<void> {
    child.discard();
    if (child.alive) return child.halt();
    this.#remove(child);
    return Promise.resolve();
  }

  #remove(child: Child): void {
    child.discard();
    this.#plan.forget(child);
    if (this.#children.get(child.id) === child) this.#children.delete(child.id);
  }

  // --- as the family of its restart plan ----------------------------------------------------------

  get clock(): Clock {
    return this.kernel.clock;
  }

  children(): Iterable<Child> {
    return this.#children.values();
  }

  spend(child: Child, uptimeMs: number): number | null {
    const { log, random } = this.kernel;
    if (!this.#window.spend(child, this.clock.monotonicMs())) {
      log.error({ actor: this.path, child: child.path }, "supervisor gives up: too many restarts");
      void this.#end("crash", "restart_intensity_exceeded");
      return null;
    }
    const delay = this.#delays.get(child) ?? new BackoffDelay(this.#spec.backoff, random);
    this.#delays.set(child, delay);
    const delayMs = delay.next(uptimeMs);
    log.warn({ actor: child.path, delayMs: Math.round(delayMs) }, "actor will be restarted");
    return delayMs;
  }

  // --- as a child ---------------------------------------------------------------------------------

  get id(): string {
    return this.#spec.id;
  }

  get restart(): Restart {
    return this.#spec.restart;
  }

  get alive(): boolean {
    return this.#state !== "down";
  }

  get born(): boolean {
    return this.#born;
  }

  get discarded(): boolean {
    return this.#discarded;
  }

  async begin(): Promise<Started> {
    this.#state = "starting";
    this.#endOrdered = false;
    this.#hurried = false;
    this.#window.clear();
    const plan = this.#newPlan();
    this.#plan = plan;
    await plan.startAll();
    // It may have ended meanwhile, and another life of it may be starting already.
    if (this.#plan !== plan || this.#state !== "starting") {
      if (this.#plan === plan) await this.#ending;
      return { up: false, error: new LemonError("actor_unavailable") };
    }
    this.#state = "running";
    this.#born = true;
    this.#startedAtMs = this.clock.nowMs();
    this.#upSinceMs = this.clock.monotonicMs();
    this.kernel.log.debug({ actor: this.path }, "supervisor started");
    return { up: true };
  }

  halt(): Promise<void> {
    if (!this.alive) return Promise.resolve();
    this.#endOrdered = true;
    return this.#end("shutdown", null);
  }

  kill(): void {
    if (!this.alive) return;
    this.#hurried = true;
    void this.halt();
    for (const child of this.#reversed()) child.kill();
  }

  discard(): void {
    this.#discarded = true;
    // Those of a life that is still ending are discarded with it, when its end is told.
    if (this.alive) return;
    for (const child of this.#children.values()) child.discard();
    this.#children.clear();
  }

  describe(): TreeNode {
    const nowMs = this.clock.monotonicMs();
    const left = this.#window.left(nowMs);
    return {
      path: this.path,
      kind: "supervisor",
      state: this.#treeState(),
      restart: this.restart,
      mailboxDepth: 0,
      oldestMessageAgeMs: null,
      startedAtMs: this.#startedAtMs,
      restartsInWindow: this.#window.spent(nowMs),
      restartsLeft: left,
      lastCrash: this.#lastCrash,
      children: Array.from(this.#children.values(), (child) =>
        child.describe({
          inWindow: this.#window.spent(nowMs, child),
          left: child.restart === "temporary" ? null : left,
        }),
      ),
    };
  }

  #treeState(): TreeNode["state"] {
    if (this.#state !== "down") return this.#state;
    return this.#discarded ? "ended" : "backing_off";
  }

  #active(): boolean {
    return this.#state === "starting" || this.#state === "running";
  }

  #newPlan(): RestartPlan {
    const { strategy } = this.#spec;
    return strategy === "one_for_one" ? new OneForOne(this) : new GroupRestart(this, strategy);
  }

  #reversed(): Child[] {
    return [...this.#children.values()].reverse();
  }

  #end(reason: Death["reason"], code: string | null): Promise<void> {
    if (this.#ending === null) {
      this.#uptimeMs = this.#upSinceMs === null ? 0 : this.clock.monotonicMs() - this.#upSinceMs;
      this.#state = "stopping";
      this.#plan.cancel();
      this.#ending = this.#stopChildren().then(() => this.#finish(reason, code));
    }
    return this.#ending;
  }

  async #stopChildren(): Promise<void> {
    if (this.#spec.stopOrder === "together") {
      await Promise.all(this.#reversed().map((child) => child.halt()));
    } else {
      for (const child of this.#reversed()) await child.halt();
    }
  }

  #finish(reason: Death["reason"], code: string | null): void {
    const { log } = this.kernel;
    const abandoned = this.#hurried && reason === "shutdown";
    const death: Death = { path: this.path, reason: abandoned ? "killed" : reason, code };
    this.#state = "down";
    this.#ending = null;
    this.#startedAtMs = null;
    this.#upSinceMs = null;
    this.#nursery?.close();
    this.#nursery = null;
    this.#lastDeath = death;
    if (reason === "crash") this.#lastCrash = code;
    log.debug({ actor: this.path, reason: death.reason, code }, "supervisor ended");
    const end = { death, uptimeMs: this.#uptimeMs, ordered: this.#endOrdered };
    this.#parent.childEnded(this, end);
    this.#watchers.tell(death, log);
  }
}

function callsForRestart(restart: Restart, { reason }: Death): boolean {
  if (restart === "transient") return reason === "crash" || reason === "init_failed";
  return restart === "permanent";
}
