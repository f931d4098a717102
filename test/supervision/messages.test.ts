/** Proves what a message meets on its way: order, one at a time, bounds, deadlines, turns. */
import { expect } from "chai";
import type { ActorRef, Handlers, Protocol } from "../../supervision/actor.ts";
import { settle } from "../support/fake-clock.ts";
import {
  codeOfRejection,
  codeOfThrow,
  gate,
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

  it("is answered with what its handler returns, now or in time", async () => {
    const ref = await start<{ now: (n: number) => number; soon: (n: number) => number }>({
      now: (n) => n + 1,
      soon: async (n) => {
        await settle();
        return n + 2;
      },
    });
    expect(await ref.ask("now", 1, soon)).to.equal(2);
    expect(await ref.ask("soon", 1, soon)).to.equal(3);
  });

  it("finds 10,000 read-await-write increments adding up to 10,000", async () => {
    let stored = 0;
    const read = async (): Promise<number> => stored;
    const ref = await start<{ increment: (by: number) => void }>(
      {
        increment: async (by) => {
          const value = await read();
          await null;
          stored = value + by;
        },
      },
      10_000,
    );
    await Promise.all(Array.from({ length: 10_000 }, () => ref.ask("increment", 1, soon)));
    expect(stored).to.equal(10_000);
  });

  it("is handled in the order of sending, tells and asks alike, one at a time across await", async () => {
    const seen: string[] = [];
    const ref = await start<{ note: (name: string) => void }>({
      note: async (name) => {
        seen.push(`${name} begins`);
        await settle();
        seen.push(`${name} ends`);
      },
    });
    ref.tell("note", "a");
    const b = ref.ask("note", "b", soon);
    ref.tell("note", "c");
    await b;
    await ref.ask("note", "d", soon);
    expect(seen).to.deep.equal(["a", "b", "c", "d"].flatMap((n) => [`${n} begins`, `${n} ends`]));
  });

  it("waits while its actor is starting, for instance one the actor sent itself", async () => {
    const seen: number[] = [];
    const ref = await system.root.startActor<{ note: (n: number) => void }>({
      id: "self-teller",
      kind: "subject",
      restart: "temporary",
      start: async ({ self }) => {
        self.tell("note", 1);
        await settle();
        expect(seen).to.deep.equal([]);
        return { handlers: { note: (n) => void seen.push(n) } };
      },
    });
    await settle();
    expect(seen).to.deep.equal([1]);
    await ref.ask("note", 2, soon);
    expect(seen).to.deep.equal([1, 2]);
  });

  describe("whose mailbox is full", () => {
    async function hungWithRoomForTwo() {
      const held = gate();
      const seen: number[] = [];
      const ref = await start<{ hold: (n: number) => number }>(
        {
          hold: async (n) => {
            seen.push(n);
            await held.promise;
            return n;
          },
        },
        2,
      );
      const first = ref.ask("hold", 0, soon);
      await settle();
      return { held, ref, seen, first };
    }

    it("is refused at once, an ask as a tell, and one below the bound is not", async () => {
      const { held, ref, seen, first } = await hungWithRoomForTwo();
      const second = ref.ask("hold", 1, soon);
      ref.tell("hold", 2);
      expect(await codeOfRejection(ref.ask("hold", 3, soon))).to.equal("mailbox_full");
      expect(codeOfThrow(() => ref.tell("hold", 4))).to.equal("mailbox_full");
      held.resolve();
      expect(await Promise.all([first, second])).to.deep.equal([0, 1]);
      await settle();
      expect(seen).to.deep.equal([0, 1, 2]);
    });

    it("finds room again once a message was taken or has expired", async () => {
      const { held, ref, seen, first } = await hungWithRoomForTwo();
      const expired = codeOfRejection(ref.ask("hold", 1, { deadlineMs: 10 }));
      ref.tell("hold", 2);
      await system.clock.advance(10);
      expect(await expired).to.equal("message_expired");
      ref.tell("hold", 3);
      expect(codeOfThrow(() => ref.tell("hold", 4))).to.equal("mailbox_full");
      held.resolve();
      await first;
      await settle();
      expect(seen).to.deep.equal([0, 2, 3]);
    });
  });

  describe("whose deadline passes", () => {
    it("while it waits is never handled; one that has a millisecond left is", async () => {
      const held = gate();
      const seen: string[] = [];
      const ref = await start<{ hold: (name: string) => string }>({
        hold: async (name) => {
          seen.push(name);
          await held.promise;
          return name;
        },
      });
      const first = ref.ask("hold", "first", { deadlineMs: 1_000 });
      const late = codeOfRejection(ref.ask("hold", "late", { deadlineMs: 100 }));
      const inTime = ref.ask("hold", "in time", { deadlineMs: 101 });
      await system.clock.advance(100);
      held.resolve();
      expect(await late).to.equal("message_expired");
      expect(await first).to.equal("first");
      expect(await inTime).to.equal("in time");
      expect(seen).to.deep.equal(["first", "in time"]);
    });

    it("on a busy event loop is not handled either, though no timer has fired yet", async () => {
      const seen: number[] = [];
      const ref = await start<{ note: (n: number) => void }>({ note: (n) => void seen.push(n) });
      const late = codeOfRejection(ref.ask("note", 1, { deadlineMs: 100 }));
      const inTime = ref.ask("note", 2, { deadlineMs: 101 });
      system.clock.stall(100);
      expect(await late).to.equal("message_expired");
      await inTime;
      expect(seen).to.deep.equal([2]);
    });

    it("while it is handled is told so, and the late reply is dropped", async () => {
      const held = gate();
      const ref = await start<{ hold: (p: null) => string; ping: (p: null) => string }>({
        hold: async () => {
          await held.promise;
          return "too late";
        },
        ping: () => "pong",
      });
      const late = codeOfRejection(ref.ask("hold", null, { deadlineMs: 100 }));
      await system.clock.advance(99);
      expect(system.clock.pending).to.equal(1);
      await system.clock.advance(1);
      expect(await late).to.equal("deadline_exceeded");
      held.resolve();
      expect(await ref.ask("ping", null, soon)).to.equal("pong");
    });

    it("before it was sent is refused at once: zero, less, no number, no end", async () => {
      const seen: number[] = [];
      const ref = await start<{ note: (n: number) => void }>({ note: (n) => void seen.push(n) });
      for (const deadlineMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
        const code = await codeOfRejection(ref.ask("note", 1, { deadlineMs }));
        expect(code).to.equal("message_expired");
      }
      await ref.ask("note", 2, { deadlineMs: 0.5 });
      expect(seen).to.deep.equal([2]);
    });
  });

  it("that no handler has, or only Object.prototype, is refused and does no harm", async () => {
    const ref: ActorRef<Record<string, (payload: null) => unknown>> = await start({
      ping: () => "pong",
    });
    for (const type of ["nothing", "constructor", "toString", "__proto__", "hasOwnProperty"]) {
      expect(await codeOfRejection(ref.ask(type, null, soon))).to.equal("method_not_found");
    }
    expect(await ref.ask("ping", null, soon)).to.equal("pong");
  });

  it("reaches handlers that are the methods of a class, with their `this`", async () => {
    class Counter {
      #value = 0;
      add(by: number): number {
        this.#value += by;
        return this.#value;
      }
    }
    const ref = await start<{ add: (by: number) => number }>(new Counter());
    await ref.ask("add", 2, soon);
    expect(await ref.ask("add", 3, soon)).to.equal(5);
  });

  it("leaves the event loop its turn, however much two actors have to tell each other", async () => {
    let rallies = 0;
    const players: ActorRef<{ ball: (to: number) => void }>[] = [];
    for (const id of [0, 1]) {
      const player = await system.root.startActor<{ ball: (to: number) => void }>({
        id: `player-${id}`,
        kind: "player",
        restart: "temporary",
        start: () => ({
          handlers: {
            ball: (to) => {
              rallies += 1;
              players[to]?.tell("ball", 1 - to);
            },
          },
        }),
      });
      players.push(player);
    }
    players[0]?.tell("ball", 1);
    // Immediates of ours get their turn although the ball never rests.
    await settle();
    const until = rallies;
    await settle();
    expect(rallies).to.be.greaterThan(until);
  });

  it("leaves the event loop its turn, however much an actor has to tell itself", async () => {
    let told = 0;
    const ref = await system.root.startActor<{ again: (p: null) => void }>({
      id: "monologue",
      kind: "subject",
      restart: "temporary",
      start: ({ self }) => ({
        handlers: {
          again: () => {
            told += 1;
            self.tell("again", null);
          },
        },
      }),
    });
    ref.tell("again", null);
    await settle();
    const until = told;
    await settle();
    expect(told).to.be.greaterThan(until);
  });
});
