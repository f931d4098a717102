/**
 * Proves what must hold for any tree, whatever happens to it in whatever order: fast-check makes up trees
 * and histories; the watched actors keep the record.
 */
import { expect } from "chai";
import fc from "fast-check";
import { LemonError } from "../../protocol/errors.ts";
import {
  type ActorContext,
  type ActorRef,
  type Behaviour,
  later,
  type Restart,
  type Strategy,
  type SupervisorRef,
  type TreeNode,
} from "../../supervision/actor.ts";
import { settle } from "../support/fake-clock.ts";
import { supervisorSpec, type TestSystem, testSystem } from "../support/supervision.ts";

const HOW_TO_ANSWER = ["reply", "await", "refuse", "throw", "later", "hang", "end"] as const;
type HowToAnswer = (typeof HOW_TO_ANSWER)[number];

const HOW_TO_START = ["at once", "slowly", "not at all", "never"] as const;
type HowToStart = (typeof HOW_TO_START)[number];

const HOW_TO_STOP = ["at once", "slowly", "with an error", "never"] as const;
type HowToStop = (typeof HOW_TO_STOP)[number];

type Acting = { act: (message: { how: HowToAnswer; number: number }) => unknown };

/** One child, over all its lives. */
class Actor {
  readonly ref: Promise<ActorRef<Acting> | null>;
  context: ActorContext<Acting> | null = null;
  start: HowToStart = "at once";
  stop: HowToStop = "at once";
  /** Lives that came up and have not been told to stop. */
  #live = 0;
  readonly #world: World;

  constructor(world: World, supervisor: SupervisorRef, id: string, restart: Restart) {
    this.#world = world;
    this.ref = supervisor
      .startActor<Acting>({
        id,
        kind: "actor",
        restart,
        shutdownMs: 50,
        mailboxCapacity: 3,
        start: (context) => this.#begin(context),
      })
      .catch(() => null);
  }

  async #begin(context: ActorContext<Acting>): Promise<Behaviour<Acting>> {
    const world = this.#world;
    world.check(this.#live === 0, "two lives at once");
    this.context = context;
    if (this.start === "slowly") await world.wait(20);
    if (this.start === "never") await new Promise(() => {});
    if (this.start === "not at all") {
      world.happened("failed start");
      throw new RangeError("not at all");
    }
    world.lives += 1;
    this.#live += 1;
    let stopped = false;
    let handling = false;
    let lastNumber = -1;
    return {
      handlers: {
        act: ({ how, number }) => {
          world.check(!stopped, "a message after the end");
          world.check(!handling, "two messages at once");
          world.check(number > lastNumber, "a message out of order");
          lastNumber = number;
          handling = how === "await" || how === "hang";
          return this.#answer(how, () => {
            handling = false;
          });
        },
      },
      stop: (reason) => {
        world.check(!stopped, "stopped twice");
        world.stops += 1;
        world.happened(`end: ${reason}`);
        stopped = true;
        this.#live -= 1;
        return this.#release();
      },
    };
  }

  #answer(how: HowToAnswer, done: () => void): unknown {
    this.#world.happened(how);
    if (how === "throw") throw new TypeError("throw");
    if (how === "refuse") throw new LemonError("no_space");
    if (how === "later") return later(this.#world.wait(15));
    if (how === "end") this.context?.end();
    if (how === "await") return this.#world.wait(10).then(done);
    return how === "hang" ? new Promise(() => {}) : "reply";
  }

  async #release(): Promise<void> {
    if (this.stop === "slowly") await this.#world.wait(20);
    if (this.stop === "never") await new Promise(() => {});
    if (this.stop === "with an error") throw new RangeError("with an error");
  }
}

class World {
  readonly system: TestSystem = testSystem({ root: { intensity: { restarts: 3, windowMs: 500 } } });
  readonly supervisors: SupervisorRef[] = [this.system.root];
  readonly strategies = new Map<string, Strategy>();
  readonly actors: Actor[] = [];
  readonly starting: Promise<unknown>[] = [];
  /** What went wrong inside actors, whose exceptions are the kernel's to catch. */
  readonly wrong: string[] = [];
  readonly #happened: Map<string, number>;
  asked = 0;
  settled = 0;
  lives = 0;
  stops = 0;
  /** How often each watcher heard. */
  readonly heard: number[] = [];

