/**
 * Owns one life of an actor, from its `start` to the telling of its death. Invariants:
 * 1. A behaviour's `stop` is called once, however the life ends: after the handler that runs in an ordered
 *    end or a crash, and without being waited for once the deadline has passed.
 * 2. An end takes at most `shutdownMs`. What still runs then is abandoned: it can no longer answer, and a
 *    behaviour that a late `start` returns is told to stop.
 * 3. The end is told once: first to the place the life was in, then to the watchers.
 */
import type { Clock } from "../host/clock.ts";
import { LemonError } from "../protocol/errors.ts";
import type {
  ActorRef,
  ActorSpec,
  Behaviour,
  Death,
  Handlers,
  MessageName,
  PayloadOf,
  Protocol,
} from "./actor.ts";
import type { Kernel, Started } from "./child.ts";
import type { Nursery, Place } from "./comedy-host.ts";
import { LifeContext } from "./life-context.ts";
import { codeOf, logFrames } from "./log.ts";
import type { Asker } from "./mailbox.ts";
import { type LoopOwner, MessageLoop } from "./message-loop.ts";
import { isRefusal, isThenable } from "./outcome.ts";
import { Watchers } from "./watchers.ts";

const DEFAULT_SHUTDOWN_MS = 5_000;

/** Where a life takes place and who hears of it. */
export interface LifeSetting<P extends Protocol> {
  readonly self: ActorRef<P>;
  readonly spec: ActorSpec<P>;
  readonly kernel: Kernel;
  readonly nursery: Nursery;
  /** A life was up here before. */
  readonly born: boolean;
  /** The life is up; no message has been handled yet. */
  lifeUp(): void;
  lifeEnded(death: Death): void;
}

export class Life<P extends Protocol> implements LoopOwner {
  readonly #setting: LifeSetting<P>;
  readonly #loop: MessageLoop<P>;
  readonly #watchers = new Watchers();
  /** The ways to stop watching the others that this life watches. */
  #watches: Set<() => void> | null = null;
  #state: "starting" | "running" | "stopping" | "ended" = "starting";
  #place: Place | null = null;
  #behaviour: Behaviour<P> | null = null;
  #handlers: Handlers<P> | null = null;
  #startedAtMs: number | null = null;
  /** Monotonic times; the second is null while it is up. */
  #upSinceMs: number | null = null;
  #upUntilMs: number | null = null;

  /** True until `start` has settled, even when the life ended without waiting for it. */
  #startRuns = true;
  #startError: unknown = null;
  #tellStarted: ((started: Started) => void) | null = null;
  #endOnceUp = false;

  #reason: Death["reason"] = "normal";
  #code: string | null = null;
  #stopCalled = false;
  #stopRuns = false;
  #sendingLastAnswers = false;
  #lastAnswersSent = false;
  #cancelDeadline: (() => void) | null = null;
  #abort: AbortController | null = null;
  #tellEnded: (() => void)[] | null = null;

  constructor(setting: LifeSetting<P>) {
    this.#setting = setting;
    this.#loop = new MessageLoop<P>(this, setting.spec.mailboxCapacity);
  }

  get state(): "starting" | "running" | "stopping" | "ended" {
    return this.#state;
  }

  get clock(): Clock {
    return this.#setting.kernel.clock;
  }

  /** Unix ms at which it was up, or what it stands for began anew. */
  get startedAtMs(): number | null {
    return this.#startedAtMs;
  }

