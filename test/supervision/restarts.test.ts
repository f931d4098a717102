/** Proves what supervisors do about deaths: kinds, counting, waiting, giving up. */
import { expect } from "chai";
import { CrashingWorkers, type Worker } from "../support/crashing-workers.ts";
import { codeOfRejection, codeOfThrow, deathsOf, supervisorSpec } from "../support/supervision.ts";

const soon = { deadlineMs: 60_000 };

describe("a supervisor", () => {
  let room: CrashingWorkers;

  beforeEach(() => {
    room = new CrashingWorkers();
  });
  afterEach(() => room[Symbol.asyncDispose]());

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
        const supervisor = await room.system.root.startSupervisor(supervisorSpec("s"));
        const ref = await supervisor.startActor(room.worker("a", restart));
        if (how === "crash") await room.crash("a");
        else room.contexts.get("a")?.end();
        await room.system.clock.advance(100);
        expect(room.news()).to.deep.equal(again ? ["a up", "a down", "a up"] : ["a up", "a down"]);
        expect(room.stateOf("/test/s/a")).to.equal(again ? "running" : "not there");
        const answer = await codeOfRejection(ref.ask("ping", null, soon));
        expect(answer).to.equal(again ? "answered" : "actor_unavailable");
      });
    }

    it("never restarts a child whose owner stopped it, whatever its kind", async () => {
      const [a] = await room.start(room.system.root, "a");
      await a?.stop();
      await room.system.clock.advance(10_000);
      expect(room.news()).to.deep.equal(["a up", "a down"]);
      expect(room.stateOf("/test/a")).to.equal("not there");
    });
  });

  describe("whose child waits out its back-off", () => {
    it("has its messages refused at once, and answered by the next life at the same address", async () => {
      const [a] = await room.start(room.system.root, "a");
      if (a === undefined) throw new Error("not started");
      await room.crash("a");
      expect(room.stateOf("/test/a")).to.equal("backing_off");
      expect(await codeOfRejection(a.ask("ping", null, soon))).to.equal("actor_unavailable");
      expect(codeOfThrow(() => a.tell("ping", null))).to.equal("actor_unavailable");
      await room.system.clock.advance(100);
      expect(await a.ask("ping", null, soon)).to.equal("a");
    });

    it("can be stopped there and then", async () => {
      const [a] = await room.start(room.system.root, "a");
      await room.crash("a");
      await a?.stop();
      expect(room.system.clock.pending).to.equal(0);
      expect(room.system.snapshot().children).to.deep.equal([]);
    });

    it("waits longer each time, up to the bound, and from the first again after a long life", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { intensity: { restarts: 100, windowMs: 60_000 } }),
      );
      await room.start(supervisor, "a");
      room.news();
      for (const delayMs of [100, 200, 400, 800, 1_000, 1_000]) {
        await room.crash("a");
        await room.system.clock.advance(delayMs - 1);
        expect(room.news(), `before ${delayMs}`).to.deep.equal(["a down"]);
        await room.system.clock.advance(1);
        expect(room.news(), `after ${delayMs}`).to.deep.equal(["a up"]);
      }
      await room.system.clock.advance(9_999);
      await room.crash("a");
      await room.system.clock.advance(999);
      expect(room.news()).to.deep.equal(["a down"]);
      await room.system.clock.advance(10_001);
      await room.crash("a");
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["a up", "a down", "a up"]);
    });

    it("does not take the time that an end took for a part of the life", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { backoff: { firstMs: 100, maxMs: 1_000, resetAfterMs: 500 } }),
      );
      await supervisor.startActor<Worker>({
        ...room.worker("a"),
        start: (context) => {
          room.contexts.set("a", context);
          room.events.push("a up");
          return { handlers: { ping: () => "a" }, stop: () => new Promise(() => {}) };
        },
      });
      for (const delayMs of [100, 200, 400, 800]) {
        room.news();
        // Either way its end takes until the deadline, longer than a life that would put the delay back.
        if (delayMs > 200) room.contexts.get("a")?.end();
        else await room.crash("a");
        await room.system.clock.advance(1_000 + delayMs - 1);
        expect(room.news(), `before ${delayMs}`).to.deep.equal([]);
        await room.system.clock.advance(1);
        expect(room.news(), `after ${delayMs}`).to.deep.equal(["a up"]);
      }
    });

    it("is not hurried by the wall clock", async () => {
      await room.start(room.system.root, "a");
      await room.crash("a");
      room.system.clock.jumpWallClock(1_000_000);
      await room.system.clock.advance(99);
      expect(room.stateOf("/test/a")).to.equal("backing_off");
      room.system.clock.jumpWallClock(-2_000_000);
      await room.system.clock.advance(1);
      expect(room.stateOf("/test/a")).to.equal("running");
    });
  });

  describe("that counts restarts", () => {
    const strict = { intensity: { restarts: 2, windowMs: 10_000 } };

    it("gives up at one more than the window allows, not before", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { ...strict, restart: "temporary" }),
      );
      const deaths = deathsOf(supervisor);
      await room.start(supervisor, "a", "b");
      for (const _ of [1, 2]) {
        await room.crash("a");
        await room.system.clock.advance(1_000);
      }
      expect(deaths).to.deep.equal([]);
      expect(room.stateOf("/test/s/a")).to.equal("running");
      await room.crash("a");
      expect(deaths).to.deep.equal([
        { path: "/test/s", reason: "crash", code: "restart_intensity_exceeded" },
      ]);
      expect(room.stateOf("/test/s")).to.equal("not there");
      expect(await codeOfRejection(supervisor.startActor(room.worker("c")))).to.equal(
        "actor_unavailable",
      );
    });

    it("counts in time: a restart just outside the window is forgotten, one at its edge is not", async () => {
      for (const [apartMs, end] of [
        [10_000, "not there"],
        [10_001, "backing_off"],
      ] as const) {
        const supervisor = await room.system.root.startSupervisor(
          supervisorSpec("s", { ...strict, restart: "temporary" }),
        );
        await room.start(supervisor, "a");
        await room.crash("a");
        await room.system.clock.advance(5_000);
        await room.crash("a");
        await room.system.clock.advance(apartMs - 5_000);
        await room.crash("a");
        expect(room.stateOf("/test/s/a"), `${apartMs} ms apart`).to.equal(end);
        await supervisor.stop();
      }
    });

    it("counts the restarts of all its children together", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { ...strict, restart: "temporary" }),
      );
      await room.start(supervisor, "a", "b", "c");
      await room.crash("a");
      await room.crash("b");
      expect(room.stateOf("/test/s")).to.equal("running");
      await room.crash("c");
      expect(room.stateOf("/test/s")).to.equal("not there");
    });

    it("counts a start that fails like any restart, and waits for the next like for any", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { ...strict, restart: "temporary" }),
      );
      const [a] = await room.start(supervisor, "a");
      room.news();
      room.broken.add("a");
      await room.crash("a");
      await room.system.clock.advance(99);
      expect(room.news()).to.deep.equal(["a down"]);
      await room.system.clock.advance(1);
      expect(room.news()).to.deep.equal(["a fails"]);
      expect(room.system.snapshot().children[0]?.children[0]).to.include({
        state: "backing_off",
        restartsInWindow: 2,
        restartsLeft: 0,
        lastCrash: "RangeError",
      });
      await room.system.clock.advance(199);
      expect(room.news()).to.deep.equal([]);
      await room.system.clock.advance(1);
      expect(room.news()).to.deep.equal(["a fails"]);
      expect(room.stateOf("/test/s")).to.equal("not there");
      if (a === undefined) throw new Error("not started");
      expect(await codeOfRejection(a.ask("ping", null, soon))).to.equal("actor_unavailable");
    });

    it("allows none when it is told so", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", {
          restart: "temporary",
          intensity: { restarts: 0, windowMs: 1_000 },
        }),
      );
      await room.start(supervisor, "a");
      await room.crash("a");
      expect(room.stateOf("/test/s")).to.equal("not there");
    });

    it("does not count children that are not restarted", async () => {
      const supervisor = await room.system.root.startSupervisor(supervisorSpec("s", strict));
      for (const round of [1, 2, 3, 4]) {
        await supervisor.startActor(room.worker(`t${round}`, "temporary"));
        await room.crash(`t${round}`);
      }
      expect(room.system.snapshot().children[0]).to.include({
        state: "running",
        restartsInWindow: 0,
      });
    });
  });

  describe("that gives up", () => {
    it("stops its children in reverse order and escalates to its own supervisor, which restarts it with them", async () => {
      const outer = await room.system.root.startSupervisor(supervisorSpec("outer"));
      const inner = await outer.startSupervisor(
        supervisorSpec("inner", { intensity: { restarts: 1, windowMs: 10_000 } }),
      );
      const [a, b] = await room.start(inner, "a", "b");
      const transient = await inner.startActor(room.worker("t", "transient"));
      const temporary = await inner.startActor(room.worker("x", "temporary"));
      const deaths = deathsOf(inner);
      await room.crash("a");
      await room.system.clock.advance(100);
      room.news();
      await room.crash("a");
      expect(room.news()).to.deep.equal(["a down", "x down", "t down", "b down"]);
      expect(deaths).to.deep.equal([
        { path: "/test/outer/inner", reason: "crash", code: "restart_intensity_exceeded" },
      ]);
      expect(room.stateOf("/test/outer/inner")).to.equal("backing_off");
      expect(room.stateOf("/test/outer/inner/b")).to.equal("backing_off");
      expect(room.stateOf("/test/outer/inner/x")).to.equal("not there");
      expect(await codeOfRejection(inner.startActor(room.worker("late")))).to.equal(
        "actor_unavailable",
      );

      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["a up", "b up", "t up"]);
      for (const ref of [a, b, transient]) {
        expect(await ref?.ask("ping", null, soon)).to.be.a("string");
      }
      expect(await codeOfRejection(temporary.ask("ping", null, soon))).to.equal(
        "actor_unavailable",
      );
      expect(room.system.snapshot().children[0]).to.include({
        restartsInWindow: 1,
        restartsLeft: 4,
      });
      const again = room.system.snapshot().children[0]?.children[0];
      expect(again).to.include({ restartsInWindow: 0, lastCrash: "restart_intensity_exceeded" });
      await inner.startActor(room.worker("late"));
    });

    it("at a storm ends one supervisor after the other, up to the root, which ends the system", async () => {
      const outer = await room.system.root.startSupervisor(
        supervisorSpec("outer", { intensity: { restarts: 1, windowMs: 60_000 } }),
      );
      const inner = await outer.startSupervisor(
        supervisorSpec("inner", { intensity: { restarts: 2, windowMs: 60_000 } }),
      );
      await room.start(inner, "a");
      await room.start(room.system.root, "bystander");
      room.broken.add("a");
      room.news();
      await room.crash("a");
      for (let seconds = 0; seconds < 60; seconds += 1) await room.system.clock.advance(1_000);
      // Each life of the inner: three failures; each life of the outer: two of the inner; the root: six of the outer.
      const failures = room.news().filter((event) => event === "a fails").length;
      expect(failures).to.equal(3 * 2 * 6 - 1);
      expect(await room.system.ended).to.deep.equal({
        path: "/test",
        reason: "crash",
        code: "restart_intensity_exceeded",
      });
      expect(room.system.snapshot()).to.include({ state: "ended" });
      expect(room.system.snapshot().children).to.deep.equal([]);
      await room.system.shutdown();
    });

    it("is restarted with what it has, and a child of it that fails then costs the new life", async () => {
      const inner = await room.system.root.startSupervisor(
        supervisorSpec("inner", { intensity: { restarts: 0, windowMs: 10_000 } }),
      );
      await room.start(inner, "a", "b");
      room.broken.add("b");
      room.news();
      await room.crash("a");
      expect(room.news()).to.deep.equal(["a down", "b down"]);
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["a up", "b fails", "a down"]);
      room.broken.clear();
      await room.system.clock.advance(200);
      expect(room.news()).to.deep.equal(["a up", "b up"]);
    });
  });
});
