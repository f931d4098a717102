/** Proves `node.invoke` and its answers over real sockets: who is told what, and when. */
import { expect } from "chai";
import { InvokedBrowser } from "../../support/invoked-browser.ts";
import type { DoorNode, NodeDoor } from "../../support/node-door.ts";
import { Party } from "../../support/party.ts";
import { operator } from "../../support/ws-client.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe("an invocation", () => {
  let room: InvokedBrowser;
  let door: NodeDoor;
  let caller: Party;
  let browser: DoorNode;
  let node: Party;

  beforeEach(async () => {
    room = await InvokedBrowser.open();
    ({ door, caller, browser, node } = room);
  });
  afterEach(() => room.close());

  const invoke: InvokedBrowser["invoke"] = (...how) => room.invoke(...how);
  const completed: InvokedBrowser["completed"] = (...by) => room.completed(...by);

  it("is answered at once, asked of the node's connection, and its result told to who called", async () => {
    const args = { selector: "#go", n: [1, { deep: null }] };
    const answer = await invoke({ args });
    const { invokeId } = answer;
    expect(invokeId).to.match(UUID);
    const { nodeId } = browser;
    expect(answer).to.deep.equal({
      invokeId,
      nodeId,
      method: "browser.click",
      status: "pending",
      summary: { invokeId, nodeId, status: "pending" },
    });
    expect(await node.event()).to.deep.equal({
      event: "node.invoke.request",
      payload: {
        invokeId,
        nodeId,
        nodeName: "browser-1",
        method: "browser.click",
        args,
        timeoutMs: 30_000,
      },
    });
    const result = { clicked: true, rows: [1, null] };
    expect(await node.call("node.invoke.result", { invokeId, result })).to.deep.equal({
      invokeId,
      received: true,
      summary: {
        invokeId,
        nodeId,
        status: "completed",
        ok: true,
        hasResult: true,
        hasError: false,
      },
    });
    expect(await completed()).to.deep.equal({ invokeId, nodeId, ok: true, result, error: null });
    await door.clock.advance(40_000);
    expect(await caller.told()).to.deep.equal([]);
    expect(await node.told()).to.deep.equal([]);
  });

  it("is one without arguments where there are none, and has a result of any kind, also none", async () => {
    for (const result of ["text", 0, false, [], {}, null, undefined]) {
      const { invokeId } = await invoke({ args: null });
      expect((await node.event()).payload.args).to.deep.equal({});
      await node.call("node.invoke.result", { invokeId, result });
      expect(await completed()).to.deep.include({ ok: true, result: result ?? null, error: null });
    }
  });

  it("fails with the node's own error, whatever JSON that is", async () => {
    for (const error of ["no such tab", { code: 7, why: ["x"] }, 0, false, ""]) {
      const { invokeId } = await invoke();
      const { summary } = await node.call("node.invoke.result", { invokeId, error });
      expect(summary).to.include({ status: "error", ok: false, hasResult: false, hasError: true });
      expect(await completed()).to.deep.include({ ok: false, result: null, error });
    }
  });

  it("is told by its id first, however fast the node is", async () => {
    for (let n = 0; n < 50; n += 1) {
      caller.client.request("node.invoke", { nodeId: browser.nodeId, method: "m" }, `i${n}`);
      await node.call("node.invoke.result", { invokeId: (await node.event()).payload.invokeId });
      const [answer, event] = await caller.client.take(2);
      expect(answer?.id).to.equal(`i${n}`);
      expect(event?.["event"]).to.equal("node.invoke.completed");
      expect(event?.["seq"]).to.equal(n + 1);
    }
  });

  it("finds its node by its name too", async () => {
    const { nodeId } = await invoke({ nodeId: "browser-1" });
    expect(nodeId).to.equal(browser.nodeId);
  });

  it("is seen by nobody but its two ends, whatever they hear", async () => {
    const others = [
      await Party.connect(door.gateway.url),
      await door.operator("all", "nodes", "system"),
      await door.connect(await door.pair("browser-2")),
    ];
    await Promise.all(others.map((other) => other.told()));
    const { invokeId } = await invoke({ args: { secret: "c4n4ry-args" } });
    await node.call("node.invoke.result", { invokeId, result: "c4n4ry-result" });
    await completed();
    const failing = await invoke();
    await node.call("node.invoke.result", {
      invokeId: failing.invokeId,
      error: "c4n4ry-error",
    });
    await completed();
    await invoke({ timeoutMs: 5 });
    await door.clock.advance(5);
    for (const other of others) {
      const heard = (await other.told()).map(({ event }) => String(event));
      expect(heard.filter((event) => event.startsWith("node.invoke"))).to.deep.equal([]);
    }
    expect(`${door.gateway.text()}${door.room.system.text()}`).to.not.include("c4n4ry");
  });

  it("tells an operator its outcome that may only write, and so hears nothing else", async () => {
    const writer = await Party.connect(door.gateway.url, operator({ scopes: ["write"] }));
    const { invokeId } = await invoke({}, writer);
    await node.call("node.invoke.result", { invokeId });
    expect(await completed(writer)).to.include({ invokeId, ok: true });
  });

  it("is uncertain after its time, not before, and the node is told to give up", async () => {
    const { invokeId, nodeId } = await invoke({ timeoutMs: 2_000 });
    await door.clock.advance(1_999);
    expect(await caller.told()).to.deep.equal([]);
    await door.clock.advance(1);
    expect(await completed()).to.deep.equal({
      invokeId,
      nodeId,
      ok: false,
      result: null,
      error: {
        message: "The node did not answer in time; what the node did is unknown",
        code: "timeout",
        retrySafe: false,
        mutationMayHaveApplied: true,
      },
    });
    expect((await node.told()).at(-1)).to.deep.equal({
      event: "node.invoke.cancel",
      payload: { invokeId, nodeId, reason: "timeout" },
    });
  });

  it("is uncertain at once when the node's connection ends, however it ends", async () => {
    for (const end of [
      () => node.client.socket.terminate(),
      () => node.client.socket.close(),
      async () => await door.connect(browser),
      async () => await caller.call("node.revoke", { nodeId: browser.nodeId }),
    ]) {
      node = await door.connect(browser);
      const { invokeId } = await invoke();
      await end();
      const { error, ...rest } = await completed();
      expect(rest).to.include({ invokeId, ok: false });
      expect(error).to.include({ code: "link_lost", mutationMayHaveApplied: true });
    }
  });

  it("goes on when its caller is gone: the node answers as ever, and nobody is told", async () => {
    const other = await door.operator("all");
    const { invokeId } = await invoke();
    await caller.client.close();
    await door.left(3);
    expect((await node.told()).map(({ event }) => event)).to.deep.equal(["node.invoke.request"]);
    const { received } = await node.call("node.invoke.result", { invokeId, result: "r" });
    expect(received).to.equal(true);
    const heard = (await other.told()).map(({ event }) => String(event));
    expect(heard.filter((event) => event.startsWith("node.invoke"))).to.deep.equal([]);
  });

  it("lives on when its node is renamed", async () => {
    const { invokeId } = await invoke();
    await caller.call("node.rename", { nodeId: browser.nodeId, name: "browser-renamed" });
    await node.call("node.invoke.result", { invokeId, result: 1 });
    expect(await completed()).to.include({ invokeId, ok: true });
    await invoke();
    const names = (await node.told()).map(({ payload }) => Object(payload).nodeName);
    expect(names).to.deep.equal(["browser-1", "browser-renamed"]);
  });

  it("is uncertain when the control plane stops, and no other begins", async () => {
    const { invokeId, nodeId } = await invoke();
    await door.invocations.stop();
    const { error } = await completed();
    expect(error).to.include({ code: "actor_ended", mutationMayHaveApplied: true });
    expect((await node.told()).at(-1)).to.deep.equal({
      event: "node.invoke.cancel",
      payload: { invokeId, nodeId, reason: "stopped" },
    });
    const refusal = await caller.refusal("node.invoke", { nodeId, method: "m" });
    expect(refusal.details).to.include({ code: "unavailable", mutationMayHaveApplied: false });
  });

  it("leaves no actor and no timer when it is over", async () => {
    const before = door.clock.pending;
    const { invokeId } = await invoke();
    const kinds = (): string[] =>
      door.room.system
        .snapshot()
        .children.flatMap(({ path, children }) =>
          path.endsWith("/invocations") ? children.map(({ kind }) => kind) : [],
        );
    expect(kinds()).to.deep.equal(["invocation"]);
    await node.call("node.invoke.result", { invokeId });
    await completed();
    expect(kinds()).to.deep.equal([]);
    expect(door.clock.pending).to.equal(before);
  });
});
