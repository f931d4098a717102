import { availableParallelism } from "node:os";
import { assert } from "chai";
import { type ProcessTree, systemMethods } from "../../../actors/control-plane/system-methods.ts";
import type { Caller } from "../../../actors/session/handler.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { METHODS } from "../../../protocol/methods.ts";
import type { TreeNode } from "../../../supervision/actor.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { testGateway } from "../../support/gateway.ts";
import { refusalOf } from "../../support/refusal.ts";
import { WsClient } from "../../support/ws-client.ts";

const LEAF: TreeNode = {
  path: "/lemon/sessions",
  kind: "supervisor",
  state: "running",
  restart: "permanent",
  mailboxDepth: 0,
  oldestMessageAgeMs: null,
  startedAtMs: 5,
  restartsInWindow: 1,
  restartsLeft: 4,
  lastCrash: "timeout",
  children: [],
};
const TREE: TreeNode = { ...LEAF, path: "/lemon", children: [LEAF] };
const NODE_TREE: ProcessTree = { source: "node-1", name: "worker-1", tree: null, error: "timeout" };

function setUp(changes: Partial<Parameters<typeof systemMethods>[0]> = {}) {
  const clock = new FakeClock();
  const asked: unknown[] = [];
  const methods = systemMethods({
    build: { version: "2026.12.0", runtimeMode: "source-dev", channel: null, commit: "abc" },
    clock,
    connections: () => ({ active: 3, operators: 1, nodes: 2, devices: 0 }),
    tree: () => TREE,
    nodeTrees: async (nodeId) => {
      asked.push(nodeId);
      return [NODE_TREE];
    },
    residentBytes: () => 100 * 1_048_576 + 12_345,
    ...changes,
  });
  return { asked, clock, methods };
}

const caller = {} as Caller;

async function declared(method: string, result: unknown): Promise<unknown> {
  const settled = await result;
  const parsed = METHODS.get(method)?.result.safeParse(settled);
  assert.isTrue(parsed?.success, JSON.stringify(parsed?.error));
  return settled;
}

describe("health", () => {
  it("says how long and how large this process is", async () => {
    const { clock, methods } = setUp();
    await clock.advance(1_234);
    const health = await declared("health", methods.health({}, caller));
    assert.deepInclude(Object(health), { ok: true, uptime_ms: 1_234, memory_mb: 100.01 });
    assert.deepInclude(Object(health).summary, { action: "health", ok: true, uptimeMs: 1_234 });
    assert.isAtLeast(Object(health).schedulers, 1);
  });

  it("measures the memory once a second at most, however often it is asked", async () => {
    let measured = 0;
    const { clock, methods } = setUp({ residentBytes: () => ++measured * 1_048_576 });
    for (let call = 0; call < 5; call += 1) await methods.health({}, caller);
    assert.equal(measured, 1);
    await clock.advance(999);
    assert.equal((await methods.health({}, caller)).memory_mb, 1);
    await clock.advance(1);
    assert.equal((await methods.health({}, caller)).memory_mb, 2);
    assert.equal((await methods.status({}, caller)).server.memory_mb, 2);
  });
});

describe("health without a measurement", () => {
  it("is answered with the last one there was", async () => {
    let fails = false;
    const { clock, methods } = setUp({
      residentBytes: () => {
        if (fails) throw new Error("EMFILE");
        return 7 * 1_048_576;
      },
    });
    fails = true;
    await clock.advance(1_000);
    assert.deepInclude(await methods.health({}, caller), { ok: true, memory_mb: 7 });
    fails = false;
  });
});

