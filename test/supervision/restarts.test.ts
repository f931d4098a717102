/** Proves what supervisors do about deaths: kinds, strategies, counting, waiting, giving up. */
import { expect } from "chai";
import type {
  ActorContext,
  ActorRef,
  ActorSpec,
  Restart,
  SupervisorRef,
} from "../../supervision/actor.ts";
import { settle } from "../support/fake-clock.ts";
import {
  codeOfRejection,
  codeOfThrow,
  deathsOf,
  gate,
  supervisorSpec,
  type TestSystem,
  testSystem,
} from "../support/supervision.ts";

const soon = { deadlineMs: 60_000 };

type Worker = { ping: (p: null) => string };

describe("a supervisor", () => {
  let system: TestSystem;
  /** What happened to the workers: `a up`, `a down`. */
  let events: string[];
  /** The context of each worker's latest life. */
  let contexts: Map<string, ActorContext<Worker>>;
  /** Workers whose start fails. */
  let broken: Set<string>;

  beforeEach(() => {
    system = testSystem();
    events = [];
    contexts = new Map();
    broken = new Set();
  });

  afterEach(async () => {
    const ended = system.shutdown();
    await system.clock.advance(30_000);
    await ended;
    expect(system.clock.pending, "timers left behind").to.equal(0);
  });

  function worker(id: string, restart: Restart = "permanent"): ActorSpec<Worker> {
    return {
      id,
      kind: "worker",
      restart,
      shutdownMs: 1_000,
      start: (context) => {
        contexts.set(id, context);
        if (broken.has(id)) {
          events.push(`${id} fails`);
          throw new RangeError("a secret");
        }
        events.push(`${id} up`);
        return {
          handlers: { ping: () => id },
          stop: () => void events.push(`${id} down`),
        };
      },
    };
  }

  async function start(
    supervisor: SupervisorRef,
    ...ids: readonly string[]
  ): Promise<ActorRef<Worker>[]> {
    const refs = [];
    for (const id of ids) refs.push(await supervisor.startActor(worker(id)));
    return refs;
  }

  /** The worker's latest life crashes; whatever is due at this instant follows. */
  async function crash(id: string): Promise<void> {
    contexts.get(id)?.crash(new TypeError("a secret"));
    await settle();
  }

  /** What has happened since the last time one asked. */
  function news(): string[] {
    return events.splice(0);
  }

  function stateOf(path: string): string {
    const search = [system.snapshot()];
    for (const node of search) {
      if (node.path === path) return node.state;
      search.push(...node.children);
    }
    return "not there";
  }

  describe("and the restart kinds", () => {
    const cases = [
      ["permanent", "crash", true],
      ["permanent", "normal end", true],
      ["transient", "crash", true],
      ["transient", "normal end", false],
      ["temporary", "crash", false],
      ["temporary", "normal end", false],
    ] as const;
    for (const [restart, how, again] of cases) {
      it(`${again ? "restarts" : "lets go of"} a ${restart} child after a ${how}`, async () => {
        const supervisor = await system.root.startSupervisor(supervisorSpec("s"));
        const ref = await supervisor.startActor(worker("a", restart));
        if (how === "crash") await crash("a");
        else contexts.get("a")?.end();
        await system.clock.advance(100);
        expect(news()).to.deep.equal(again ? ["a up", "a down", "a up"] : ["a up", "a down"]);
        expect(stateOf("/test/s/a")).to.equal(again ? "running" : "not there");
        const answer = await codeOfRejection(ref.ask("ping", null, soon));
        expect(answer).to.equal(again ? "answered" : "actor_unavailable");
      });
    }

    it("never restarts a child whose owner stopped it, whatever its kind", async () => {
      const [a] = await start(system.root, "a");
      await a?.stop();
      await system.clock.advance(10_000);
      expect(news()).to.deep.equal(["a up", "a down"]);
      expect(stateOf("/test/a")).to.equal("not there");
    });
  });

  describe("whose child waits out its back-off", () => {
    it("has its messages refused at once, and answered by the next life at the same address", async () => {
      const [a] = await start(system.root, "a");
      if (a === undefined) throw new Error("not started");
      await crash("a");
      expect(stateOf("/test/a")).to.equal("backing_off");
      expect(await codeOfRejection(a.ask("ping", null, soon))).to.equal("actor_unavailable");
      expect(codeOfThrow(() => a.tell("ping", null))).to.equal("actor_unavailable");
      await system.clock.advance(100);
      expect(await a.ask("ping", null, soon)).to.equal("a");
    });

    it("can be stopped there and then", async () => {
      const [a] = await start(system.root, "a");
      await crash("a");
      await a?.stop();
      expect(system.clock.pending).to.equal(0);
      expect(system.snapshot().children).to.deep.equal([]);
    });

    it("waits longer each time, up to the bound, and from the first again after a long life", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { intensity: { restarts: 100, windowMs: 60_000 } }),
      );
      await start(supervisor, "a");
      news();
      for (const delayMs of [100, 200, 400, 800, 1_000, 1_000]) {
        await crash("a");
        await system.clock.advance(delayMs - 1);
        expect(news(), `before ${delayMs}`).to.deep.equal(["a down"]);
        await system.clock.advance(1);
        expect(news(), `after ${delayMs}`).to.deep.equal(["a up"]);
      }
      await system.clock.advance(9_999);
      await crash("a");
      await system.clock.advance(999);
      expect(news()).to.deep.equal(["a down"]);
      await system.clock.advance(10_001);
      await crash("a");
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["a up", "a down", "a up"]);
    });

    it("does not take the time that an end took for a part of the life", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { backoff: { firstMs: 100, maxMs: 1_000, resetAfterMs: 500 } }),
      );
      await supervisor.startActor<Worker>({
        ...worker("a"),
        start: (context) => {
          contexts.set("a", context);
          events.push("a up");
          return { handlers: { ping: () => "a" }, stop: () => new Promise(() => {}) };
        },
      });
      for (const delayMs of [100, 200, 400, 800]) {
        news();
        // Either way its end takes until the deadline, longer than a life that would put the delay back.
        if (delayMs > 200) contexts.get("a")?.end();
        else await crash("a");
        await system.clock.advance(1_000 + delayMs - 1);
        expect(news(), `before ${delayMs}`).to.deep.equal([]);
        await system.clock.advance(1);
        expect(news(), `after ${delayMs}`).to.deep.equal(["a up"]);
      }
    });

    it("is not hurried by the wall clock", async () => {
      await start(system.root, "a");
      await crash("a");
      system.clock.jumpWallClock(1_000_000);
      await system.clock.advance(99);
      expect(stateOf("/test/a")).to.equal("backing_off");
      system.clock.jumpWallClock(-2_000_000);
      await system.clock.advance(1);
      expect(stateOf("/test/a")).to.equal("running");
    });
  });

  describe("that counts restarts", () => {
    const strict = { intensity: { restarts: 2, windowMs: 10_000 } };

    it("gives up at one more than the window allows, not before", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { ...strict, restart: "temporary" }),
      );
      const deaths = deathsOf(supervisor);
      await start(supervisor, "a", "b");
      for (const _ of [1, 2]) {
        await crash("a");
        await system.clock.advance(1_000);
      }
      expect(deaths).to.deep.equal([]);
      expect(stateOf("/test/s/a")).to.equal("running");
      await crash("a");
      expect(deaths).to.deep.equal([
        { path: "/test/s", reason: "crash", code: "restart_intensity_exceeded" },
      ]);
      expect(stateOf("/test/s")).to.equal("not there");
      expect(await codeOfRejection(supervisor.startActor(worker("c")))).to.equal(
        "actor_unavailable",
      );
    });

    it("counts in time: a restart just outside the window is forgotten, one at its edge is not", async () => {
      for (const [apartMs, end] of [
        [10_000, "not there"],
        [10_001, "backing_off"],
      ] as const) {
        const supervisor = await system.root.startSupervisor(
          supervisorSpec("s", { ...strict, restart: "temporary" }),
        );
        await start(supervisor, "a");
        await crash("a");
        await system.clock.advance(5_000);
        await crash("a");
        await system.clock.advance(apartMs - 5_000);
        await crash("a");
        expect(stateOf("/test/s/a"), `${apartMs} ms apart`).to.equal(end);
        await supervisor.stop();
      }
    });

    it("counts the restarts of all its children together", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { ...strict, restart: "temporary" }),
      );
      await start(supervisor, "a", "b", "c");
      await crash("a");
      await crash("b");
      expect(stateOf("/test/s")).to.equal("running");
      await crash("c");
      expect(stateOf("/test/s")).to.equal("not there");
    });

    it("counts a start that fails like any restart, and waits for the next like for any", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { ...strict, restart: "temporary" }),
      );
      const [a] = await start(supervisor, "a");
      news();
      broken.add("a");
      await crash("a");
      await system.clock.advance(99);
      expect(news()).to.deep.equal(["a down"]);
      await system.clock.advance(1);
      expect(news()).to.deep.equal(["a fails"]);
      expect(system.snapshot().children[0]?.children[0]).to.include({
        state: "backing_off",
        restartsInWindow: 2,
        restartsLeft: 0,
        lastCrash: "RangeError",
      });
      await system.clock.advance(199);
      expect(news()).to.deep.equal([]);
      await system.clock.advance(1);
      expect(news()).to.deep.equal(["a fails"]);
      expect(stateOf("/test/s")).to.equal("not there");
      if (a === undefined) throw new Error("not started");
      expect(await codeOfRejection(a.ask("ping", null, soon))).to.equal("actor_unavailable");
    });

    it("allows none when it is told so", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", {
          restart: "temporary",
          intensity: { restarts: 0, windowMs: 1_000 },
        }),
      );
      await start(supervisor, "a");
      await crash("a");
      expect(stateOf("/test/s")).to.equal("not there");
    });

    it("does not count children that are not restarted", async () => {
      const supervisor = await system.root.startSupervisor(supervisorSpec("s", strict));
      for (const round of [1, 2, 3, 4]) {
        await supervisor.startActor(worker(`t${round}`, "temporary"));
        await crash(`t${round}`);
      }
      expect(system.snapshot().children[0]).to.include({ state: "running", restartsInWindow: 0 });
    });
  });

  describe("that gives up", () => {
    it("stops its children in reverse order and escalates to its own supervisor, which restarts it with them", async () => {
      const outer = await system.root.startSupervisor(supervisorSpec("outer"));
      const inner = await outer.startSupervisor(
        supervisorSpec("inner", { intensity: { restarts: 1, windowMs: 10_000 } }),
      );
      const [a, b] = await start(inner, "a", "b");
      const transient = await inner.startActor(worker("t", "transient"));
      const temporary = await inner.startActor(worker("x", "temporary"));
      const deaths = deathsOf(inner);
      await crash("a");
      await system.clock.advance(100);
      news();
      await crash("a");
      expect(news()).to.deep.equal(["a down", "x down", "t down", "b down"]);
      expect(deaths).to.deep.equal([
        { path: "/test/outer/inner", reason: "crash", code: "restart_intensity_exceeded" },
      ]);
      expect(stateOf("/test/outer/inner")).to.equal("backing_off");
      expect(stateOf("/test/outer/inner/b")).to.equal("backing_off");
      expect(stateOf("/test/outer/inner/x")).to.equal("not there");
      expect(await codeOfRejection(inner.startActor(worker("late")))).to.equal("actor_unavailable");

      await system.clock.advance(100);
      expect(news()).to.deep.equal(["a up", "b up", "t up"]);
      for (const ref of [a, b, transient]) {
        expect(await ref?.ask("ping", null, soon)).to.be.a("string");
      }
      expect(await codeOfRejection(temporary.ask("ping", null, soon))).to.equal(
        "actor_unavailable",
      );
      expect(system.snapshot().children[0]).to.include({ restartsInWindow: 1, restartsLeft: 4 });
      const again = system.snapshot().children[0]?.children[0];
      expect(again).to.include({ restartsInWindow: 0, lastCrash: "restart_intensity_exceeded" });
      await inner.startActor(worker("late"));
    });

    it("at a storm ends one supervisor after the other, up to the root, which ends the system", async () => {
      const outer = await system.root.startSupervisor(
        supervisorSpec("outer", { intensity: { restarts: 1, windowMs: 60_000 } }),
      );
      const inner = await outer.startSupervisor(
        supervisorSpec("inner", { intensity: { restarts: 2, windowMs: 60_000 } }),
      );
      await start(inner, "a");
      await start(system.root, "bystander");
      broken.add("a");
      news();
      await crash("a");
      for (let seconds = 0; seconds < 60; seconds += 1) await system.clock.advance(1_000);
      // Each life of the inner: three failures; each life of the outer: two of the inner; the root: six of the outer.
      const failures = news().filter((event) => event === "a fails").length;
      expect(failures).to.equal(3 * 2 * 6 - 1);
      expect(await system.ended).to.deep.equal({
        path: "/test",
        reason: "crash",
        code: "restart_intensity_exceeded",
      });
      expect(system.snapshot()).to.include({ state: "ended" });
      expect(system.snapshot().children).to.deep.equal([]);
      await system.shutdown();
    });

    it("is restarted with what it has, and a child of it that fails then costs the new life", async () => {
      const inner = await system.root.startSupervisor(
        supervisorSpec("inner", { intensity: { restarts: 0, windowMs: 10_000 } }),
      );
      await start(inner, "a", "b");
      broken.add("b");
      news();
      await crash("a");
      expect(news()).to.deep.equal(["a down", "b down"]);
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["a up", "b fails", "a down"]);
      broken.clear();
      await system.clock.advance(200);
      expect(news()).to.deep.equal(["a up", "b up"]);
    });
  });

  describe("that is restarted itself", () => {
    /** A supervisor that soon gives up, with a child `a` whose start and stop can be held up. */
    async function fragile(parent: SupervisorRef, restarts: number) {
      const inner = await parent.startSupervisor(
        supervisorSpec("inner", { intensity: { restarts, windowMs: 1_000 } }),
      );
      const hold = { start: null as Promise<void> | null, stop: null as Promise<void> | null };
      await inner.startActor<Worker>({
        ...worker("a"),
        start: async (context) => {
          contexts.set("a", context);
          await hold.start;
          events.push("a up");
          return {
            handlers: { ping: () => "a" },
            stop: async () => {
              await hold.stop;
              events.push("a down");
            },
          };
        },
      });
      return { inner, hold };
    }

    it("gives a child that came and failed while it was starting one next life, not two", async () => {
      const { inner, hold } = await fragile(system.root, 1);
      const held = gate();
      await crash("a");
      await system.clock.advance(100);
      hold.start = held.promise;
      await crash("a");
      await system.clock.advance(100);
      expect(stateOf("/test/inner")).to.equal("starting");
      await start(inner, "b");
      await crash("b");
      news();
      held.resolve();
      await settle();
      expect(news()).to.deep.equal(["a up"]);
      expect(stateOf("/test/inner/b")).to.equal("backing_off");
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["b up"]);
    });

    it("starts no more of its children when it is stopped meanwhile", async () => {
      const { inner, hold } = await fragile(system.root, 0);
      await start(inner, "b");
      const held = gate();
      hold.start = held.promise;
      await crash("a");
      await system.clock.advance(100);
      news();
      const stopped = inner.stop();
      held.resolve();
      await stopped;
      await settle();
      expect(news()).to.deep.equal(["a up", "a down"]);
      expect(stateOf("/test/inner")).to.equal("not there");
    });

    it("waits longer each time, and from the first again after a long life, like any child", async () => {
      const outer = await system.root.startSupervisor(
        supervisorSpec("outer", { intensity: { restarts: 100, windowMs: 1_000 } }),
      );
      const { inner } = await fragile(outer, 0);
      let heard = 0;
      inner.watch(() => {
        heard += 1;
      });
      for (const delayMs of [100, 200, 400]) {
        news();
        await crash("a");
        await system.clock.advance(delayMs - 1);
        expect(news(), `before ${delayMs}`).to.deep.equal(["a down"]);
        await system.clock.advance(1);
        expect(news(), `after ${delayMs}`).to.deep.equal(["a up"]);
      }
      await system.clock.advance(10_000);
      await crash("a");
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["a down", "a up"]);
      expect(heard, "a watch is for one life").to.equal(1);
    });

    it("holds up those that depend on it until it has really ended when it does not come up", async () => {
      const outer = await system.root.startSupervisor(
        supervisorSpec("outer", { strategy: "rest_for_one" }),
      );
      await start(outer, "first");
      const { inner, hold } = await fragile(outer, 0);
      await start(inner, "b");
      await start(outer, "last");
      broken.add("b");
      news();
      await crash("first");
      await system.clock.advance(50);
      const held = gate();
      hold.stop = held.promise;
      await system.clock.advance(50);
      // `b` does not come up, so `inner` gives up at once, and `a` takes its time to stop.
      expect(stateOf("/test/outer/inner")).to.equal("stopping");
      expect(news()).to.deep.equal([
        "first down",
        "last down",
        "b down",
        "a down",
        "first up",
        "a up",
        "b fails",
      ]);
      expect(stateOf("/test/outer/last")).to.equal("backing_off");
      held.resolve();
      broken.clear();
      await system.clock.advance(10_000);
      expect(news()).to.deep.equal(["a down", "a up", "b up", "last up"]);
    });
  });

  describe("one_for_one", () => {
    it("restarts the failed child alone", async () => {
      const supervisor = await system.root.startSupervisor(supervisorSpec("s"));
      await start(supervisor, "a", "b", "c");
      news();
      await crash("b");
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["b down", "b up"]);
    });

    it("lets children start at the same time", async () => {
      const supervisor = await system.root.startSupervisor(supervisorSpec("s"));
      const held = gate();
      const slow = supervisor.startActor<Worker>({
        ...worker("slow"),
        start: async () => {
          await held.promise;
          return { handlers: { ping: () => "slow" } };
        },
      });
      await start(supervisor, "fast");
      expect(stateOf("/test/s/slow")).to.equal("starting");
      held.resolve();
      await slow;
    });
  });

  describe("one_for_all", () => {
    it("stops all in reverse order, waits once, and starts all in order", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "one_for_all" }),
      );
      await start(supervisor, "a", "b");
      await supervisor.startActor(worker("x", "temporary"));
      await start(supervisor, "c");
      news();
      await crash("b");
      expect(news()).to.deep.equal(["b down", "c down", "x down", "a down"]);
      expect(stateOf("/test/s/a")).to.equal("backing_off");
      expect(stateOf("/test/s/x")).to.equal("not there");
      await system.clock.advance(99);
      expect(news()).to.deep.equal([]);
      await system.clock.advance(1);
      expect(news()).to.deep.equal(["a up", "b up", "c up"]);
      expect(system.snapshot().children[0]).to.include({ restartsInWindow: 1 });
    });

    it("stops again what it had started when one of them does not come up", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "one_for_all" }),
      );
      await start(supervisor, "a", "b", "c");
      broken.add("b");
      await crash("c");
      news();
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["a up", "b fails", "a down"]);
      broken.clear();
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["a up", "b up", "c up"]);
      expect(system.snapshot().children[0]).to.include({ restartsInWindow: 2 });
    });
  });

  describe("rest_for_one", () => {
    async function group(): Promise<ActorRef<Worker>[]> {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      const refs = await start(supervisor, "a", "b", "c", "d");
      news();
      return refs;
    }

    it("restarts the failed child and those after it, in order, and leaves those before it", async () => {
      await group();
      await crash("b");
      expect(news()).to.deep.equal(["b down", "d down", "c down"]);
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["b up", "c up", "d up"]);
      expect(system.snapshot().children[0]).to.include({ restartsInWindow: 1 });
    });

    it("does not count those that fall with the one they depend on", async () => {
      await group();
      contexts.get("b")?.crash(new Error("a secret"));
      contexts.get("c")?.crash(new Error("a secret"));
      contexts.get("d")?.crash(new Error("a secret"));
      await settle();
      expect(system.snapshot().children[0]).to.include({ restartsInWindow: 1 });
      expect(news()).to.deep.equal(["b down", "d down", "c down"]);
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["b up", "c up", "d up"]);
    });

    it("reaches further back when an earlier child fails meanwhile", async () => {
      await group();
      await crash("c");
      await system.clock.advance(50);
      expect(news()).to.deep.equal(["c down", "d down"]);
      await crash("a");
      expect(news()).to.deep.equal(["a down", "b down"]);
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["a up", "b up", "c up", "d up"]);
      expect(system.snapshot().children[0]).to.include({ restartsInWindow: 2 });
    });

    it("reaches further back when an earlier child fails while a later one takes its time to stop", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await start(supervisor, "a", "b");
      const held = gate();
      await supervisor.startActor<Worker>({
        ...worker("slow"),
        start: () => {
          events.push("slow up");
          return { handlers: { ping: () => "slow" }, stop: () => held.promise };
        },
      });
      await crash("b");
      await system.clock.advance(500);
      await crash("a");
      news();
      held.resolve();
      await system.clock.advance(99);
      expect(news()).to.deep.equal([]);
      await system.clock.advance(1);
      expect(news()).to.deep.equal(["a up", "b up", "slow up"]);
    });

    it("starts nothing when a failure and the end of the supervisor come at once", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await start(supervisor, "a", "b");
      await crash("b");
      news();
      contexts.get("a")?.crash(new TypeError("a secret"));
      await supervisor.stop();
      await settle();
      expect(system.clock.pending).to.equal(0);
      expect(news()).to.deep.equal(["a down"]);
    });

    it("begins again from the child that does not come up, and leaves those before it in peace", async () => {
      await group();
      broken.add("c");
      await crash("b");
      news();
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["b up", "c fails"]);
      broken.clear();
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["c up", "d up"]);
    });

    it("does not wait for a start that hangs when what it depends on fails", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      let hang = false;
      await start(supervisor, "a");
      await supervisor.startActor<Worker>({
        ...worker("slow"),
        start: async ({ signal }) => {
          if (hang) await new Promise((resolve) => signal.addEventListener("abort", resolve));
          events.push("slow up");
          return { handlers: { ping: () => "slow" }, stop: () => void events.push("slow down") };
        },
      });
      hang = true;
      await crash("a");
      await system.clock.advance(100);
      news();
      await crash("a");
      hang = false;
      await system.clock.advance(200);
      expect(news()).to.deep.equal(["a down", "slow up", "slow down", "a up", "slow up"]);
      expect(stateOf("/test/s/slow")).to.equal("running");
    });

    it("leaves out a child that its owner stops during the back-off", async () => {
      const [, , c] = await group();
      await crash("b");
      await c?.stop();
      news();
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["b up", "d up"]);
    });

    it("goes on with the rest when the failed child itself is stopped by its owner", async () => {
      const [, b] = await group();
      await crash("b");
      await b?.stop();
      news();
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["c up", "d up"]);
    });
  });

  describe("whose children start in a given order", () => {
    it("starts them one after the other though they were asked for at once", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      const held = gate();
      const slow = supervisor.startActor<Worker>({
        ...worker("slow"),
        start: async () => {
          await held.promise;
          events.push("slow up");
          return { handlers: { ping: () => "slow" } };
        },
      });
      const rest = start(supervisor, "a");
      await settle();
      expect(news()).to.deep.equal([]);
      held.resolve();
      await Promise.all([slow, rest]);
      expect(news()).to.deep.equal(["slow up", "a up"]);
    });

    it("goes on with the next when one does not come up", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "one_for_all" }),
      );
      broken.add("a");
      const failing = start(supervisor, "a").catch((error: unknown) => error);
      await start(supervisor, "b");
      expect(await failing).to.be.instanceOf(RangeError);
      expect(news()).to.deep.equal(["a fails", "b up"]);
      expect(system.snapshot().children[0]?.children.map(({ path }) => path)).to.deep.equal([
        "/test/s/b",
      ]);
    });

    it("lets a new child wait until a recovery is over", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await start(supervisor, "a");
      await crash("a");
      news();
      const late = start(supervisor, "late");
      await system.clock.advance(99);
      expect(news()).to.deep.equal([]);
      expect(stateOf("/test/s/late")).to.equal("starting");
      await system.clock.advance(1);
      await late;
      expect(news()).to.deep.equal(["a up", "late up"]);
    });

    it("refuses a child that still waits when the supervisor ends", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await start(supervisor, "a");
      await crash("a");
      const late = codeOfRejection(supervisor.startActor(worker("late")));
      await settle();
      await supervisor.stop();
      expect(system.clock.pending).to.equal(0);
      expect(await late).to.equal("actor_unavailable");
      expect(news()).to.deep.equal(["a up", "a down"]);
    });

    it("refuses a child whose first start is cut short by the failure of one before it", async () => {
      const supervisor = await system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await start(supervisor, "a");
      const slow = supervisor.startActor<Worker>({
        ...worker("slow"),
        start: ({ signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason));
          }),
      });
      const refused = codeOfRejection(slow);
      await settle();
      await crash("a");
      expect(await refused).to.equal("actor_unavailable");
      await system.clock.advance(100);
      expect(news()).to.deep.equal(["a up", "a down", "a up"]);
      expect(stateOf("/test/s/slow")).to.equal("not there");
    });
  });

  describe("asked for a child", () => {
    it("with an id that lives there refuses, and takes it once that one is gone", async () => {
      const [a] = await start(system.root, "a");
      expect(await codeOfRejection(system.root.startActor(worker("a")))).to.equal(
        "actor_already_started",
      );
      const twin = system.root.startSupervisor(supervisorSpec("a"));
      expect(await codeOfRejection(twin)).to.equal("actor_already_started");
      await a?.stop();
      await start(system.root, "a");
      expect(news()).to.deep.equal(["a up", "a down", "a up"]);
    });

    it("with an id that is starting, stopping or backing off refuses", async () => {
      const twin = (): Promise<string> => codeOfRejection(system.root.startActor(worker("a")));
      const first = start(system.root, "a");
      expect(await twin()).to.equal("actor_already_started");
      const [a] = await first;
      await crash("a");
      expect(await twin()).to.equal("actor_already_started");
      await a?.stop();
      const held = gate();
      const slow = await system.root.startActor<Worker>({
        ...worker("a"),
        start: () => ({ handlers: { ping: () => "a" }, stop: () => held.promise }),
      });
      const stopped = slow.stop();
      expect(stateOf("/test/a")).to.equal("stopping");
      expect(await twin()).to.equal("actor_already_started");
      held.resolve();
      await stopped;
      expect(await twin()).to.equal("answered");
    });

    it("takes an id of 256 units without slash or control character, and nothing else", async () => {
      for (const id of ["x".repeat(256), "probe:first-run", "ä b", "a.b~c"]) {
        await start(system.root, id);
      }
      for (const id of ["", "x".repeat(257), "a/b", "a\nb", "a\0b"]) {
        const refused = codeOfRejection(system.root.startActor(worker(id)));
        expect(await refused, JSON.stringify(id)).to.equal("invalid_request");
      }
    });
  });
});
