import { assert } from "chai";
import type { Caller } from "../../../actors/session/handler.ts";
import type { TreeNode } from "../../../supervision/actor.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { WsClient } from "../../support/ws-client.ts";

const RENAMED = { nodeId: "n", name: "x", renamed: true, summary: {} } as const;
const PARAMS = { nodeId: "n", name: "x" };

function sessionsOf({ system }: TestGateway): readonly TreeNode[] {
  return system.snapshot().children.find(({ path }) => path === "/test/sessions")?.children ?? [];
}

/** The gateway's part of a closed socket is over when it counts one less. */
async function gone(gateway: TestGateway, left: number): Promise<void> {
  while (gateway.connections() > left || sessionsOf(gateway).length > left) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("a session", () => {
  it("is an actor of its own, temporary, that lives as long as its socket", async () => {
    const gateway = await testGateway();
    try {
      const clients = [await WsClient.connect(gateway.url), await WsClient.open(gateway.url)];
      const rows = sessionsOf(gateway);
      assert.deepEqual(
        rows.map(({ kind, state, restart }) => [kind, state, restart]),
        [
          ["session", "running", "temporary"],
          ["session", "running", "temporary"],
        ],
      );
      for (const client of clients) await client.close();
      await gone(gateway, 0);
      assert.equal(gateway.roster.counts().active, 0);
    } finally {
      await gateway.close();
    }
  });

  it("counts for its role from hello-ok to its end", async () => {
    const gateway = await testGateway();
    try {
      const stranger = await WsClient.open(gateway.url);
      assert.deepEqual(gateway.roster.counts(), { active: 0, operators: 0, nodes: 0, devices: 0 });
      const client = await WsClient.connect(gateway.url);
      assert.deepEqual(gateway.roster.counts(), { active: 1, operators: 1, nodes: 0, devices: 0 });
      await client.close();
      await gone(gateway, 1);
      assert.deepEqual(gateway.roster.counts(), { active: 0, operators: 0, nodes: 0, devices: 0 });
      await stranger.close();
    } finally {
      await gateway.close();
    }
  });

  it("ends with a socket that broke without a word", async () => {
    const gateway = await testGateway();
    try {
      const client = await WsClient.connect(gateway.url);
      client.socket.terminate();
      await gone(gateway, 0);
    } finally {
      await gateway.close();
    }
  });

  it("tells its handlers that their caller is gone; what has effects goes on, and answers nobody", async () => {
    const begun = Promise.withResolvers<Caller>();
    const finish = Promise.withResolvers<void>();
    let finished = false;
    const gateway = await testGateway({
      handlers: {
        "node.rename": async (_params, caller) => {
          begun.resolve(caller);
          await finish.promise;
          finished = true;
          return RENAMED;
        },
      },
    });
    try {
      const client = await WsClient.connect(gateway.url);
      client.request("node.rename", PARAMS);
      const { closed } = await begun.promise;
      assert.isFalse(closed.aborted);
      const aborted = new Promise((resolve) => closed.addEventListener("abort", resolve));
      await client.close();
      await aborted;
      finish.resolve();
      await gone(gateway, 0);
      assert.isTrue(finished);
      assert.notInclude(gateway.text(), "failed unexpectedly");
      assert.notInclude(gateway.text(), "crashed");
    } finally {
      await gateway.close();
    }
  });

  it("lets 256 handlers listen for its end without a warning", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const gateway = await testGateway({
      handlers: {
        "node.rename": (_params, { closed }) =>
          new Promise((_, reject) =>
            closed.addEventListener("abort", () => reject(new Error("gone"))),
          ),
      },
    });
    try {
      const client = await WsClient.connect(gateway.url);
      for (let index = 0; index < 256; index += 1) client.request("node.rename", PARAMS);
      await client.call("health");
      await client.close();
      await gone(gateway, 0);
      assert.deepEqual(warnings, []);
    } finally {
      process.off("warning", onWarning);
      await gateway.close();
    }
  });

  it("is ended by a handler with a code and a reason, cut to what a close frame holds", async () => {
    const gateway = await testGateway({
      handlers: {
        "node.rename": (_params, caller) => {
          caller.close(4001, `${"é".repeat(100)}`);
          return RENAMED;
        },
        "node.remove": async (_params, caller) => {
          caller.close(4002, "replaced");
          return { nodeId: "n", removed: true };
        },
      },
    });
    try {
      const first = await WsClient.connect(gateway.url);
      first.request("node.rename", PARAMS);
      assert.deepEqual(await first.closed(), { code: 4001, reason: "é".repeat(61) });
      const second = await WsClient.connect(gateway.url);
      second.request("node.remove", { nodeId: "n" });
      assert.deepEqual(await second.closed(), { code: 4002, reason: "replaced" });
      await gone(gateway, 0);
    } finally {
      await gateway.close();
    }
  });

  it("that crashes closes its socket with 1011 and takes nobody with it", async () => {
    const gateway = await testGateway({
      authenticate: async ({ clientId }) => {
        // No identity and no failure: that is in nobody's contract, and the session falls over it.
        if (clientId === "bad") return JSON.parse("null");
        return { role: "operator", clientId, node: null };
      },
    });
    try {
      const other = await WsClient.connect(gateway.url, {});
      const client = await WsClient.open(gateway.url);
      client.request("connect", { client: { id: "bad" } });
      const end = await client.closed();
      assert.deepEqual(end, { code: 1011, reason: "internal error" });
      await gone(gateway, 1);
      assert.equal(gateway.roster.counts().active, 1);
      assert.equal((await other.call("health")).ok, true);
      assert.isTrue(gateway.lines.some((line) => line["msg"] === "actor crashed"));
    } finally {
      await gateway.close();
    }
  });
});

