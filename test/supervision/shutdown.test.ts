/** Proves that a tree ends in order and in time, whatever its actors do. */
import { expect } from "chai";
import type { ActorSpec, Behaviour, SupervisorRef } from "../../supervision/actor.ts";
import { settle } from "../support/fake-clock.ts";
import {
  codeOfRejection,
  deathsOf,
  supervisorSpec,
  type TestSystem,
  testSystem,
} from "../support/supervision.ts";

const soon = { deadlineMs: 600_000 };

type Idle = { ping: (p: null) => string; hang: (p: null) => string };

describe("the shutdown of a system", () => {
  let system: TestSystem;
  let stopped: string[];

  beforeEach(() => {
    system = testSystem();
    stopped = [];
  });

  afterEach(async () => {
    await system.shutdown();
    expect(system.clock.pending, "timers left behind").to.equal(0);
    expect(system.snapshot()).to.include({ state: "ended" });
    expect(system.snapshot().children).to.deep.equal([]);
  });

  function idle(id: string, changes: Partial<ActorSpec<Idle>> = {}): ActorSpec<Idle> {
    return {
      id,
      kind: "idle",
      restart: "permanent",
      shutdownMs: 1_000,
      start: () => behaviour(id),
      ...changes,
    };
  }

  function behaviour(id: string, stop: () => unknown = () => {}): Behaviour<Idle> {
    return {
      handlers: { ping: () => "pong", hang: () => new Promise(() => {}) },
      stop: async (reason) => {
        stopped.push(reason === "shutdown" ? id : `${id} ${reason}`);
        await stop();
      },
    };
  }

  /** The promise, and whether it has settled by now. */
  function track(promise: Promise<unknown>) {
    const tracked = { promise, settled: false };
    void promise.then(() => {
      tracked.settled = true;
    });
    return tracked;
  }

  async function hung(supervisor: SupervisorRef, id: string, shutdownMs = 1_000) {
    const ref = await supervisor.startActor(idle(id, { shutdownMs }));
    const asked = codeOfRejection(ref.ask("hang", null, soon));
    await settle();
    return { ref, asked };
  }

  it("stops the children in reverse order, subtrees as a whole, each before the next", async () => {
    await system.root.startActor(idle("a"));
    const group = await system.root.startSupervisor(supervisorSpec("group"));
    await group.startActor(idle("b"));
    await group.startActor(
      idle("c", {
        start: () =>
          behaviour("c", async () => {
            await settle();
            stopped.push("c is through");
          }),
      }),
    );
    await system.root.startActor(idle("d"));
    await system.shutdown();
    expect(stopped).to.deep.equal(["d", "c", "c is through", "b", "a"]);
    expect(await system.ended).to.deep.equal({ path: "/test", reason: "shutdown", code: null });
  });

  it("gives each child its deadline, abandons it then, and goes on", async () => {
    await system.root.startActor(idle("a"));
    const { asked } = await hung(system.root, "hangs", 2_000);
    await hung(system.root, "hangs too", 3_000);
    await system.root.startActor(idle("d"));
    const down = track(system.shutdown());
    await system.clock.advance(2_999);
    expect(stopped).to.deep.equal(["d"]);
    await system.clock.advance(1);
    expect(stopped).to.deep.equal(["d", "hangs too killed"]);
    await system.clock.advance(1_999);
    expect(down.settled).to.equal(false);
    await system.clock.advance(1);
    expect(down.settled).to.equal(true);
    expect(stopped).to.deep.equal(["d", "hangs too killed", "hangs killed", "a"]);
    expect(await asked).to.equal("actor_ended");
  });

  it("stops children all at once where that was asked for, so that their deadlines do not add up", async () => {
    const group = await system.root.startSupervisor(
      supervisorSpec("group", { stopOrder: "together" }),
    );
    await group.startActor(idle("a"));
    for (const id of ["b", "c", "d"]) await hung(group, id);
    const down = track(system.shutdown());
    await settle();
    expect(stopped).to.deep.equal(["a"]);
    await system.clock.advance(999);
    expect(down.settled).to.equal(false);
    await system.clock.advance(1);
    expect(down.settled).to.equal(true);
    expect(stopped).to.have.members(["a", "b killed", "c killed", "d killed"]);
  });

  it("abandons what is left when the whole has taken too long", async () => {
    system = testSystem({ shutdownMs: 1_500 });
    await system.root.startActor(idle("a"));
    const group = await system.root.startSupervisor(supervisorSpec("group"));
    const inner = await group.startSupervisor(supervisorSpec("inner"));
    for (const id of ["b", "c", "d"]) await hung(inner, id);
    const innerDeaths = deathsOf(inner);
    const down = track(system.shutdown());
    await system.clock.advance(1_499);
    expect(stopped).to.deep.equal(["d killed"]);
    expect(down.settled).to.equal(false);
    await system.clock.advance(1);
    expect(down.settled).to.equal(true);
    expect(stopped).to.deep.equal(["d killed", "c killed", "b killed", "a killed"]);
    expect(innerDeaths.map(({ reason }) => reason)).to.deep.equal(["killed"]);
    expect((await system.ended).reason).to.equal("killed");
  });

  it("can be hurried by asking again, and not be slowed down", async () => {
    await hung(system.root, "a", 20_000);
    const down = track(system.shutdown({ withinMs: 10_000 }));
    await system.clock.advance(1_000);
    void system.shutdown({ withinMs: 60_000 });
    void system.shutdown({ withinMs: 500 });
    void system.shutdown({ withinMs: 60_000 });
    await system.clock.advance(499);
    expect(down.settled).to.equal(false);
    await system.clock.advance(1);
    expect(down.settled).to.equal(true);
    await system.shutdown();
    await system.shutdown();
  });

  it("is not held up by a start that hangs", async () => {
    const starting = codeOfRejection(
      system.root.startActor(idle("a", { start: () => new Promise(() => {}) })),
    );
    await settle();
    const down = track(system.shutdown());
    await system.clock.advance(999);
    expect(down.settled).to.equal(false);
    await system.clock.advance(1);
    expect(down.settled).to.equal(true);
    expect(await starting).to.equal("actor_unavailable");
  });

  it("starts nothing more: not what waits out its back-off, not what is asked for", async () => {
    let starts = 0;
    const crashes: (() => void)[] = [];
    const failing = (id: string): ActorSpec<Idle> =>
      idle(id, {
        start: ({ crash }) => {
          starts += 1;
          crashes.push(() => crash(new Error("a secret")));
          return behaviour(id);
        },
      });
    await system.root.startActor(failing("a"));
    const group = await system.root.startSupervisor(
      supervisorSpec("group", { strategy: "one_for_all" }),
    );
    await group.startActor(failing("b"));
    for (const crash of crashes) crash();
    await settle();
    expect(starts).to.equal(2);
    const down = system.shutdown();
    expect(await codeOfRejection(system.root.startActor(idle("late")))).to.equal(
      "actor_unavailable",
    );
    expect(await codeOfRejection(system.root.startSupervisor(supervisorSpec("late")))).to.equal(
      "actor_unavailable",
    );
    await down;
    await system.clock.advance(60_000);
    expect(starts).to.equal(2);
  });

  it("while a supervisor restarts its children stops those that are up already", async () => {
    const group = await system.root.startSupervisor(
      supervisorSpec("group", { strategy: "one_for_all" }),
    );
    await group.startActor(idle("a"));
    let hang = false;
    let crash = (): void => {};
    await group.startActor(
      idle("b", {
        start: (context) => {
          crash = () => context.crash(new Error("a secret"));
          return hang ? new Promise(() => {}) : behaviour("b");
        },
      }),
    );
    hang = true;
    crash();
    await system.clock.advance(100);
    expect(stopped).to.deep.equal(["b crash", "a"]);
    const down = track(system.shutdown());
    await system.clock.advance(1_000);
    expect(down.settled).to.equal(true);
    expect(stopped).to.deep.equal(["b crash", "a", "a"]);
  });

  it("does not restart a child that crashes while the others are being stopped", async () => {
    let starts = 0;
    let crash = (): void => {};
    await system.root.startActor(
      idle("a", {
        start: (context) => {
          starts += 1;
          crash = () => context.crash(new Error("a secret"));
          return behaviour("a");
        },
      }),
    );
    await hung(system.root, "hangs");
    const down = system.shutdown();
    crash();
    await system.clock.advance(1_000);
    await down;
    expect(stopped).to.deep.equal(["a crash", "hangs killed"]);
    expect(starts).to.equal(1);
  });

  it("does not turn a supervisor that is just giving up into an orderly end", async () => {
    system = testSystem({ root: { intensity: { restarts: 0, windowMs: 1_000 } } });
    await hung(system.root, "hangs");
    let crash = (): void => {};
    await system.root.startActor(
      idle("a", {
        start: (context) => {
          crash = () => context.crash(new Error("a secret"));
          return behaviour("a");
        },
      }),
    );
    crash();
    await settle();
    const down = system.shutdown({ withinMs: 500 });
    await system.clock.advance(500);
    await down;
    expect(await system.ended).to.deep.equal({
      path: "/test",
      reason: "crash",
      code: "restart_intensity_exceeded",
    });
  });

  it("tells each watcher of each actor once", async () => {
    const heard: string[] = [];
    const group = await system.root.startSupervisor(supervisorSpec("group"));
    const watched = [
      system.root,
      group,
      await group.startActor(idle("a")),
      await system.root.startActor(idle("b")),
    ];
    for (const one of watched) one.watch(({ path, reason }) => heard.push(`${path} ${reason}`));
    await system.shutdown();
    await system.clock.advance(60_000);
    expect(heard).to.deep.equal([
      "/test/b shutdown",
      "/test/group/a shutdown",
      "/test/group shutdown",
      "/test shutdown",
    ]);
  });

  it("of an empty system is possible at once, and the same as stopping its root", async () => {
    await system.shutdown();
    system = testSystem();
    await system.root.stop();
    expect((await system.ended).reason).to.equal("shutdown");
  });
});