describe("status", () => {
  it("shows the version, the build and the connections by role", async () => {
    const { methods } = setUp();
    const status = Object(await declared("status", methods.status({}, caller)));
    assert.equal(status.server.version, "2026.12.0");
    assert.equal(status.summary.version, "2026.12.0");
    assert.deepEqual(status.server.build, {
      runtimeMode: "source-dev",
      channel: null,
      commit: "abc",
    });
    assert.isNull(status.server.otp_release);
    assert.notProperty(status.server, "beam");
    assert.deepEqual(status.connections, { active: 3, operators: 1, nodes: 2, devices: 0 });
  });

  it("knows nothing it can not know: runs are null, what does not exist is unavailable", async () => {
    const { methods } = setUp();
    const answer = await methods.status({}, caller);
    const { runs, subsystems, channels, skills, providers, summary } = answer;
    assert.deepEqual(runs, {
      active: null,
      queued: null,
      completed_today: null,
      failed_today: null,
    });
    assert.deepEqual(subsystems, {
      presence: { status: "available" },
      router: {
        status: "unavailable",
        fields: {
          active: "unavailable",
          queued: "unavailable",
          completed_today: "unavailable",
          failed_today: "unavailable",
        },
      },
      channels: { status: "unavailable" },
      skills: { status: "unavailable" },
      providers: { status: "unavailable" },
    });
    assert.deepEqual(channels, { configured: [], connected: [], details: [] });
    assert.deepEqual(skills, { installed: 0, enabled: 0 });
    assert.deepEqual(providers, []);
    assert.isNull(summary["providerCount"]);
    assert.isNull(summary["providersMissingCredentials"]);
  });

  it("has a number for each of its counts in the summary, and says that it holds no secret", async () => {
    const { methods } = setUp();
    const { connections, summary } = await methods.status({}, caller);
    assert.deepEqual(summary, {
      action: "status",
      version: "2026.12.0",
      uptimeMs: 0,
      memoryMb: 100.01,
      schedulerCount: availableParallelism(),
      connectionCount: connections.active,
      operatorCount: connections.operators,
      nodeCount: connections.nodes,
      deviceCount: connections.devices,
      activeRunCount: null,
      queuedRunCount: null,
      completedTodayCount: null,
      failedTodayCount: null,
      configuredChannelCount: 0,
      connectedChannelCount: 0,
      channelErrorCount: 0,
      installedSkillCount: 0,
      enabledSkillCount: 0,
      providerCount: null,
      providersMissingCredentials: null,
      cleanup: {
        includesCredentials: false,
        includesSecretValues: false,
        includesPaths: false,
        includesContent: false,
      },
    });
  });

  it("offers to restart or stop exactly what is served, and says why not", async () => {
    const { methods } = setUp();
    const { lifecycle } = await methods.status({}, caller);
    assert.equal(lifecycle.restart, METHODS.has("system.restart"));
    assert.equal(lifecycle.stop, METHODS.has("system.stop"));
    assert.match(lifecycle.reason ?? "", /whoever started it/);
  });

  it("counts what is really connected", async () => {
    const gateway = await testGateway();
    try {
      const first = await WsClient.connect(gateway.url);
      await WsClient.connect(gateway.url);
      await WsClient.open(gateway.url);
      const status = Object((await first.call("status")).payload);
      assert.deepEqual(status.connections, { active: 2, operators: 2, nodes: 0, devices: 0 });
    } finally {
      await gateway.close();
    }
  });
});

describe("supervision.tree", () => {
  it("shows this process's tree and those of the nodes, with what could not be read", async () => {
    const { asked, clock, methods } = setUp();
    const { generatedAtMs, trees } = await methods["supervision.tree"]({}, caller);
    await declared("supervision.tree", { generatedAtMs, trees });
    assert.equal(generatedAtMs, clock.nowMs());
    assert.deepEqual(asked, [undefined]);
    assert.deepEqual<unknown>(trees, [
      { source: "controller", name: "controller", tree: TREE, error: null },
      NODE_TREE,
    ]);
  });

  it("shows one node's tree alone when it is named", async () => {
    const { asked, methods } = setUp();
    const { trees } = await methods["supervision.tree"]({ nodeId: "worker-1" }, caller);
    assert.deepEqual(asked, ["worker-1"]);
    assert.deepEqual(trees, [NODE_TREE]);
  });

  it("fails as the nodes' part does", async () => {
    const { methods } = setUp({
      nodeTrees: () => Promise.reject(new LemonError("node_not_found")),
    });
    const refused = await refusalOf(() => methods["supervision.tree"]({ nodeId: "x" }, caller));
    assert.equal(refused.code, "node_not_found");
  });
});