  constructor(happened: Map<string, number>) {
    this.#happened = happened;
  }

  /** Counts over all histories, so that it can be seen what they have reached. */
  happened(what: string): void {
    this.#happened.set(what, (this.#happened.get(what) ?? 0) + 1);
  }

  check(holds: boolean, what: string): void {
    if (!holds) this.wrong.push(what);
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.system.clock.after(ms, resolve);
    });
  }

  watch(watched: { watch: SupervisorRef["watch"] }): void {
    const watcher = this.heard.push(0) - 1;
    watched.watch(() => {
      this.heard[watcher] = (this.heard[watcher] ?? 0) + 1;
    });
  }
}

type Command = (world: World) => unknown;

/** A command that a counterexample can name. */
function named<T extends readonly unknown[]>(
  name: string,
  given: fc.Arbitrary<T>,
  run: (world: World, ...given: T) => unknown,
): fc.Arbitrary<Command> {
  return given.map((values) =>
    Object.assign((world: World) => run(world, ...values), {
      [fc.toStringMethod]: () => `${name}(${values.map((value) => JSON.stringify(value))})`,
    }),
  );
}

function pick<T>(list: readonly T[], index: number): T | undefined {
  return list[index % list.length];
}

const index = fc.nat(20);
const restart = fc.constantFrom<Restart>("permanent", "transient", "temporary");

const startActor = named(
  "startActor",
  fc.tuple(index, restart, fc.nat(9)),
  (world, i, kind, id) => {
    const supervisor = pick(world.supervisors, i);
    if (supervisor === undefined) return;
    const actor = new Actor(world, supervisor, `actor-${id}`, kind);
    world.actors.push(actor);
    world.starting.push(actor.ref);
  },
);

const startSupervisor = named(
  "startSupervisor",
  fc.tuple(
    index,
    fc.nat(5),
    fc.record({
      restart,
      strategy: fc.constantFrom<Strategy>("one_for_one", "one_for_all", "rest_for_one"),
      stopOrder: fc.constantFrom<"reverse" | "together">("reverse", "together"),
    }),
    fc.nat(3),
  ),
  (world, i, id, choice, restarts) => {
    const started = pick(world.supervisors, i)
      ?.startSupervisor(
        supervisorSpec(`group-${id}`, {
          ...choice,
          intensity: { restarts, windowMs: 300 },
          backoff: { firstMs: 10, maxMs: 80, resetAfterMs: 200 },
        }),
      )
      .then((ref) => {
        world.supervisors.push(ref);
        world.strategies.set(ref.path, choice.strategy);
      })
      .catch(() => {});
    world.starting.push(Promise.resolve(started));
  },
);

const ask = named(
  "ask",
  fc.tuple(index, fc.constantFrom(...HOW_TO_ANSWER), fc.integer({ min: -1, max: 100 })),
  (world, i, how, deadlineMs) => {
    const ref = pick(world.actors, i)?.context?.self;
    if (ref === undefined) return;
    const number = world.asked;
    world.asked += 1;
    const settled = (): void => {
      world.settled += 1;
    };
    void ref.ask("act", { how, number }, { deadlineMs }).then(settled, (error: unknown) => {
      world.check(error instanceof LemonError, "an error that is not of the table");
      world.happened(error instanceof LemonError ? error.code : "unknown");
      settled();
    });
  },
);

const advance = named("advance", fc.tuple(fc.nat(120)), (world, ms) =>
  world.system.clock.advance(ms),
);

const crash = named("crash", fc.tuple(index), (world, i) =>
  pick(world.actors, i)?.context?.crash(new TypeError("crash")),
);

const end = named("end", fc.tuple(index), (world, i) => pick(world.actors, i)?.context?.end());

const stopActor = named("stopActor", fc.tuple(index), (world, i) => {
  void pick(world.actors, i)?.context?.self.stop();
});

const stopSupervisor = named("stopSupervisor", fc.tuple(index), (world, i) => {
  void pick(world.supervisors.slice(1), i)?.stop();
});

const behave = named(
  "behave",
  fc.tuple(index, fc.constantFrom(...HOW_TO_START), fc.constantFrom(...HOW_TO_STOP)),
  (world, i, start, stop) => {
    const actor = pick(world.actors, i);
    if (actor !== undefined) Object.assign(actor, { start, stop });
  },
);

