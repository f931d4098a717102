/** Proves what becomes of a supervisor's children when it is restarted itself, and whom it takes for a child. */
import { expect } from "chai";
import type { SupervisorRef } from "../../supervision/actor.ts";
import { CrashingWorkers, type Worker } from "../support/crashing-workers.ts";
import { settle } from "../support/fake-clock.ts";
import { codeOfRejection, gate, supervisorSpec } from "../support/supervision.ts";

describe("a supervisor of supervisors", () => {
  let room: CrashingWorkers;

  beforeEach(() => {
    room = new CrashingWorkers();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  describe("that is restarted itself", () => {
    /** A supervisor that soon gives up, with a child `a` whose start and stop can be held up. */
    async function fragile(parent: SupervisorRef, restarts: number) {
      const inner = await parent.startSupervisor(
        supervisorSpec("inner", { intensity: { restarts, windowMs: 1_000 } }),
      );
      const hold = { start: null as Promise<void> | null, stop: null as Promise<void> | null };
      await inner.startActor<Worker>({
        ...room.worker("a"),
        start: async (context) => {
          room.contexts.set("a", context);
          await hold.start;
          room.events.push("a up");
          return {
            handlers: { ping: () => "a" },
            stop: async () => {
              await hold.stop;
              room.events.push("a down");
            },
          };
        },
      });
      return { inner, hold };
    }

    it("gives a child that came and failed while it was starting one next life, not two", async () => {
      const { inner, hold } = await fragile(room.system.root, 1);
      const held = gate();
      await room.crash("a");
      await room.system.clock.advance(100);
      hold.start = held.promise;
      await room.crash("a");
      await room.system.clock.advance(100);
      expect(room.stateOf("/test/inner")).to.equal("starting");
      await room.start(inner, "b");
      await room.crash("b");
      room.news();
      held.resolve();
      await settle();
      expect(room.news()).to.deep.equal(["a up"]);
      expect(room.stateOf("/test/inner/b")).to.equal("backing_off");
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["b up"]);
    });

    it("starts no more of its children when it is stopped meanwhile", async () => {
      const { inner, hold } = await fragile(room.system.root, 0);
      await room.start(inner, "b");
      const held = gate();
      hold.start = held.promise;
      await room.crash("a");
      await room.system.clock.advance(100);
      room.news();
      const stopped = inner.stop();
      held.resolve();
      await stopped;
      await settle();
      expect(room.news()).to.deep.equal(["a up", "a down"]);
      expect(room.stateOf("/test/inner")).to.equal("not there");
    });

    it("waits longer each time, and from the first again after a long life, like any child", async () => {
      const outer = await room.system.root.startSupervisor(
        supervisorSpec("outer", { intensity: { restarts: 100, windowMs: 1_000 } }),
      );
      const { inner } = await fragile(outer, 0);
      let heard = 0;
      inner.watch(() => {
        heard += 1;
      });
      for (const delayMs of [100, 200, 400]) {
        room.news();
        await room.crash("a");
        await room.system.clock.advance(delayMs - 1);
        expect(room.news(), `before ${delayMs}`).to.deep.equal(["a down"]);
        await room.system.clock.advance(1);
        expect(room.news(), `after ${delayMs}`).to.deep.equal(["a up"]);
      }
      await room.system.clock.advance(10_000);
      await room.crash("a");
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["a down", "a up"]);
      expect(heard, "a watch is for one life").to.equal(1);
    });

    it("holds up those that depend on it until it has really ended when it does not come up", async () => {
      const outer = await room.system.root.startSupervisor(
        supervisorSpec("outer", { strategy: "rest_for_one" }),
      );
      await room.start(outer, "first");
      const { inner, hold } = await fragile(outer, 0);
      await room.start(inner, "b");
      await room.start(outer, "last");
      room.broken.add("b");
      room.news();
      await room.crash("first");
      await room.system.clock.advance(50);
      const held = gate();
      hold.stop = held.promise;
      await room.system.clock.advance(50);
      // `b` does not come up, so `inner` gives up at once, and `a` takes its time to stop.
      expect(room.stateOf("/test/outer/inner")).to.equal("stopping");
      expect(room.news()).to.deep.equal([
        "first down",
        "last down",
        "b down",
        "a down",
        "first up",
        "a up",
        "b fails",
      ]);
      expect(room.stateOf("/test/outer/last")).to.equal("backing_off");
      held.resolve();
      room.broken.clear();
      await room.system.clock.advance(10_000);
      expect(room.news()).to.deep.equal(["a down", "a up", "b up", "last up"]);
    });
  });

  describe("asked for a child", () => {
    it("with an id that lives there refuses, and takes it once that one is gone", async () => {
      const [a] = await room.start(room.system.root, "a");
      expect(await codeOfRejection(room.system.root.startActor(room.worker("a")))).to.equal(
        "actor_already_started",
      );
      const twin = room.system.root.startSupervisor(supervisorSpec("a"));
      expect(await codeOfRejection(twin)).to.equal("actor_already_started");
      await a?.stop();
      await room.start(room.system.root, "a");
      expect(room.news()).to.deep.equal(["a up", "a down", "a up"]);
    });

    it("with an id that is starting, stopping or backing off refuses", async () => {
      const twin = (): Promise<string> =>
        codeOfRejection(room.system.root.startActor(room.worker("a")));
      const first = room.start(room.system.root, "a");
      expect(await twin()).to.equal("actor_already_started");
      const [a] = await first;
      await room.crash("a");
      expect(await twin()).to.equal("actor_already_started");
      await a?.stop();
      const held = gate();
      const slow = await room.system.root.startActor<Worker>({
        ...room.worker("a"),
        start: () => ({ handlers: { ping: () => "a" }, stop: () => held.promise }),
      });
      const stopped = slow.stop();
      expect(room.stateOf("/test/a")).to.equal("stopping");
      expect(await twin()).to.equal("actor_already_started");
      held.resolve();
      await stopped;
      expect(await twin()).to.equal("answered");
    });

    it("takes an id of 256 units without slash or control character, and nothing else", async () => {
      for (const id of ["x".repeat(256), "probe:first-run", "ä b", "a.b~c"]) {
        await room.start(room.system.root, id);
      }
      for (const id of ["", "x".repeat(257), "a/b", "a\nb", "a\0b"]) {
        const refused = codeOfRejection(room.system.root.startActor(room.worker(id)));
        expect(await refused, JSON.stringify(id)).to.equal("invalid_request");
      }
    });
  });
});