describe("an ordered stop", () => {
  it("lets what is in flight be answered, refuses what comes, and closes with 1001", async () => {
    const begun = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    const gateway = await testGateway({
      handlers: {
        "node.rename": async () => {
          begun.resolve();
          await finish.promise;
          return RENAMED;
        },
      },
    });
    try {
      const busy = await WsClient.connect(gateway.url);
      const idle = await WsClient.connect(gateway.url);
      const stranger = await WsClient.open(gateway.url);
      busy.request("node.rename", PARAMS, "running");
      await begun.promise;
      const stopped = gateway.system.shutdown();
      const end = { code: 1001, reason: "server is shutting down" };
      assert.deepEqual(await idle.closed(), end);
      assert.deepEqual(await stranger.closed(), end);
      const refused = await busy.call("node.rename", PARAMS);
      assert.equal(refused.error?.code, "UNAVAILABLE");
      assert.deepEqual(refused.error?.details, {
        code: "unavailable",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
      assert.equal((await busy.call("health")).ok, true);
      finish.resolve();
      const answered = await busy.next();
      assert.equal(answered.id, "running");
      assert.equal(answered.ok, true);
      assert.deepEqual(await busy.closed(), end);
      await stopped;
    } finally {
      await gateway.close();
    }
  });

  it("lets large answers leave before it closes, and does nothing that had to wait for them", async () => {
    let asked = 0;
    const gateway = await testGateway({
      handlers: {
        "node.pair.list": () => {
          asked += 1;
          return { requests: [], summary: { pad: "x".repeat(3_000_000) } };
        },
      },
    });
    try {
      const client = await WsClient.connect(gateway.url);
      client.socket.pause();
      for (let index = 0; index < 8; index += 1) client.request("node.pair.list");
      const other = await WsClient.connect(gateway.url);
      await other.call("health");
      const askedBefore = asked;
      assert.isAbove(askedBefore, 1);
      const stopped = gateway.system.shutdown();
      await other.closed();
      client.socket.resume();
      assert.equal((await client.closed()).code, 1001);
      await stopped;
      const answered = client.unread.filter((frame) => frame.ok === true);
      assert.equal(answered.length, askedBefore);
      assert.equal(asked, askedBefore);
    } finally {
      await gateway.close();
    }
  });

  it("waits no longer than its time for what does not end, all sessions together", async () => {
    const clock = new FakeClock();
    const begun: PromiseWithResolvers<void>[] = [];
    const gateway = await testGateway({
      clock,
      handlers: {
        "node.rename": () => {
          begun.shift()?.resolve();
          return new Promise<never>(() => {});
        },
      },
    });
    try {
      const clients: WsClient[] = [];
      for (let index = 0; index < 20; index += 1) {
        const client = await WsClient.connect(gateway.url);
        const here = Promise.withResolvers<void>();
        begun.push(here);
        client.request("node.rename", PARAMS);
        await here.promise;
        clients.push(client);
      }
      const stopped = gateway.system.shutdown();
      await clock.advance(2_999);
      assert.equal(gateway.connections(), 20);
      await clock.advance(1);
      for (const client of clients) assert.equal((await client.closed()).code, 1001);
      await stopped;
      await gone(gateway, 0);
    } finally {
      await gateway.close();
    }
  });

  it("waits no longer than its time for peers that do not answer the close", async () => {
    const clock = new FakeClock();
    const gateway = await testGateway({ clock });
    try {
      const client = await WsClient.connect(gateway.url);
      client.socket.pause();
      const stopped = gateway.system.shutdown();
      await clock.advance(1_000);
      await stopped;
      assert.equal(gateway.connections(), 1);
      await clock.advance(4_000);
      assert.equal(gateway.connections(), 0);
      client.socket.terminate();
    } finally {
      await gateway.close();
    }
  });

  it("turns away who comes afterwards", async () => {
    const gateway = await testGateway();
    try {
      await gateway.system.shutdown();
      const late = await WsClient.open(gateway.url);
      assert.deepEqual(await late.closed(), { code: 1001, reason: "server is shutting down" });
    } finally {
      await gateway.close();
    }
  });
});
