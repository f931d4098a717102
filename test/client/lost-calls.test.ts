/** Proves what a call says whose answer does not come: the line is cut, its time is over, its caller stops. */
import { expect } from "chai";
import type { Client } from "../../client/index.ts";
import type { MethodName } from "../../protocol/methods.ts";
import { CallingClient, callError, RUN } from "../support/calling-client.ts";
import { type FakeControlPlane, SILENCE } from "../support/fake-control-plane.ts";
import { ManualTimers } from "../support/manual-timers.ts";
import { bare, completed, NODE_ID, nodeList } from "../support/node-rows.ts";

describe("a call", () => {
  let calling: CallingClient;
  let peer: FakeControlPlane;
  let client: Client;

  async function start(...how: Parameters<typeof CallingClient.start>): Promise<void> {
    calling = await CallingClient.start(...how);
    ({ peer, client } = calling);
  }
  afterEach(() => calling.close());

  it("that is a mutation is uncertain when the line is cut, and names the read that settles it", async () => {
    await start();
    peer.on("node.process.run", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
    const error = await callError(() => client.call("node.process.run", RUN));
    expect(error).to.include({
      code: "link_lost",
      wire: "UNAVAILABLE",
      retrySafe: false,
      mutationMayHaveApplied: true,
      answered: false,
    });
    expect(error.settledBy).to.deep.equal({
      method: "node.process.get",
      params: { nodeId: NODE_ID, processId: "t:1" },
    });
    expect(error.message).to.include("node.process.get").and.to.include("t:1");
  });

  for (const operationId of [undefined, "o:1"]) {
    it(`that is cut off names the read of a secret's proof ${operationId === undefined ? "not, when it has no" : "by its"} operation id`, async () => {
      await start();
      peer.on("node.secrets.set", (_params, connection) => {
        connection.drop();
        return SILENCE;
      });
      const given = { nodeId: NODE_ID, name: "token", value: "canary-value" };
      const id = operationId === undefined ? {} : { operationId };
      const error = await callError(() => client.call("node.secrets.set", { ...given, ...id }));
      expect(error.mutationMayHaveApplied).to.equal(true);
      expect(error.message).to.not.include("canary");
      expect(error.settledBy).to.deep.equal(
        operationId === undefined
          ? null
          : { method: "node.secrets.receipt", params: { nodeId: NODE_ID, operationId } },
      );
    });
  }

  it("that is a read may be repeated when the line is cut", async () => {
    await start();
    peer.on("node.list", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
    const error = await callError(() => client.call("node.list", {}));
    expect(error).to.include({
      code: "link_lost",
      retrySafe: true,
      mutationMayHaveApplied: false,
      settledBy: null,
    });
  });

  it("keeps an answer that came before the line was cut", async () => {
    await start();
    peer.on("node.process.run", (_params, connection) => {
      connection.frame({ type: "res", id: "c1", ok: true, payload: completed("t:1") });
      connection.close(1001, "going away");
      return SILENCE;
    });
    const receipt = await client.call("node.process.run", RUN);
    expect(receipt.state).to.equal("completed");
  });

  const settlements: readonly {
    readonly method: MethodName;
    readonly params: Record<string, unknown>;
    readonly settledBy: unknown;
  }[] = [
    {
      method: "node.process.cancel",
      params: { nodeId: NODE_ID, processId: "t:1" },
      settledBy: {
        method: "node.process.get",
        params: { nodeId: NODE_ID, processId: "t:1" },
      },
    },
    {
      method: "node.rename",
      params: { nodeId: NODE_ID, name: "n" },
      settledBy: { method: "node.describe", params: { nodeId: NODE_ID } },
    },
    {
      method: "node.revoke",
      params: { nodeId: NODE_ID },
      settledBy: { method: "node.describe", params: { nodeId: NODE_ID } },
    },
    {
      method: "node.remove",
      params: { nodeId: NODE_ID },
      settledBy: { method: "node.list", params: {} },
    },
    {
      method: "node.pair.approve",
      params: { pairingId: "p" },
      settledBy: { method: "node.pair.list", params: {} },
    },
    { method: "connect.challenge", params: { challenge: "c" }, settledBy: null },
  ];
  for (const { method, params, settledBy } of settlements) {
    it(`to ${method} whose answer is lost is settled by ${JSON.stringify(settledBy)}`, async () => {
      await start();
      peer.on(method, (_params, connection) => {
        connection.drop();
        return SILENCE;
      });
      const error = await callError(() => client.call(method, params as never));
      expect(error.mutationMayHaveApplied).to.equal(true);
      expect(error.settledBy).to.deep.equal(settledBy);
    });
  }

  it("ends at its own deadline, and its late answer goes to nobody", async () => {
    const timers = new ManualTimers();
    await start({}, { timers });
    const release = Promise.withResolvers<void>();
    peer.on("node.process.run", async () => {
      await release.promise;
      return completed("t:1");
    });
    const lost = callError(() => client.call("node.process.run", RUN));
    await peer.seen("node.process.run");
    // The broker waits timeoutMs + 5 s, the control plane 1 s more; the way there and back has 5 s.
    expect(timers.delaysMs).to.include(12_000);
    timers.advance(11_999);
    timers.advance(1);
    expect(await lost).to.include({
      code: "timeout",
      wire: "TIMEOUT",
      mutationMayHaveApplied: true,
    });
    peer.on("node.process.get", ({ processId }) => bare(processId, "running"));
    release.resolve();
    const receipt = await client.call("node.process.get", { nodeId: NODE_ID, processId: "t:2" });
    expect(receipt.processId).to.equal("t:2");
  });

  it("ends when its caller says so; what was sent stays uncertain", async () => {
    await start();
    peer.on("node.process.run", () => SILENCE);
    const stop = new AbortController();
    const stopped = callError(() => client.call("node.process.run", RUN, { signal: stop.signal }));
    await peer.seen("node.process.run");
    stop.abort(new Error("enough"));
    const error = await stopped;
    expect(error).to.include({ code: "aborted", mutationMayHaveApplied: true });
    expect(error.cause).to.have.property("message", "enough");
  });

  it("sends nothing for a caller that had already stopped", async () => {
    await start();
    const error = await callError(() =>
      client.call("node.process.run", RUN, { signal: AbortSignal.abort() }),
    );
    expect(error).to.include({ code: "aborted", mutationMayHaveApplied: false, retrySafe: true });
    peer.on("node.list", () => nodeList());
    await client.call("node.list", {});
    expect(peer.count("node.process.run")).to.equal(0);
  });
});
