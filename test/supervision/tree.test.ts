/** Proves what the snapshot of a tree says. */
import { expect } from "chai";
import type { ActorContext, TreeNode } from "../../supervision/actor.ts";
import { settle } from "../support/fake-clock.ts";
import { gate, supervisorSpec, type TestSystem, testSystem } from "../support/supervision.ts";

type Work = { work: (p: null) => Promise<void> };

describe("the snapshot of a tree", () => {
  let system: TestSystem;

  beforeEach(() => {
    system = testSystem();
  });

  afterEach(() => system[Symbol.asyncDispose]());

  function find(path: string, node: TreeNode = system.snapshot()): TreeNode | undefined {
    if (node.path === path) return node;
    for (const child of node.children) {
      const found = find(path, child);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  it("has every actor under its supervisor, in order, with path, kind and restart", async () => {
    const group = await system.root.startSupervisor(
      supervisorSpec("nodes", { restart: "transient" }),
    );
    for (const [id, restart] of [
      ["worker-1", "temporary"],
      ["worker-2", "permanent"],
    ] as const) {
      await group.startActor<Work>({
        id,
        kind: "node",
        restart,
        start: () => ({ handlers: { work: async () => {} } }),
      });
    }
    const tree = system.snapshot();
    expect(tree).to.include({ path: "/test", kind: "supervisor", state: "running" });
    const nodes = tree.children[0];
    expect(nodes).to.include({ path: "/test/nodes", kind: "supervisor", restart: "transient" });
    expect(nodes?.children.map(({ path, kind, restart }) => [path, kind, restart])).to.deep.equal([
      ["/test/nodes/worker-1", "node", "temporary"],
      ["/test/nodes/worker-2", "node", "permanent"],
    ]);
    expect(nodes?.children.map(({ restartsLeft }) => restartsLeft)).to.deep.equal([null, 5]);
  });

  it("counts the messages that wait and the age of the oldest, not the one in hand", async () => {
    const held = gate();
    const ref = await system.root.startActor<Work>({
      id: "a",
      kind: "worker",
      restart: "permanent",
      start: () => ({ handlers: { work: () => held.promise } }),
    });
    expect(find("/test/a")).to.include({ mailboxDepth: 0, oldestMessageAgeMs: null });
    ref.tell("work", null);
    await settle();
    expect(find("/test/a")).to.include({ mailboxDepth: 0, oldestMessageAgeMs: null });
    ref.tell("work", null);
    await system.clock.advance(70);
    ref.tell("work", null);
    await system.clock.advance(30);
    expect(find("/test/a")).to.include({ mailboxDepth: 2, oldestMessageAgeMs: 100 });
    held.resolve();
    await settle();
    expect(find("/test/a")).to.include({ mailboxDepth: 0, oldestMessageAgeMs: null });
  });

  it("follows a child through its states, and knows when it started by the wall clock", async () => {
    const starting = gate();
    const stopping = gate();
    let context: ActorContext<Work> | undefined;
    const start = system.root.startActor<Work>({
      id: "a",
      kind: "worker",
      restart: "permanent",
      start: async (given) => {
        context = given;
        await starting.promise;
        return { handlers: { work: async () => {} }, stop: () => stopping.promise };
      },
    });
    await settle();
    expect(find("/test/a")).to.include({ state: "starting", startedAtMs: null });
    starting.resolve();
    const ref = await start;
    const startedAtMs = system.clock.nowMs();
    await system.clock.advance(10_000);
    expect(find("/test/a")).to.include({ state: "running", startedAtMs, lastCrash: null });
    context?.beganAnew();
    const anewAtMs = startedAtMs + 10_000;
    expect(find("/test/a")).to.include({ startedAtMs: anewAtMs, restartsInWindow: 0 });
    context?.crash(new TypeError("a secret"));
    expect(find("/test/a")).to.include({ state: "stopping", restartsInWindow: 0 });
    stopping.resolve();
    await settle();
    expect(find("/test/a")).to.include({
      state: "backing_off",
      startedAtMs: null,
      restartsInWindow: 1,
      restartsLeft: 4,
      lastCrash: "TypeError",
    });
    expect(find("/test")).to.include({ restartsInWindow: 1, restartsLeft: 4 });
    await system.clock.advance(100);
    expect(find("/test/a")).to.include({ state: "running", startedAtMs: system.clock.nowMs() });
    await system.clock.advance(60_000);
    expect(find("/test/a")).to.include({ restartsInWindow: 0, restartsLeft: 5 });
    await ref.stop();
    expect(find("/test/a")).to.equal(undefined);
  });

  it("tells a child's own restarts from those of its siblings", async () => {
    const contexts: ActorContext<Work>[] = [];
    for (const id of ["a", "b"]) {
      await system.root.startActor<Work>({
        id,
        kind: "worker",
        restart: "permanent",
        start: (context) => {
          contexts.push(context);
          return { handlers: { work: async () => {} } };
        },
      });
    }
    contexts[0]?.crash(new Error("a secret"));
    await settle();
    const counts = system.snapshot().children.map((n) => [n.restartsInWindow, n.restartsLeft]);
    expect(counts).to.deep.equal([
      [1, 4],
      [0, 4],
    ]);
  });
});