const watch = named("watch", fc.tuple(index, fc.boolean()), (world, i, actor) => {
  const watched = actor ? pick(world.actors, i)?.context?.self : pick(world.supervisors, i);
  if (watched !== undefined) world.watch(watched);
});

const command = fc.oneof(
  { weight: 4, arbitrary: startActor },
  { weight: 2, arbitrary: startSupervisor },
  { weight: 6, arbitrary: ask },
  { weight: 5, arbitrary: advance },
  { weight: 3, arbitrary: crash },
  { weight: 1, arbitrary: end },
  { weight: 1, arbitrary: stopActor },
  { weight: 1, arbitrary: stopSupervisor },
  { weight: 4, arbitrary: behave },
  { weight: 2, arbitrary: watch },
);
const histories = fc.array(command, { minLength: 10, maxLength: 80, size: "max" });

/** What the tree must look like whenever nothing is on its way. */
function checkTree(node: TreeNode, strategies: ReadonlyMap<string, Strategy>): void {
  const paths = node.children.map(({ path }) => path);
  expect(new Set(paths).size).to.equal(paths.length);
  expect(node.restartsInWindow).to.be.at.least(0);
  if (node.restartsLeft !== null) expect(node.restartsLeft).to.be.at.least(0);
  expect(node.mailboxDepth).to.be.within(0, 3);
  expect(node.oldestMessageAgeMs === null).to.equal(node.mailboxDepth === 0);
  if (node.state === "running") expect(node.startedAtMs).to.be.a("number");
  else if (node.state !== "stopping") expect(node.startedAtMs).to.equal(null);
  if (node.state === "backing_off") {
    for (const child of node.children) expect(child.state).to.equal("backing_off");
  }
  checkGroup(node, strategies.get(node.path));
  for (const child of node.children) {
    expect(child.path.startsWith(`${node.path}/`)).to.equal(true);
    checkTree(child, strategies);
  }
}

/** Where children depend on those before them, none is up that comes after one that is down. */
function checkGroup(node: TreeNode, strategy: Strategy | undefined): void {
  const states = node.children.map(({ state }) => state);
  const firstDown = states.indexOf("backing_off");
  // While one takes its time to stop, those before it have not been asked to yet.
  if (strategy === undefined || firstDown < 0 || states.includes("stopping")) return;
  if (strategy === "one_for_one" || node.state !== "running") return;
  expect(states.slice(firstDown), node.path).not.to.include("running");
  const partlyUp = strategy === "one_for_all" && states.includes("running");
  if (partlyUp) expect(states, node.path).to.include("starting");
}

describe("any tree, whatever happens to it,", () => {
  it("never has two lives of a child, answers every ask, tells every death once, and always ends", async () => {
    const happened = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(histories, async (history) => {
        const world = new World(happened);
        const { clock } = world.system;
        for (const command of history) {
          await command(world);
          await settle();
          checkTree(world.system.snapshot(), world.strategies);
        }
        const ended = world.system.shutdown({ withinMs: 5_000 });
        await clock.advance(5_000);
        await ended;
        expect(world.system.snapshot()).to.include({ state: "ended" });
        expect(world.system.snapshot().children).to.deep.equal([]);
        // Deadlines, and what abandoned actors still wait for.
        await clock.advance(200);
        await Promise.all(world.starting);
        expect(clock.pending, "timers left behind").to.equal(0);
        expect(world.wrong).to.deep.equal([]);
        expect(world.settled, "answered asks").to.equal(world.asked);
        expect(world.stops, "lives whose stop was run").to.equal(world.lives);
        expect(world.heard, "how often watchers heard").to.deep.equal(world.heard.map(() => 1));
      }),
      { numRuns: 200 },
    );
    // The histories have been everywhere; one that never gets there would prove nothing.
    expect([...happened.keys()]).to.include.members([
      ...["end: normal", "end: shutdown", "end: crash", "end: killed", "failed start"],
      ...["reply", "await", "refuse", "throw", "later", "hang", "end"],
      ...["actor_crashed", "actor_ended", "actor_unavailable"],
      ...["message_expired", "deadline_exceeded", "no_space"],
    ]);
  });
});
