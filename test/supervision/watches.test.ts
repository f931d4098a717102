/** Proves who hears of an actor's end, and once. */
import { expect } from "chai";
import type { ActorContext, ActorRef, Death } from "../../supervision/actor.ts";
import { Doers, type Doing } from "../support/doers.ts";
import { settle } from "../support/fake-clock.ts";
import { codeOfThrow, deathsOf, gate, supervisorSpec } from "../support/supervision.ts";

const soon = { deadlineMs: 60_000 };

describe("an actor", () => {
  let room: Doers;

  beforeEach(() => {
    room = new Doers();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  describe("that is watched", () => {
    it("tells each watcher once, and none that stopped watching", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const heard: string[] = [];
      ref.watch(() => heard.push("first"));
      const unwatch = ref.watch(() => heard.push("second"));
      const watcher = (): void => void heard.push("twice");
      ref.watch(watcher);
      ref.watch(watcher);
      unwatch();
      await ref.stop();
      await ref.stop();
      await room.system.clock.advance(10_000);
      expect(heard).to.deep.equal(["first", "twice", "twice"]);
    });

    it("does not tell a watcher that another one's news made stop watching", async () => {
      const ref = await room.system.root.startActor(room.doer());
      const heard: string[] = [];
      let unwatch = (): void => {};
      ref.watch(() => unwatch());
      unwatch = ref.watch(() => heard.push("should have been left in peace"));
      await ref.stop();
      expect(heard).to.deep.equal([]);
    });

    it("tells the others when one watcher throws, and says in the log that it did", async () => {
      const ref = await room.system.root.startActor(room.doer());
      ref.watch(() => {
        throw new TypeError("a secret");
      });
      const deaths = deathsOf(ref);
      await ref.stop();
      expect(deaths).to.have.length(1);
      expect(room.system.lines.find((line) => line["msg"] === "a watcher threw")).to.include({
        code: "TypeError",
      });
    });

    it("tells one that comes too late how the last life ended, soon but not inside its call", async () => {
      const ref = await room.system.root.startActor(room.doer());
      room.context.crash(new RangeError("a secret"));
      const deaths = deathsOf(ref);
      expect(deaths).to.deep.equal([]);
      await settle();
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "crash", code: "RangeError" }]);
      const never: Death[] = [];
      ref.watch((death) => never.push(death))();
      await settle();
      expect(never).to.deep.equal([]);
    });

    it("is found dead and ready for restart when its watchers hear", async () => {
      const ref = await room.system.root.startActor(room.doer({ restart: "permanent" }));
      let seen: unknown;
      ref.watch(() => {
        seen = room.system.snapshot().children[0];
      });
      room.context.crash(new RangeError("a secret"));
      expect(seen).to.include({ state: "backing_off", lastCrash: "RangeError" });
    });
  });

  describe("that watches another", () => {
    async function watcherOf(other: ActorRef<Doing>, capacity = 1_024) {
      const heard: Death[] = [];
      const watching: { context?: ActorContext<Doing>; unwatch?: () => void } = {};
      const ref = await room.system.root.startActor(
        room.doer({
          id: "watcher",
          mailboxCapacity: capacity,
          start: (given) => {
            watching.context = given;
            watching.unwatch = given.watch(other, (death) => void heard.push(death));
            return { handlers: { do: (work) => work() } };
          },
        }),
      );
      return { heard, ref, watching };
    }

    it("hears of its death in its own turn, though its mailbox be full", async () => {
      const other = await room.system.root.startActor(room.doer());
      const { heard, ref } = await watcherOf(other, 1);
      const held = gate();
      const inHand = ref.ask("do", () => held.promise, soon);
      await settle();
      ref.tell("do", () => heard.length === 0);
      expect(codeOfThrow(() => ref.tell("do", () => {}))).to.equal("mailbox_full");
      await other.stop();
      await settle();
      expect(heard).to.deep.equal([]);
      held.resolve();
      await inHand;
      await settle();
      expect(heard).to.deep.equal([{ path: "/test/doer", reason: "shutdown", code: null }]);
    });

    it("hears nothing once it stopped watching, even when the news waits for it already", async () => {
      const other = await room.system.root.startActor(room.doer());
      const { heard, ref, watching } = await watcherOf(other);
      const held = gate();
      const inHand = ref.ask("do", () => held.promise, soon);
      await settle();
      await other.stop();
      watching.unwatch?.();
      held.resolve();
      await inHand;
      await settle();
      expect(heard).to.deep.equal([]);
    });

    it("hears nothing once it has ended itself", async () => {
      const other = await room.system.root.startActor(room.doer());
      const { heard, ref, watching } = await watcherOf(other);
      await ref.stop();
      watching.context?.watch(other, (death) => void heard.push(death));
      await other.stop();
      await settle();
      expect(heard).to.deep.equal([]);
    });

    it("takes no news any more while it ends", async () => {
      const other = await room.system.root.startActor(room.doer());
      await room.system.root.startActor(
        room.doer({
          id: "watcher",
          start: ({ watch, end }) => {
            watch(other, () => {});
            end();
            return { handlers: { do: () => {} }, stop: () => new Promise(() => {}) };
          },
        }),
      );
      await other.stop();
      await settle();
      expect(room.system.snapshot().children[0]).to.include({ state: "stopping", mailboxDepth: 0 });
    });

    it("stops watching when it ends, and once more does no harm", async () => {
      let watching = 0;
      const other = {
        watch: () => {
          watching += 1;
          return () => {
            watching -= 1;
          };
        },
      };
      let unwatch = (): void => {};
      const ref = await room.system.root.startActor(
        room.doer({
          start: ({ watch }) => {
            unwatch = watch(other, () => {});
            watch(other, () => {});
            return { handlers: { do: () => {} } };
          },
        }),
      );
      unwatch();
      expect(watching).to.equal(1);
      await ref.stop();
      expect(watching).to.equal(0);
    });

    it("crashes when what it does about it throws", async () => {
      const other = await room.system.root.startActor(room.doer());
      const ref = await room.system.root.startActor(
        room.doer({
          id: "watcher",
          start: (given) => {
            given.watch(other, async () => {
              throw new TypeError("a secret");
            });
            return { handlers: { do: () => {} } };
          },
        }),
      );
      const deaths = deathsOf(ref);
      await other.stop();
      await settle();
      expect(deaths).to.deep.equal([{ path: "/test/watcher", reason: "crash", code: "TypeError" }]);
    });

    it("may watch a supervisor as well as an actor", async () => {
      const group = await room.system.root.startSupervisor(supervisorSpec("group"));
      const heard: Death[] = [];
      await room.system.root.startActor(
        room.doer({
          start: (given) => {
            given.watch(group, (death) => void heard.push(death));
            return { handlers: { do: () => {} } };
          },
        }),
      );
      await group.stop();
      await settle();
      expect(heard).to.deep.equal([{ path: "/test/group", reason: "shutdown", code: null }]);
    });
  });
});