  beganAnew(): void {
    if (this.#startedAtMs !== null) this.#startedAtMs = this.clock.nowMs();
  }

  /** How long it has been up, the time that its end took not counted; 0 when it never was. */
  get uptimeMs(): number {
    if (this.#upSinceMs === null) return 0;
    return (this.#upUntilMs ?? this.clock.monotonicMs()) - this.#upSinceMs;
  }

  get mailboxDepth(): number {
    return this.#loop.depth;
  }

  get oldestMessageAgeMs(): number | null {
    return this.#loop.oldestAgeMs;
  }

  /** Aborted when nothing of this life may go on: see `ActorContext`. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    const startIsToGiveUp = this.#state === "stopping" && this.#upSinceMs === null;
    if (this.#isOver() || this.#crashed() || startIsToGiveUp) this.#abort.abort();
    return this.#abort.signal;
  }

  // --- the beginning ------------------------------------------------------------------------------

  /** Resolves when the life is up, or has ended without ever being up. Never rejects. Called once. */
  begin(): Promise<Started> {
    const started = new Promise<Started>((resolve) => {
      this.#tellStarted = resolve;
    });
    void this.#start();
    return started;
  }

  async #start(): Promise<void> {
    const { nursery, spec } = this.#setting;
    try {
      this.#place = await nursery.place(spec.id, () => this.#loop.turn());
      if (this.#state === "starting") {
        this.#behaviour = await spec.start(new LifeContext(this, this.#setting));
        // Read here, where what it may throw is a failed start.
        this.#handlers = this.#behaviour.handlers;
      }
    } catch (error) {
      // A start that was told to give up may say so by throwing: that is no crash.
      if (this.#state === "starting") this.#crashWith(error);
      else this.#logThrown("debug", "actor gave up its start", error);
    }
    this.#startRuns = false;
    if (this.#isOver()) {
      // It ended without waiting any longer for this.
      this.#place?.release();
      this.#stopUnwaited();
    } else if (this.#state === "starting" && this.#place !== null && this.#handlers !== null) {
      this.#rise(this.#place, this.#handlers);
    } else {
      this.#advance();
    }
  }

  #rise(place: Place, handlers: Handlers<P>): void {
    this.#state = "running";
    this.#upSinceMs = this.clock.monotonicMs();
    this.#startedAtMs = this.clock.nowMs();
    this.#setting.lifeUp();
    this.#tellStarted?.({ up: true });
    this.#tellStarted = null;
    this.#log("debug", "actor started");
    this.#loop.open(place, handlers);
    if (this.#endOnceUp) this.endNormally();
  }

  // --- messages and deaths ------------------------------------------------------------------------

  ask<K extends MessageName<P>>(
    type: K,
    payload: PayloadOf<P, K>,
    deadlineMs: number,
    asker: Asker,
  ): void {
    this.#loop.ask(type, payload, deadlineMs, asker);
  }

  tell<K extends MessageName<P>>(type: K, payload: PayloadOf<P, K>): void {
    this.#loop.tell(type, payload);
  }

  watch(onDeath: (death: Death) => void): () => void {
    return this.#watchers.add(onDeath);
  }

  /** Has the other's death brought to this life's mailbox, for as long as this life goes on. */
  watchAnother(
    other: { watch: ActorRef<P>["watch"] },
    onDeath: (death: Death) => unknown,
  ): () => void {
    if (this.#state === "stopping" || this.#isOver()) return () => {};
    this.#watches ??= new Set();
    const watches = this.#watches;
    let watching = true;
    const unwatch = other.watch((death) => {
      watches.delete(stopWatching);
      this.#loop.notify(death, () => (watching ? onDeath(death) : undefined));
    });
    const stopWatching = (): void => {
      watching = false;
      watches.delete(stopWatching);
      unwatch();
    };
    watches.add(stopWatching);
    return stopWatching;
  }

  // --- the end ------------------------------------------------------------------------------------

  /** Ends the life in order; resolves when it has ended. Never rejects. */
  stop(): Promise<void> {
    if (this.#isOver()) return Promise.resolve();
    this.#tellEnded ??= [];
    const waiting = this.#tellEnded;
    const ended = new Promise<void>((resolve) => waiting.push(resolve));
    if (this.#state !== "stopping") {
      this.#close("shutdown", null);
      // A start has nothing to finish properly, so it is asked to give up at once.
      if (this.#upSinceMs === null) this.#abort?.abort();
      this.#advance();
    }
    return ended;
  }

  /** Ends the life as one that has done its work, after the message in hand. */
  endNormally(): void {
    if (this.#state === "starting") this.#endOnceUp = true;
    if (this.#state !== "running") return;
    this.#close("normal", null);
    this.#advance();
  }

  /** A crash during an ordered end becomes the reason of that end; one after the end is only logged. */
  crash(error: unknown): void {
    this.#crashWith(error);
    this.#advance();
  }

  /** Ends the life now; what still runs in it is abandoned. */
  kill(): void {
    if (this.#isOver()) return;
    if (!this.#crashed()) this.#close("killed", null);
    this.#log("warn", "actor abandoned");
    this.#stopUnwaited();
    this.#finish();
  }

  #crashWith(error: unknown): void {
    // Whoever asked for a first start is given its refusal, and knows better what that means.
    const isFirstStart = this.#state === "starting" && !this.#setting.born;
    this.#logThrown(
      isFirstStart && isRefusal(error) ? "debug" : "warn",
      this.#isOver() ? "actor threw after its end" : "actor crashed",
      error,
    );
    if (this.#isOver() || this.#crashed()) return;
    if (this.#state === "starting") this.#startError = error;
    this.#close(this.#upSinceMs === null ? "init_failed" : "crash", codeOf(error));
    this.#loop.abandon("actor_crashed");
    this.#abort?.abort();
  }

  #isOver(): boolean {
    return this.#state === "ended";
  }

  #crashed(): boolean {
    return this.#reason === "crash" || this.#reason === "init_failed";
  }

  /** From here on the life can only end. */
  #close(reason: Death["reason"], code: string | null): void {
    this.#state = "stopping";
    this.#upUntilMs ??= this.clock.monotonicMs();
    this.#reason = reason;
    this.#code = code;
    this.#loop.close();
  }

  /** Goes on with the end as far as it can for now; whatever it waits for calls it again. */
  #advance(): void {
    if (this.#state !== "stopping") return;
    if (!this.#startRuns && !this.#loop.busy && !this.#stopCalled) this.#callStop();
    if (this.#startRuns || this.#loop.busy || this.#stopRuns) {
      this.#cancelDeadline ??= this.clock.after(
        this.#setting.spec.shutdownMs ?? DEFAULT_SHUTDOWN_MS,
        () => this.kill(),
      );
    } else if (this.#loop.owing && !this.#lastAnswersSent) {
      this.#sendLastAnswers();
    } else {
      this.#finish();
    }
  }

  #callStop(): void {
    this.#stopCalled = true;
    this.#stopRuns = true;
    try {
      const stopped: unknown = this.#behaviour?.stop?.(this.#reason);
      if (isThenable(stopped)) {
        Promise.resolve(stopped)
          .then(undefined, (error: unknown) => this.#crashWith(error))
          .then(() => {
            this.#stopRuns = false;
            this.#advance();
          });
        return;
      }
    } catch (error) {
      this.#crashWith(error);
    }
    this.#stopRuns = false;
  }

  /** What `stop` settled is answered in microtasks still to come, before the next turn of the event loop. */
  #sendLastAnswers(): void {
    if (this.#sendingLastAnswers) return;
    this.#sendingLastAnswers = true;
    setImmediate(() => {
      this.#lastAnswersSent = true;
      this.#advance();
    });
  }

  /** Lets the behaviour release what it can at once; nobody waits for the rest. */
  #stopUnwaited(): void {
    if (this.#stopCalled || this.#behaviour === null) return;
    this.#stopCalled = true;
    try {
      const stopped: unknown = this.#behaviour.stop?.("killed");
      Promise.resolve(stopped).catch((error: unknown) => this.crash(error));
    } catch (error) {
      this.#crashWith(error);
    }
  }

  #finish(): void {
    if (this.#isOver()) return;
    this.#state = "ended";
    this.#cancelDeadline?.();
    this.#loop.abandon(this.#crashed() ? "actor_crashed" : "actor_ended");
    for (const stopWatching of this.#watches ?? []) stopWatching();
    this.#place?.release();
    this.#abort?.abort();
    const { self, kernel } = this.#setting;
    const death: Death = { path: self.path, reason: this.#reason, code: this.#code };
    this.#log("debug", "actor ended", { reason: death.reason, code: death.code });
    this.#setting.lifeEnded(death);
    this.#watchers.tell(death, kernel.log);
    if (this.#tellStarted !== null) {
      const error = this.#startError ?? new LemonError("actor_unavailable");
      this.#tellStarted({ up: false, error });
    }
    for (const tellEnded of this.#tellEnded ?? []) tellEnded();
  }

  // --- for its message loop -----------------------------------------------------------------------

  crashed(error: unknown): void {
    this.#crashWith(error);
  }

  messageDone(): void {
    this.#advance();
  }

  warn(line: string, fields: object): void {
    this.#log("warn", line, fields);
  }

  #logThrown(level: "debug" | "warn", line: string, error: unknown): void {
    this.#log(level, line, { code: codeOf(error) });
    logFrames(this.#setting.kernel.log, { actor: this.#setting.self.path }, error);
  }

  #log(level: "debug" | "warn", line: string, fields: object = {}): void {
    const { kernel, self, spec } = this.#setting;
    kernel.log[level]({ actor: self.path, kind: spec.kind, ...fields }, line);
  }
}
