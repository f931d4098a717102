/** Owns what the kernel's tests have in common: a system on a bent clock, and an error's code. */
import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import type {
  ActorRef,
  ActorSystem,
  Death,
  Handlers,
  Protocol,
  SupervisorSpec,
} from "../../supervision/actor.ts";
import { type ActorSystemOptions, createActorSystem } from "../../supervision/system.ts";
import { FakeClock } from "./fake-clock.ts";
import { type LogLines, logLines } from "./log-lines.ts";

export interface TestSystem extends ActorSystem, LogLines, AsyncDisposable {
  readonly clock: FakeClock;
}

/** A system named `test`. Back-offs take exactly their ceiling unless `random` says otherwise. */
export function testSystem(options: Partial<ActorSystemOptions> = {}): TestSystem {
  const clock = new FakeClock();
  const lines = logLines();
  const random = (): number => 1;
  const system = createActorSystem({ name: "test", log: lines.log, clock, random, ...options });
  return {
    ...lines,
    clock,
    root: system.root,
    ended: system.ended,
    snapshot: () => system.snapshot(),
    shutdown: (within) => system.shutdown(within),
    /** However long its actors take to end; no timer of theirs may be left. */
    async [Symbol.asyncDispose]() {
      const ended = system.shutdown();
      await clock.advance(30_000);
      await ended;
      expect(clock.pending, "timers left behind").to.equal(0);
    },
  };
}

/** An actor of its own for a test of messages: it is never started again. */
export function startSubject<P extends Protocol>(
  system: ActorSystem,
  handlers: Handlers<P>,
  mailboxCapacity?: number,
): Promise<ActorRef<P>> {
  return system.root.startActor<P>({
    id: "subject",
    kind: "subject",
    restart: "temporary",
    ...(mailboxCapacity === undefined ? {} : { mailboxCapacity }),
    start: () => ({ handlers }),
  });
}

/** A supervisor that restarts after 100 ms, then 200 ms, up to 1 s, and allows five restarts in 60 s. */
export function supervisorSpec(id: string, changes: Partial<SupervisorSpec> = {}): SupervisorSpec {
  return {
    id,
    strategy: "one_for_one",
    restart: "permanent",
    intensity: { restarts: 5, windowMs: 60_000 },
    backoff: { firstMs: 100, maxMs: 1_000, resetAfterMs: 10_000 },
    ...changes,
  };
}

/** The code the promise is rejected with; `answered` when it is not. */
export async function codeOfRejection(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "answered",
    (error: unknown) => (error instanceof LemonError ? error.code : `not of the table: ${error}`),
  );
}

/** The code the call throws; `returned` when it does not. */
export function codeOfThrow(call: () => unknown): string {
  try {
    call();
    return "returned";
  } catch (error) {
    return error instanceof LemonError ? error.code : `not of the table: ${error}`;
  }
}

/** A promise and its ends, for a handler that waits until the test lets it go on. */
export const gate = (): PromiseWithResolvers<void> => Promise.withResolvers<void>();

/** Everything heard from one watch. */
export function deathsOf(watched: {
  watch: (onDeath: (death: Death) => void) => () => void;
}): Death[] {
  const deaths: Death[] = [];
  watched.watch((death) => deaths.push(death));
  return deaths;
}
