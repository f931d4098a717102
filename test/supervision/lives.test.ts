/** Proves how one life of an actor ends, what is released, and who hears of it. */
import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import {
  type ActorContext,
  type ActorRef,
  type ActorSpec,
  type Death,
  later,
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

type Doing = { do: (work: () => unknown) => unknown };

describe("a life of an actor", () => {
  let system: TestSystem;
  /** What its behaviours' `stop` were told, in order. */
  let stops: Death["reason"][];
  let context: ActorContext<Doing>;

  beforeEach(() => {
    system = testSystem();
    stops = [];
  });

  afterEach(async () => {
    const ended = system.shutdown();
    await system.clock.advance(30_000);
    await ended;
    expect(system.clock.pending, "timers left behind").to.equal(0);
  });

  /** An actor that does what it is told, and may take a second to end. */
  function doer(changes: Partial<ActorSpec<Doing>> = {}): ActorSpec<Doing> {
    return {
      id: "doer",
      kind: "doer",
      restart: "temporary",
      shutdownMs: 1_000,
      start: (given) => {
        context = given;
        return {
          handlers: { do: (work) => work() },
          stop: (reason) => void stops.push(reason),
        };
      },
      ...changes,
    };
  }

  describe("that ends in order", () => {
    it("finishes the message in hand, runs stop, and tells the death, in this order", async () => {
      const ref = await system.root.startActor(doer());
      const order: string[] = [];
      const held = gate();
      ref.watch(({ reason }) => order.push(`death: ${reason}`));
      const inHand = ref.ask("do", () => held.promise.then(() => order.push("handled")), soon);
      const waiting = codeOfRejection(ref.ask("do", () => order.push("never"), soon));
      await settle();
      const stopped = ref.stop().then(() => order.push("stopped"));
      expect(await waiting).to.equal("actor_unavailable");
      expect(codeOfThrow(() => ref.tell("do", () => {}))).to.equal("actor_unavailable");
      expect(stops).to.deep.equal([]);
      held.resolve();
      await inHand;
      await stopped;
      expect(order).to.deep.equal(["handled", "death: shutdown", "stopped"]);
      expect(stops).to.deep.equal(["shutdown"]);
    });

    it("waits for a stop that takes its time, and lets go of the signal only then", async () => {
      const held = gate();
      let signal: AbortSignal | undefined;
      const ref = await system.root.startActor(
        doer({
          start: (given) => {
            signal = given.signal;
            return { handlers: { do: (work) => work() }, stop: () => held.promise };
          },
        }),
      );
      const deaths = deathsOf(ref);
      const stopped = ref.stop();
      await system.clock.advance(999);
      expect(deaths).to.deep.equal([]);
      expect(signal?.aborted).to.equal(false);
      held.resolve();
      await stopped;
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "shutdown", code: null }]);
      expect(signal?.aborted).to.equal(true);
    });

    it("sends the answers that stop settles", async () => {
      const answers = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
      const ref = await system.root.startActor(
        doer({
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
      const ref = await system.root.startActor(
        doer({
          start: () => ({ handlers: { do: () => later(new Promise<never>(() => {})) } }),
        }),
      );
      const asked = codeOfRejection(ref.ask("do", () => {}, soon));
      await settle();
      await ref.stop();
      expect(await asked).to.equal("actor_ended");
    });

    it("by its own end() is told as normal, once the message in hand is done", async () => {
      const ref = await system.root.startActor(doer());
      const deaths = deathsOf(ref);
      const answer = ref.ask(
        "do",
        async () => {
          context.end();
          await settle();
          return "done";
        },
        soon,
      );
      expect(await answer).to.equal("done");
      await settle();
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "normal", code: null }]);
      expect(stops).to.deep.equal(["normal"]);
    });

    it("by an end() during its start ends once it is up", async () => {
      const ref = await system.root.startActor(
        doer({
          start: async ({ end }) => {
            end();
            await settle();
            return { handlers: { do: () => {} }, stop: (reason) => void stops.push(reason) };
          },
        }),
      );
      await settle();
      expect(stops).to.deep.equal(["normal"]);
      expect(await codeOfRejection(ref.ask("do", () => {}, soon))).to.equal("actor_unavailable");
    });

    it("is stopped as often as one likes, and runs its stop once", async () => {
      const ref = await system.root.startActor(doer());
      await Promise.all([ref.stop(), ref.stop()]);
      await ref.stop();
      expect(stops).to.deep.equal(["shutdown"]);
    });
  });

  describe("that outlasts its deadline", () => {
    it("in a handler is abandoned then, not a millisecond before; its stop still runs", async () => {
      const ref = await system.root.startActor(doer());
      const { signal } = context;
      const deaths = deathsOf(ref);
      const held = gate();
      const inHand = codeOfRejection(ref.ask("do", () => held.promise, soon));
      await settle();
      const stopped = ref.stop();
      await system.clock.advance(999);
      expect(deaths).to.deep.equal([]);
      expect(signal.aborted).to.equal(false);
      await system.clock.advance(1);
      await stopped;
      expect(await inHand).to.equal("actor_ended");
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "killed", code: null }]);
      expect(stops).to.deep.equal(["killed"]);
      expect(signal.aborted).to.equal(true);
      held.reject(new Error("a secret"));
      await settle();
      expect(deaths).to.have.length(1);
    });

    it("in its stop is abandoned", async () => {
      const held = gate();
      const ref = await system.root.startActor(
        doer({ start: () => ({ handlers: { do: () => {} }, stop: () => held.promise }) }),
      );
      const deaths = deathsOf(ref);
      const stopped = ref.stop();
      await system.clock.advance(1_000);
      await stopped;
      expect(deaths.map(({ reason }) => reason)).to.deep.equal(["killed"]);
      held.reject(new Error("a secret"));
      await settle();
    });

    it("in its start is abandoned, and what the start makes later is released", async () => {
      const held = gate();
      const starting = system.root.startActor(
        doer({
          start: async (given) => {
            context = given;
            await held.promise;
            return { handlers: { do: () => {} }, stop: (reason) => void stops.push(reason) };
          },
        }),
      );
      const refused = codeOfRejection(starting);
      await settle();
      const stopped = context.self.stop();
      expect(context.signal.aborted).to.equal(true);
      await system.clock.advance(1_000);
      await stopped;
      expect(await refused).to.equal("actor_unavailable");
      expect(system.snapshot().children).to.deep.equal([]);
      expect(stops).to.deep.equal([]);
      held.resolve();
      await settle();
      expect(stops).to.deep.equal(["killed"]);
    });
  });

  describe("that crashes", () => {
    it("in a handler: its asker and the waiting are told, stop runs, the death has the class's name", async () => {
      const ref = await system.root.startActor(doer());
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
      expect(stops).to.deep.equal(["crash"]);
    });

    it("by crash() from outside: the message in hand is answered at once, its work is waited for", async () => {
      const ref = await system.root.startActor(doer());
      const { signal } = context;
      const deaths = deathsOf(ref);
      const held = gate();
      const answers = [
        codeOfRejection(ref.ask("do", () => later(new Promise(() => {})), soon)),
        codeOfRejection(ref.ask("do", () => held.promise, soon)),
      ];
      await settle();
      context.crash(new LemonError("link_lost"));
      expect(await Promise.all(answers)).to.deep.equal(["actor_crashed", "actor_crashed"]);
      expect(signal.aborted).to.equal(true);
      expect(deaths).to.deep.equal([]);
      held.resolve();
      await settle();
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "crash", code: "link_lost" }]);
      expect(stops).to.deep.equal(["crash"]);
    });

    it("by crash() inside a handler beats what that handler returns", async () => {
      const ref = await system.root.startActor(doer());
      const work = (): string => {
        context.crash(new Error("a secret"));
        return "all is well";
      };
      expect(await codeOfRejection(ref.ask("do", work, soon))).to.equal("actor_crashed");
      expect(stops).to.deep.equal(["crash"]);
    });

    it("and hangs is abandoned after its deadline, still as a crash", async () => {
      const ref = await system.root.startActor(doer());
      const deaths = deathsOf(ref);
      void codeOfRejection(ref.ask("do", () => new Promise(() => {}), soon));
      await settle();
      context.crash(new TypeError("a secret"));
      await system.clock.advance(999);
      expect(deaths).to.deep.equal([]);
      await system.clock.advance(1);
      expect(deaths).to.deep.equal([{ path: "/test/doer", reason: "crash", code: "TypeError" }]);
      expect(stops).to.deep.equal(["killed"]);
    });

    it("while it stops says so in its death", async () => {
      const ref = await system.root.startActor(doer());
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
          context.crash(new TypeError("a secret"));
          await settle();
        },
      ]) {
        const ref = await system.root.startActor(
          doer({
            start: (given) => {
              context = given;
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
        const ref = await system.root.startActor(doer());
        const deaths = deathsOf(ref);
        context.crash(thrown);
        expect(deaths.map((death) => death.code)).to.deep.equal([code]);
        await ref.stop();
      }
    });

    it("after it ended changes nothing", async () => {
      const ref = await system.root.startActor(doer());
      const deaths = deathsOf(ref);
      await ref.stop();
      context.crash(new Error("a secret"));
      context.end();
      await settle();
      expect(deaths.map(({ reason }) => reason)).to.deep.equal(["shutdown"]);
    });
  });

  describe("that does not come up", () => {
    it("leaves no child behind, and the starter has the very error", async () => {
      const broken = new RangeError("a secret");
      const failure = await system.root
        .startActor(doer({ restart: "permanent", start: () => Promise.reject(broken) }))
        .catch((error: unknown) => error);
      expect(failure).to.equal(broken);
      expect(system.snapshot().children).to.deep.equal([]);
      await system.root.startActor(doer());
    });

    it("because it has no handlers to show is a failed start; what it made is released", async () => {
      const broken = new RangeError("a secret");
      const failure = await system.root
        .startActor(
          doer({
            start: () => ({
              get handlers(): never {
                throw broken;
              },
              stop: (reason) => void stops.push(reason),
            }),
          }),
        )
        .catch((error: unknown) => error);
      expect(failure).to.equal(broken);
      expect(stops).to.deep.equal(["init_failed"]);
    });

    it("because of crash() is a failed start; what it made is released", async () => {
      const starting = system.root.startActor(
        doer({
          start: async ({ crash }) => {
            crash(new LemonError("no_space"));
            return { handlers: { do: () => {} }, stop: (reason) => void stops.push(reason) };
          },
        }),
      );
      expect(await codeOfRejection(starting)).to.equal("no_space");
      expect(stops).to.deep.equal(["init_failed"]);
    });

    it("because it was stopped says that it is not available; a start that gives up is no crash", async () => {
      const starting = system.root.startActor(
        doer({
          start: (given) => {
            context = given;
            return new Promise((_resolve, reject) => {
              given.signal.addEventListener("abort", () => reject(given.signal.reason));
            });
          },
        }),
      );
      const refused = codeOfRejection(starting);
      await settle();
      const deaths = deathsOf(context.self);
      await context.self.stop();
      expect(await refused).to.equal("actor_unavailable");
      expect(deaths.map(({ reason }) => reason)).to.deep.equal(["shutdown"]);
    });
  });

  describe("that is watched", () => {
    it("tells each watcher once, and none that stopped watching", async () => {
      const ref = await system.root.startActor(doer());
      const heard: string[] = [];
      ref.watch(() => heard.push("first"));
      const unwatch = ref.watch(() => heard.push("second"));
      const watcher = (): void => void heard.push("twice");
      ref.watch(watcher);
      ref.watch(watcher);
      unwatch();
      await ref.stop();
      await ref.stop();
      await system.clock.advance(10_000);
      expect(heard).to.deep.equal(["first", "twice", "twice"]);
    });

    it("does not tell a watcher that another one's news made stop watching", async () => {
      const ref = await system.root.startActor(doer());
      const heard: string[] = [];
      let unwatch = (): void => {};
      ref.watch(() => unwatch());
      unwatch = ref.watch(() => heard.push("should have been left in peace"));
      await ref.stop();
      expect(heard).to.deep.equal([]);
    });

    it("tells the others when one watcher throws, and says in the log that it did", async () => {
      const ref = await system.root.startActor(doer());
      ref.watch(() => {
        throw new TypeError("a secret");
      });
      const deaths = deathsOf(ref);
      await ref.stop();
      expect(deaths).to.have.length(1);
      expect(system.lines.find((line) => line["msg"] === "a watcher threw")).to.include({
        code: "TypeError",
      });
    });

    it("tells one that comes too late how the last life ended, soon but not inside its call", async () => {
      const ref = await system.root.startActor(doer());
      context.crash(new RangeError("a secret"));
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
      const ref = await system.root.startActor(doer({ restart: "permanent" }));
      let seen: unknown;
      ref.watch(() => {
        seen = system.snapshot().children[0];
      });
      context.crash(new RangeError("a secret"));
      expect(seen).to.include({ state: "backing_off", lastCrash: "RangeError" });
    });
  });

  describe("that watches another", () => {
    async function watcherOf(other: ActorRef<Doing>, capacity = 1_024) {
      const heard: Death[] = [];
      const watching: { context?: ActorContext<Doing>; unwatch?: () => void } = {};
      const ref = await system.root.startActor(
        doer({
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
      const other = await system.root.startActor(doer());
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
      const other = await system.root.startActor(doer());
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
      const other = await system.root.startActor(doer());
      const { heard, ref, watching } = await watcherOf(other);
      await ref.stop();
      watching.context?.watch(other, (death) => void heard.push(death));
      await other.stop();
      await settle();
      expect(heard).to.deep.equal([]);
    });

    it("takes no news any more while it ends", async () => {
      const other = await system.root.startActor(doer());
      await system.root.startActor(
        doer({
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
      expect(system.snapshot().children[0]).to.include({ state: "stopping", mailboxDepth: 0 });
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
      const ref = await system.root.startActor(
        doer({
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
      const other = await system.root.startActor(doer());
      const ref = await system.root.startActor(
        doer({
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
      const group = await system.root.startSupervisor(supervisorSpec("group"));
      const heard: Death[] = [];
      await system.root.startActor(
        doer({
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

  it("is given its context in pieces as well as whole", async () => {
    await system.root.startActor<Doing>({
      ...doer(),
      start: ({ self, log, clock, signal, watch, crash, end }) => {
        expect(self.path).to.equal("/test/doer");
        expect(log.bindings()).to.include({ actor: "/test/doer" });
        expect(clock).to.equal(system.clock);
        expect(signal.aborted).to.equal(false);
        watch(self, () => {})();
        expect([crash, end].map((given) => typeof given)).to.deep.equal(["function", "function"]);
        return { handlers: { do: (work) => work() } };
      },
    });
  });
});
