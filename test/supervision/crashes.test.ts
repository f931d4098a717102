/** Proves how a life ends that crashes, or never comes up. */
import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import { later } from "../../supervision/actor.ts";
import { Doers } from "../support/doers.ts";
import { settle } from "../support/fake-clock.ts";
import { codeOfRejection, deathsOf, gate } from "../support/supervision.ts";

const soon = { deadlineMs: 60_000 };

describe("an actor", () => {
  let room: Doers;

  beforeEach(() => {
    room = new Doers();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  describe("that crashes", () => {
    it("in a handler: its asker and the waiting are told, stop runs, the death has the class's name", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const deaths = deathsOf(ref);
      const failing = codeOfRejection(
        ref.ask(
          "do",
          () => {
            throw new RangeError("a secret");
          },
          soon,
        ),
      );
      const waiting = codeOfRejection(ref.ask("do", () => {}, soon));
      expect(await failing).to.equal("actor_crashed");
      expect(await waiting).to.equal("actor_unavailable");
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "crash", code: "RangeError" }]);
      expect(room.stops).to.deep.equal(["crash"]);
    });

    it("by crash() from outside: the message in hand is answered at once, its work is waited for", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const { signal } = room.context;
      const deaths = deathsOf(ref);
      const held = gate();
      const answers = [
        codeOfRejection(ref.ask("do", () => later(new Promise(() => {})), soon)),
        codeOfRejection(ref.ask("do", () => held.promise, soon)),
      ];
      await settle();
      room.context.crash(new LemonError("link_lost"));
      expect(await Promise.all(answers)).to.deep.equal(["actor_crashed", "actor_crashed"]);
      expect(signal.aborted).to.equal(true);
      expect(deaths).to.deep.equal([]);
      held.resolve();
      await settle();
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "crash", code: "link_lost" }]);
      expect(room.stops).to.deep.equal(["crash"]);
    });

    it("by crash() inside a handler beats what that handler returns", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const work = (): string => {
        room.context.crash(new Error("a secret"));
        return "all is well";
      };
      expect(await codeOfRejection(ref.ask("do", work, soon))).to.equal("actor_crashed");
      expect(room.stops).to.deep.equal(["crash"]);
    });

    it("and hangs is abandoned after its deadline, still as a crash", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const deaths = deathsOf(ref);
      void codeOfRejection(ref.ask("do", () => new Promise(() => {}), soon));
      await settle();
      room.context.crash(new TypeError("a secret"));
      await room.system.clock.advance(999);
      expect(deaths).to.deep.equal([]);
      await room.system.clock.advance(1);
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "crash", code: "TypeError" }]);
      expect(room.stops).to.deep.equal(["killed"]);
    });

    it("while it stops says so in its death", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const deaths = deathsOf(ref);
      const held = gate();
      const inHand = codeOfRejection(ref.ask("do", () => held.promise, soon));
      await settle();
      const stopped = ref.stop();
      held.reject(new TypeError("a secret"));
      await stopped;
      expect(await inHand).to.equal("actor_crashed");
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "crash", code: "TypeError" }]);
    });

    it("in its stop, now or in time, says so in its death", async () => {
      for (const stop of [
        () => {
          throw new TypeError("a secret");
        },
        () => Promise.reject(new TypeError("a secret")),
        async () => {
          room.context.crash(new TypeError("a secret"));
          await settle();
        },
      ]) {
        const ref = await room.system.root.startActor(
          room.doer({
            start: (given) => {
              room.context = given;
              return { handlers: { do: () => {} }, stop };
            },
          }),
        );
        const deaths = deathsOf(ref);
        await ref.stop();
        expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "crash", code: "TypeError" }]);
      }
    });

    it("with what is no error at all has its type for a code", async () => {
      for (const [thrown, code] of [
        ["a secret", "string"],
        [undefined, "undefined"],
        [null, "object"],
      ] as const) {
        const ref = await room.system.root.startActor(room.doer());
        const deaths = deathsOf(ref);
        room.context.crash(thrown);
        expect(deaths.map((death) => death.code)).to.deep.equal([code]);
        await ref.stop();
      }
    });

    it("after it ended changes nothing", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const deaths = deathsOf(ref);
      await ref.stop();
      room.context.crash(new Error("a secret"));
      room.context.end();
      await settle();
      expect(deaths.map(({ reason }) => reason)).to.deep.equal(["shutdown"]);
    });
  });

  describe("that does not come up", () => {
    it("leaves no child behind, and the starter has the very error", async () => {
      const broken = new RangeError("a secret");
      const failure = await room.system.root
        .startActor(room.doer({ restart: "permanent", start: () => Promise.reject(broken) }))
        .catch((error: unknown) => error);
      expect(failure).to.equal(broken);
      expect(room.system.snapshot().children).to.deep.equal([]);
      await room.system.root.startActor(room.doer());
    });

    it("because it has no handlers to show is a failed start; what it made is released", async () => {
      const broken = new RangeError("a secret");
      const failure = await room.system.root
        .startActor(
          room.doer({
            start: () => ({
              get handlers(): never {
                throw broken;
              },
              stop: (reason) => void room.stops.push(reason),
            }),
          }),
        )
        .catch((error: unknown) => error);
      expect(failure).to.equal(broken);
      expect(room.stops).to.deep.equal(["init_failed"]);
    });

    it("because of crash() is a failed start; what it made is released", async () => {
      const starting = room.system.root.startActor(
        room.doer({
          start: async ({ crash }) => {
            crash(new LemonError("no_space"));
            return { handlers: { do: () => {} }, stop: (reason) => void room.stops.push(reason) };
          },
        }),
      );
      expect(await codeOfRejection(starting)).to.equal("no_space");
      expect(room.stops).to.deep.equal(["init_failed"]);
    });

    it("because it was stopped says that it is not available; a start that gives up is no crash", async () => {
      const starting = room.system.root.startActor(
        room.doer({
          start: (given) => {
            room.context = given;
            return new Promise((_resolve, reject) => {
              given.signal.addEventListener("abort", () => reject(given.signal.reason));
            });
          },
        }),
      );
      const refused = codeOfRejection(starting);
      await settle();
      const deaths = deathsOf(room.context.self);
      await room.context.self.stop();
      expect(await refused).to.equal("actor_unavailable");
      expect(deaths.map(({ reason }) => reason)).to.deep.equal(["shutdown"]);
    });
  });
});
