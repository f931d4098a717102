/** Proves that every life gives back the place where it was hosted, whatever way it ended. */
import { expect } from "chai";
import type { ActorContext, ActorSpec } from "../../supervision/actor.ts";
import type { Parent } from "../../supervision/child.ts";
import { type Nursery, openComedy } from "../../supervision/comedy-host.ts";
import { Supervisor } from "../../supervision/supervisor.ts";
import { FakeClock, settle } from "../support/fake-clock.ts";
import { logLines } from "../support/log-lines.ts";
import { codeOfRejection, gate, supervisorSpec } from "../support/supervision.ts";

type Nothing = { nothing: (p: null) => void };

describe("the place of a life", () => {
  let clock: FakeClock;
  let comedy: Nursery;
  let root: Supervisor;
  /** What is open now: places of lives, nurseries of supervisors. */
  let places: number;
  let nurseries: number;
  /** Held up, a place takes its time to be made. */
  let making: Promise<void> | null;

  /** Counts what is opened and closed in a nursery and below it. */
  function counting(nursery: Nursery): Nursery {
    nurseries += 1;
    return {
      async place(name, onTurn) {
        const place = await nursery.place(name, onTurn);
        places += 1;
        await making;
        return {
          turn: () => place.turn(),
          release() {
            places -= 1;
            place.release();
          },
        };
      },
      nursery: (name) => counting(nursery.nursery(name)),
      close() {
        nurseries -= 1;
        nursery.close();
      },
    };
  }

  beforeEach(() => {
    places = 0;
    nurseries = 0;
    making = null;
    clock = new FakeClock();
    const { log } = logLines();
    comedy = counting(openComedy(log));
    const parent: Parent = {
      path: "",
      kernel: { clock, random: () => 1, log },
      nursery: comedy,
      childEnded() {},
      retire: (child) => child.halt(),
    };
    root = new Supervisor(supervisorSpec("root"), parent, 0);
    void root.begin();
  });

  afterEach(async () => {
    const stopped = root.stop();
    await clock.advance(30_000);
    await stopped;
    expect(places).to.equal(0);
    expect(nurseries, "the one of the test").to.equal(1);
    comedy.close();
  });

  function actor(changes: Partial<ActorSpec<Nothing>> = {}): ActorSpec<Nothing> {
    return {
      id: "actor",
      kind: "actor",
      restart: "temporary",
      start: () => ({ handlers: { nothing: () => {} } }),
      ...changes,
    };
  }

  it("is given back by one that is stopped", async () => {
    const ref = await root.startActor(actor());
    expect(places).to.equal(1);
    await ref.stop();
    expect(places).to.equal(0);
  });

  it("is given back by one that crashes; the next life takes another", async () => {
    const lives: ActorContext<Nothing>[] = [];
    await root.startActor(
      actor({
        restart: "permanent",
        start: (given) => {
          lives.push(given);
          return { handlers: { nothing: () => {} } };
        },
      }),
    );
    for (const _ of [1, 2, 3]) {
      lives.at(-1)?.crash(new Error("a secret"));
      expect(places).to.equal(0);
      await clock.advance(1_000);
      expect(places).to.equal(1);
    }
  });

  it("is given back by one that does not come up", async () => {
    const start = (): never => {
      throw new Error("a secret");
    };
    await codeOfRejection(root.startActor(actor({ start })));
    expect(places).to.equal(0);
  });

  it("is given back by one that is abandoned", async () => {
    const ref = await root.startActor(
      actor({
        start: () => ({ handlers: { nothing: () => {} }, stop: () => new Promise(() => {}) }),
      }),
    );
    const stopped = ref.stop();
    await clock.advance(5_000);
    await stopped;
    expect(places).to.equal(0);
  });

  it("is given back by one that ended before its place was made", async () => {
    const held = gate();
    making = held.promise;
    const starting = codeOfRejection(root.startActor(actor()));
    await settle();
    const stopped = root.stop();
    await clock.advance(5_000);
    await stopped;
    expect(await starting).to.equal("actor_unavailable");
    expect(places).to.equal(1);
    held.resolve();
    await settle();
    expect(places).to.equal(0);
  });

  it("goes with the nursery of its supervisor, which each life of that makes anew", async () => {
    const group = await root.startSupervisor(
      supervisorSpec("group", { intensity: { restarts: 0, windowMs: 1_000 } }),
    );
    const lives: ActorContext<Nothing>[] = [];
    await group.startActor(
      actor({
        restart: "permanent",
        start: (given) => {
          lives.push(given);
          return { handlers: { nothing: () => {} } };
        },
      }),
    );
    expect([places, nurseries]).to.deep.equal([1, 3]);
    lives.at(-1)?.crash(new Error("a secret"));
    await settle();
    expect([places, nurseries]).to.deep.equal([0, 2]);
    await clock.advance(100);
    expect([places, nurseries]).to.deep.equal([1, 3]);
    await group.stop();
    expect([places, nurseries]).to.deep.equal([0, 2]);
  });
});
