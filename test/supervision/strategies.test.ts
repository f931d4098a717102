/** Proves who is restarted with whom, and in which order. */
import { expect } from "chai";
import type { ActorRef } from "../../supervision/actor.ts";
import { CrashingWorkers, type Worker } from "../support/crashing-workers.ts";
import { settle } from "../support/fake-clock.ts";
import { codeOfRejection, gate, supervisorSpec } from "../support/supervision.ts";

describe("a supervisor's strategy", () => {
  let room: CrashingWorkers;

  beforeEach(() => {
    room = new CrashingWorkers();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  describe("one_for_one", () => {
    it("restarts the failed child alone", async () => {
      const supervisor = await room.system.root.startSupervisor(supervisorSpec("s"));
      await room.start(supervisor, "a", "b", "c");
      room.news();
      await room.crash("b");
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["b down", "b up"]);
    });

    it("lets children start at the same time", async () => {
      const supervisor = await room.system.root.startSupervisor(supervisorSpec("s"));
      const held = gate();
      const slow = supervisor.startActor<Worker>({
        ...room.worker("slow"),
        start: async () => {
          await held.promise;
          return { handlers: { ping: () => "slow" } };
        },
      });
      await room.start(supervisor, "fast");
      expect(room.stateOf("/test/s/slow")).to.equal("starting");
      held.resolve();
      await slow;
    });
  });

  describe("one_for_all", () => {
    it("stops all in reverse order, waits once, and starts all in order", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "one_for_all" }),
      );
      await room.start(supervisor, "a", "b");
      await supervisor.startActor(room.worker("x", "temporary"));
      await room.start(supervisor, "c");
      room.news();
      await room.crash("b");
      expect(room.news()).to.deep.equal(["b down", "c down", "x down", "a down"]);
      expect(room.stateOf("/test/s/a")).to.equal("backing_off");
      expect(room.stateOf("/test/s/x")).to.equal("not there");
      await room.system.clock.advance(99);
      expect(room.news()).to.deep.equal([]);
      await room.system.clock.advance(1);
      expect(room.news()).to.deep.equal(["a up", "b up", "c up"]);
      expect(room.system.snapshot().children[0]).to.include({ restartsInWindow: 1 });
    });

    it("stops again what it had started when one of them does not come up", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "one_for_all" }),
      );
      await room.start(supervisor, "a", "b", "c");
      room.broken.add("b");
      await room.crash("c");
      room.news();
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["a up", "b fails", "a down"]);
      room.broken.clear();
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["a up", "b up", "c up"]);
      expect(room.system.snapshot().children[0]).to.include({ restartsInWindow: 2 });
    });
  });

  describe("rest_for_one", () => {
    async function group(): Promise<ActorRef<Worker>[]> {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      const refs = await room.start(supervisor, "a", "b", "c", "d");
      room.news();
      return refs;
    }

    it("restarts the failed child and those after it, in order, and leaves those before it", async () => {
      await group();
      await room.crash("b");
      expect(room.news()).to.deep.equal(["b down", "d down", "c down"]);
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["b up", "c up", "d up"]);
      expect(room.system.snapshot().children[0]).to.include({ restartsInWindow: 1 });
    });

    it("does not count those that fall with the one they depend on", async () => {
      await group();
      room.contexts.get("b")?.crash(new Error("a secret"));
      room.contexts.get("c")?.crash(new Error("a secret"));
      room.contexts.get("d")?.crash(new Error("a secret"));
      await settle();
      expect(room.system.snapshot().children[0]).to.include({ restartsInWindow: 1 });
      expect(room.news()).to.deep.equal(["b down", "d down", "c down"]);
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["b up", "c up", "d up"]);
    });

    it("reaches further back when an earlier child fails meanwhile", async () => {
      await group();
      await room.crash("c");
      await room.system.clock.advance(50);
      expect(room.news()).to.deep.equal(["c down", "d down"]);
      await room.crash("a");
      expect(room.news()).to.deep.equal(["a down", "b down"]);
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["a up", "b up", "c up", "d up"]);
      expect(room.system.snapshot().children[0]).to.include({ restartsInWindow: 2 });
    });

    it("reaches further back when an earlier child fails while a later one takes its time to stop", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await room.start(supervisor, "a", "b");
      const held = gate();
      await supervisor.startActor<Worker>({
        ...room.worker("slow"),
        start: () => {
          room.events.push("slow up");
          return { handlers: { ping: () => "slow" }, stop: () => held.promise };
        },
      });
      await room.crash("b");
      await room.system.clock.advance(500);
      await room.crash("a");
      room.news();
      held.resolve();
      await room.system.clock.advance(99);
      expect(room.news()).to.deep.equal([]);
      await room.system.clock.advance(1);
      expect(room.news()).to.deep.equal(["a up", "b up", "slow up"]);
    });

    it("starts nothing when a failure and the end of the supervisor come at once", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await room.start(supervisor, "a", "b");
      await room.crash("b");
      room.news();
      room.contexts.get("a")?.crash(new TypeError("a secret"));
      await supervisor.stop();
      await settle();
      expect(room.system.clock.pending).to.equal(0);
      expect(room.news()).to.deep.equal(["a down"]);
    });

    it("begins again from the child that does not come up, and leaves those before it in peace", async () => {
      await group();
      room.broken.add("c");
      await room.crash("b");
      room.news();
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["b up", "c fails"]);
      room.broken.clear();
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["c up", "d up"]);
    });

    it("does not wait for a start that hangs when what it depends on fails", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      let hang = false;
      await room.start(supervisor, "a");
      await supervisor.startActor<Worker>({
        ...room.worker("slow"),
        start: async ({ signal }) => {
          if (hang) await new Promise((resolve) => signal.addEventListener("abort", resolve));
          room.events.push("slow up");
          return {
            handlers: { ping: () => "slow" },
            stop: () => void room.events.push("slow down"),
          };
        },
      });
      hang = true;
      await room.crash("a");
      await room.system.clock.advance(100);
      room.news();
      await room.crash("a");
      hang = false;
      await room.system.clock.advance(200);
      expect(room.news()).to.deep.equal(["a down", "slow up", "slow down", "a up", "slow up"]);
      expect(room.stateOf("/test/s/slow")).to.equal("running");
    });

    it("leaves out a child that its owner stops during the back-off", async () => {
      const [, , c] = await group();
      await room.crash("b");
      await c?.stop();
      room.news();
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["b up", "d up"]);
    });

    it("goes on with the rest when the failed child itself is stopped by its owner", async () => {
      const [, b] = await group();
      await room.crash("b");
      await b?.stop();
      room.news();
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["c up", "d up"]);
    });
  });

  describe("whose children start in a given order", () => {
    it("starts them one after the other though they were asked for at once", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      const held = gate();
      const slow = supervisor.startActor<Worker>({
        ...room.worker("slow"),
        start: async () => {
          await held.promise;
          room.events.push("slow up");
          return { handlers: { ping: () => "slow" } };
        },
      });
      const rest = room.start(supervisor, "a");
      await settle();
      expect(room.news()).to.deep.equal([]);
      held.resolve();
      await Promise.all([slow, rest]);
      expect(room.news()).to.deep.equal(["slow up", "a up"]);
    });

    it("goes on with the next when one does not come up", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "one_for_all" }),
      );
      room.broken.add("a");
      const failing = room.start(supervisor, "a").catch((error: unknown) => error);
      await room.start(supervisor, "b");
      expect(await failing).to.be.instanceOf(RangeError);
      expect(room.news()).to.deep.equal(["a fails", "b up"]);
      expect(room.system.snapshot().children[0]?.children.map(({ path }) => path)).to.deep.equal([
        "/test/s/b",
      ]);
    });

    it("lets a new child wait until a recovery is over", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await room.start(supervisor, "a");
      await room.crash("a");
      room.news();
      const late = room.start(supervisor, "late");
      await room.system.clock.advance(99);
      expect(room.news()).to.deep.equal([]);
      expect(room.stateOf("/test/s/late")).to.equal("starting");
      await room.system.clock.advance(1);
      await late;
      expect(room.news()).to.deep.equal(["a up", "late up"]);
    });

    it("refuses a child that still waits when the supervisor ends", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await room.start(supervisor, "a");
      await room.crash("a");
      const late = codeOfRejection(supervisor.startActor(room.worker("late")));
      await settle();
      await supervisor.stop();
      expect(room.system.clock.pending).to.equal(0);
      expect(await late).to.equal("actor_unavailable");
      expect(room.news()).to.deep.equal(["a up", "a down"]);
    });

    it("refuses a child whose first start is cut short by the failure of one before it", async () => {
      const supervisor = await room.system.root.startSupervisor(
        supervisorSpec("s", { strategy: "rest_for_one" }),
      );
      await room.start(supervisor, "a");
      const slow = supervisor.startActor<Worker>({
        ...room.worker("slow"),
        start: ({ signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason));
          }),
      });
      const refused = codeOfRejection(slow);
      await settle();
      await room.crash("a");
      expect(await refused).to.equal("actor_unavailable");
      await room.system.clock.advance(100);
      expect(room.news()).to.deep.equal(["a up", "a down", "a up"]);
      expect(room.stateOf("/test/s/slow")).to.equal("not there");
    });
  });
});
