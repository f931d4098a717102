/** Proves how one life of an actor ends in order, and what is released. */
import { expect } from "chai";
import { later } from "../../supervision/actor.ts";
import { Doers, type Doing } from "../support/doers.ts";
import { settle } from "../support/fake-clock.ts";
import { codeOfRejection, codeOfThrow, deathsOf, gate } from "../support/supervision.ts";

const soon = { deadlineMs: 60_000 };

describe("a life of an actor", () => {
  let room: Doers;

  beforeEach(() => {
    room = new Doers();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  describe("that ends in order", () => {
    it("finishes the message in hand, runs stop, and tells the death, in this order", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const order: string[] = [];
      const held = gate();
      ref.watch(({ reason }) => order.push(`death: ${reason}`));
      const inHand = ref.ask("do", () => held.promise.then(() => order.push("handled")), soon);
      const waiting = codeOfRejection(ref.ask("do", () => order.push("never"), soon));
      await settle();
      const stopped = ref.stop().then(() => order.push("stopped"));
      expect(await waiting).to.equal("actor_unavailable");
      expect(codeOfThrow(() => ref.tell("do", () => {}))).to.equal("actor_unavailable");
      expect(room.stops).to.deep.equal([]);
      held.resolve();
      await inHand;
      await stopped;
      expect(order).to.deep.equal(["handled", "death: shutdown", "stopped"]);
      expect(room.stops).to.deep.equal(["shutdown"]);
    });

    it("waits for a stop that takes its time, and lets go of the signal only then", async () => {
      const held = gate();
      let signal: AbortSignal | undefined;
      const ref = await room.system.root.startActor(
        room.doer({
          start: (given) => {
            signal = given.signal;
            return { handlers: { do: (work) => work() }, stop: () => held.promise };
          },
        }),
      );
      const deaths = deathsOf(ref);
      const stopped = ref.stop();
      await room.system.clock.advance(999);
      expect(deaths).to.deep.equal([]);
      expect(signal?.aborted).to.equal(false);
      held.resolve();
      await stopped;
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "shutdown", code: null }]);
      expect(signal?.aborted).to.equal(true);
    });

    it("sends the answers that stop settles", async () => {
      const answers = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
      const ref = await room.system.root.startActor(
        room.doer({
          start: () => ({
            handlers: { do: (work) => later(Promise.resolve(work())) },
            stop: () => {
              for (const answer of answers) answer.resolve("cancelled");
            },
          }),
        }),
      );
      const asked = answers.map(({ promise }) => ref.ask("do", () => promise, soon));
      await settle();
      await ref.stop();
      expect(await Promise.all(asked)).to.deep.equal(["cancelled", "cancelled"]);
    });

    it("tells those whose answer never came that it ended", async () => {
      const ref = await room.system.root.startActor(
        room.doer({
          start: () => ({ handlers: { do: () => later(new Promise<never>(() => {})) } }),
        }),
      );
      const asked = codeOfRejection(ref.ask("do", () => {}, soon));
      await settle();
      await ref.stop();
      expect(await asked).to.equal("actor_ended");
    });

    it("by its own end() is told as normal, once the message in hand is done", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const deaths = deathsOf(ref);
      const answer = ref.ask(
        "do",
        async () => {
          room.context.end();
          await settle();
          return "done";
        },
        soon,
      );
      expect(await answer).to.equal("done");
      await settle();
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "normal", code: null }]);
      expect(room.stops).to.deep.equal(["normal"]);
    });

    it("by an end() during its start ends once it is up", async () => {
      const ref = await room.system.root.startActor(
        room.doer({
          start: async ({ end }) => {
            end();
            await settle();
            return { handlers: { do: () => {} }, stop: (reason) => void room.stops.push(reason) };
          },
        }),
      );
      await settle();
      expect(room.stops).to.deep.equal(["normal"]);
      expect(await codeOfRejection(ref.ask("do", () => {}, soon))).to.equal("actor_unavailable");
    });

    it("is stopped as often as one likes, and runs its stop once", async () => {
      const ref = await room.system.root.startActor(room.doer());
      await Promise.all([ref.stop(), ref.stop()]);
      await ref.stop();
      expect(room.stops).to.deep.equal(["shutdown"]);
    });
  });

  describe("that outlasts its deadline", () => {
    it("in a handler is abandoned then, not a millisecond before; its stop still runs", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const { signal } = room.context;
      const deaths = deathsOf(ref);
      const held = gate();
      const inHand = codeOfRejection(ref.ask("do", () => held.promise, soon));
      await settle();
      const stopped = ref.stop();
      await room.system.clock.advance(999);
      expect(deaths).to.deep.equal([]);
      expect(signal.aborted).to.equal(false);
      await room.system.clock.advance(1);
      await stopped;
      expect(await inHand).to.equal("actor_ended");
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "killed", code: null }]);
      expect(room.stops).to.deep.equal(["killed"]);
      expect(signal.aborted).to.equal(true);
      held.reject(new Error("a secret"));
      await settle();
      expect(deaths).to.have.length(1);
    });

    it("in its stop is abandoned", async () => {
      const held = gate();
      const ref = await room.system.root.startActor(
        room.doer({ start: () => ({ handlers: { do: () => {} }, stop: () => held.promise }) }),
      );
      const deaths = deathsOf(ref);
      const stopped = ref.stop();
      await room.system.clock.advance(1_000);
      await stopped;
      expect(deaths.map(({ reason }) => reason)).to.deep.equal(["killed"]);
      held.reject(new Error("a secret"));
      await settle();
    });

    it("in its start is abandoned, and what the start makes later is released", async () => {
      const held = gate();
      const starting = room.system.root.startActor(
        room.doer({
          start: async (given) => {
            room.context = given;
            await held.promise;
            return { handlers: { do: () => {} }, stop: (reason) => void room.stops.push(reason) };
          },
        }),
      );
      const refused = codeOfRejection(starting);
      await settle();
      const stopped = room.context.self.stop();
      expect(room.context.signal.aborted).to.equal(true);
      await room.system.clock.advance(1_000);
      await stopped;
      expect(await refused).to.equal("actor_unavailable");
      expect(room.system.snapshot().children).to.deep.equal([]);
      expect(room.stops).to.deep.equal([]);
      held.resolve();
      await settle();
      expect(room.stops).to.deep.equal(["killed"]);
    });
  });

  it("is given its context in pieces as well as whole", async () => {
    await room.system.root.startActor<Doing>({
      ...room.doer(),
      start: ({ self, log, clock, signal, watch, crash, end }) => {
        expect(self.path).to.equal("/test/doer");
        expect(log.bindings()).to.include({ actor: "/test/doer" });
        expect(clock).to.equal(room.system.clock);
        expect(signal.aborted).to.equal(false);
        watch(self, () => {})();
        expect([crash, end].map((given) => typeof given)).to.deep.equal(["function", "function"]);
        return { handlers: { do: (work) => work() } };
      },
    });
  });
});
