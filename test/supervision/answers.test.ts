/** Proves what a message is answered with: later, by an error, by what only pretends to be a promise. */
import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import { type ActorRef, type Handlers, later, type Protocol } from "../../supervision/actor.ts";
import { settle } from "../support/fake-clock.ts";
import {
  codeOfRejection,
  startSubject,
  type TestSystem,
  testSystem,
} from "../support/supervision.ts";

const soon = { deadlineMs: 1_000 };

describe("a message to an actor", () => {
  let system: TestSystem;

  beforeEach(() => {
    system = testSystem();
  });

  afterEach(() => system[Symbol.asyncDispose]());

  const start = <P extends Protocol>(
    ...how: [handlers: Handlers<P>, mailboxCapacity?: number]
  ): Promise<ActorRef<P>> => startSubject(system, ...how);

  describe("answered with later()", () => {
    it("does not hold up the messages behind it", async () => {
      const held = Promise.withResolvers<string>();
      const ref = await start<{ slow: (p: null) => string; ping: (p: null) => string }>({
        slow: () => later(held.promise),
        ping: () => "pong",
      });
      const slow = ref.ask("slow", null, soon);
      expect(await ref.ask("ping", null, soon)).to.equal("pong");
      held.resolve("done");
      expect(await slow).to.equal("done");
    });

    it("may also be promised after an await", async () => {
      const ref = await start<{ slow: (p: null) => string }>({
        slow: async () => {
          await settle();
          return later(Promise.resolve("done"));
        },
      });
      expect(await ref.ask("slow", null, soon)).to.equal("done");
    });

    it("ends at its deadline all the same", async () => {
      const ref = await start<{ never: (p: null) => string }>({
        never: () => later(new Promise<string>(() => {})),
      });
      const late = codeOfRejection(ref.ask("never", null, { deadlineMs: 50 }));
      await system.clock.advance(50);
      expect(await late).to.equal("deadline_exceeded");
    });

    it("carries an error of the table as an answer, and anything else as a crash", async () => {
      const failing = { slow: (error: Error) => later(Promise.reject<never>(error)) };
      const ref = await start<{ slow: (error: Error) => never }>(failing);
      expect(await codeOfRejection(ref.ask("slow", new LemonError("no_space"), soon))).to.equal(
        "no_space",
      );
      expect(await codeOfRejection(ref.ask("slow", new Error("broken"), soon))).to.equal(
        "actor_crashed",
      );
      expect(await codeOfRejection(ref.ask("slow", new Error("down"), soon))).to.equal(
        "actor_unavailable",
      );
    });
  });

  describe("whose handler throws", () => {
    it("an error of the table gets it whole, but for the cause, and the actor goes on", async () => {
      const thrown = new LemonError("rate_limited", {
        message: "Wait",
        details: { retryAfterMs: 5 },
        retrySafe: false,
        cause: new Error("a secret"),
      });
      const ref = await start<{ fail: (p: null) => void; ping: (p: null) => string }>({
        fail: () => {
          throw thrown;
        },
        ping: () => "pong",
      });
      const error = await ref.ask("fail", null, soon).catch((error: unknown) => error);
      if (!(error instanceof LemonError)) throw new Error("not an error of the table");
      expect(error).to.include({ code: "rate_limited", message: "Wait", retrySafe: false });
      expect(error.details).to.deep.equal({ retryAfterMs: 5 });
      expect(error.cause).to.equal(undefined);
      expect(await ref.ask("ping", null, soon)).to.equal("pong");
    });

    it("an error of the table at a tell leaves the actor running and a line in the log", async () => {
      const ref = await start<{ fail: (p: null) => void; ping: (p: null) => string }>({
        fail: async () => {
          throw new LemonError("no_space");
        },
        ping: () => "pong",
      });
      ref.tell("fail", null);
      expect(await ref.ask("ping", null, soon)).to.equal("pong");
      expect(system.lines.map((line) => line["code"])).to.include("no_space");
    });

    it("what throws in turn when it is looked at is told of a crash all the same", async () => {
      const mean = (): never => {
        throw new RangeError("a secret");
      };
      const proxy: unknown = new Proxy({}, { get: mean, has: mean, getPrototypeOf: mean });
      const error = Object.defineProperties(new Error("a secret"), {
        constructor: { get: mean },
        stack: { get: mean },
      });
      for (const thrown of [proxy, error]) {
        const ref = await start<{ fail: (nothing: null) => void }>({
          fail: () => {
            throw thrown;
          },
        });
        expect(await codeOfRejection(ref.ask("fail", null, soon))).to.equal("actor_crashed");
        await ref.stop();
      }
    });

    it("anything else is told of a crash; what waits behind it was not touched", async () => {
      const seen: string[] = [];
      const ref = await start<{ fail: (p: null) => void; note: (p: string) => void }>({
        fail: async () => {
          await settle();
          throw new TypeError("a secret");
        },
        note: (name) => void seen.push(name),
      });
      const failing = codeOfRejection(ref.ask("fail", null, soon));
      const waiting = codeOfRejection(ref.ask("note", "asked", soon));
      ref.tell("note", "told");
      expect(await failing).to.equal("actor_crashed");
      expect(await waiting).to.equal("actor_unavailable");
      expect(seen).to.deep.equal([]);
      const dropped = system.lines.find((line) => line["msg"] === "told messages were not handled");
      expect(dropped).to.include({ count: 1 });
    });
  });

  it("survives an answer that only pretends to be a promise", async () => {
    const name = "then";
    const thenable = (get: () => unknown): unknown => Object.defineProperty({}, name, { get });
    const trap = thenable(() => {
      throw new RangeError("a secret");
    });
    const twice = thenable(
      () => (resolve: (reply: string) => void, reject: (error: Error) => void) => {
        resolve("first");
        resolve("second");
        reject(new Error("a secret"));
      },
    );
    const ref = await start<{ give: (reply: unknown) => unknown }>({ give: (reply) => reply });
    expect(await ref.ask("give", twice, soon)).to.equal("first");
    expect(await codeOfRejection(ref.ask("give", trap, soon))).to.equal("actor_crashed");
  });

  it("survives an answer promised for later that only pretends to be a promise", async () => {
    const name = "then";
    const thenable: Promise<unknown> = Object.defineProperty(Object.create(null), name, {
      get() {
        throw new RangeError("a secret");
      },
    });
    const ref = await start<{ give: (nothing: null) => unknown }>({
      give: async () => later(thenable),
    });
    expect(await codeOfRejection(ref.ask("give", null, soon))).to.equal("actor_crashed");
  });
});
