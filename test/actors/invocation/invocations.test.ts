/** Proves `node.invoke` and its answers over real sockets: who is told what, and when. */
import { expect } from "chai";
import { PENDING_PER_NODE } from "../../../actors/invocation/book.ts";
import { PASSED_JSON_BOUNDS } from "../../../protocol/json-policy.ts";
import { METHODS } from "../../../protocol/methods.ts";
import { type DoorNode, NodeDoor } from "../../support/node-door.ts";
import { opening } from "../../support/nodes-room.ts";
import { Party } from "../../support/party.ts";
import { operator } from "../../support/ws-client.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe("an invocation", () => {
  let door: NodeDoor;
  let caller: Party;
  let browser: DoorNode;
  let node: Party;

  beforeEach(async () => {
    door = await NodeDoor.open();
    browser = await door.pair("browser-1");
    node = await door.connect(browser);
    caller = await door.operator();
  });
  afterEach(() => door.close());

  const invoke = (more: object = {}, by = caller) =>
    by.call("node.invoke", { nodeId: browser.nodeId, method: "browser.click", ...more });
  const completed = async (by = caller) => {
    const { event, payload } = await by.event();
    expect(event).to.equal("node.invoke.completed");
    return payload;
  };
  const told = ({ code, message }: { readonly code: string; readonly message: string }) =>
    `${code}: ${message}`;

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

  describe("is refused", () => {
    it("when the node is not known, and when it is not online", async () => {
      const unknown = await caller.refusal("node.invoke", { nodeId: "none", method: "m" });
      expect(told(unknown)).to.equal("NOT_FOUND: Node not found");
      await node.client.close();
      await door.left(2);
      const offline = await caller.refusal("node.invoke", { nodeId: browser.nodeId, method: "m" });
      expect(told(offline)).to.equal("UNAVAILABLE: Node is not online");
      expect(offline.details).to.include({
        code: "node_offline",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
    });

    it("when the node has fallen silent", async () => {
      const mute = await door.connect(browser, { autoPong: false });
      await door.clock.advance(6_000);
      const offline = await caller.refusal("node.invoke", { nodeId: browser.nodeId, method: "m" });
      expect(told(offline)).to.equal("UNAVAILABLE: Node is not online");
      expect(await mute.told()).to.deep.equal([]);
    });

    it("when the node has a worker with a link", async () => {
      const worker = await door.pair("worker-1");
      await (await door.connect(worker)).call("node.link.open", opening());
      const refusal = await caller.refusal("node.invoke", { nodeId: worker.nodeId, method: "m" });
      expect(refusal.code).to.equal("UNAVAILABLE");
      expect(refusal.details).to.include({
        code: "capability_missing",
        mutationMayHaveApplied: false,
      });
    });

    it("when the control plane serves the method itself", async () => {
      const owned = [
        ...METHODS.keys(),
        ...["fs", "process", "secrets", "host", "link"].flatMap((family) => [
          `node.${family}`,
          `node.${family}.anything`,
          `node.${family}/anything`,
        ]),
        "node.native.followup",
        "node.mcp.discover",
        "node.profile",
        "node.profile.paths",
        "node.profiles.list",
        "profile.chat",
        "profiles.sync",
        "chat.send",
        "secrets.set",
        "coding_agent.run",
        "sessions.delete",
        "config.set",
        "system.stop",
        "events.ingest",
        "runs.receipt.get",
        "exec.approval.resolve",
        "connect",
        "connect.challenge",
        "Node.FS.read",
        "HEALTH",
      ];
      for (const method of owned) {
        const refusal = await caller.refusal("node.invoke", { nodeId: browser.nodeId, method });
        expect(told(refusal), method).to.equal(
          "FORBIDDEN: This method is the control plane's own: it can not be asked of a node",
        );
      }
      const invented = [
        "browser.navigate",
        "browser.config.get",
        "fs.read",
        "node.custom",
        "node.native",
        "my.node.fs.read",
        "chat",
        "chatter.send",
        "system",
        "execute",
        "disconnect",
      ];
      for (const method of invented) await invoke({ method });
      expect(await node.told()).to.have.length(invented.length);
    });

    it("when its arguments can not be passed on, and says which bound they break", async () => {
      const text = "x".repeat(PASSED_JSON_BOUNDS.bytes - JSON.stringify({ text: "" }).length);
      await invoke({ args: { text } });
      expect((await node.event()).payload.args.text).to.have.length(text.length);
      const refusal = await caller.refusal("node.invoke", {
        nodeId: browser.nodeId,
        method: "m",
        args: { text: `${text}x` },
      });
      expect(told(refusal)).to.equal("INVALID_REQUEST: args violate JSON payload policy");
      expect(refusal.details).to.include({ kind: "max_bytes", mutationMayHaveApplied: false });
      caller.client.send(
        `{"type":"req","id":"n","method":"node.invoke","params":{"nodeId":"browser-1","method":"m","args":{"a":1e999}}}`,
      );
      expect((await caller.client.next()).error?.details).to.include({ kind: "not_json_safe" });
      expect(await node.told()).to.deep.equal([]);
    });

    it("when a parameter is missing, of the wrong type or out of its bounds", async () => {
      const { nodeId } = browser;
      const bound = "Invalid params: timeoutMs: must be 1 to 1800000";
      const name = "Invalid params: method: must be 1 to 128 printable characters without spaces";
      for (const [params, message] of [
        [{}, "Missing required fields: nodeId, method"],
        [{ nodeId, method: "m", args: [] }, "Type errors: args: expected map, got list"],
        [
          { nodeId, method: "m", timeoutMs: 1.5 },
          "Type errors: timeoutMs: expected integer, got float",
        ],
        [{ nodeId, method: "m", timeoutMs: 0 }, bound],
        [{ nodeId, method: "m", timeoutMs: 1_800_001 }, bound],
        [{ nodeId, method: " health" }, name],
        [{ nodeId, method: "m".repeat(129) }, name],
      ] as const) {
        const refusal = await caller.refusal("node.invoke", params);
        expect(told(refusal)).to.equal(`INVALID_REQUEST: ${message}`);
      }
      await invoke({ timeoutMs: 1_800_000, method: "m".repeat(128) });
      await invoke({ timeoutMs: 1 });
    });

    it("without the scope to write, and to a node", async () => {
      const reader = await Party.connect(door.gateway.url, operator({ scopes: ["read", "admin"] }));
      for (const party of [reader, node]) {
        const { code, message } = await party.refusal("node.invoke", {
          nodeId: browser.nodeId,
          method: "m",
        });
        expect(told({ code, message })).to.equal(
          "FORBIDDEN: Insufficient permissions for node.invoke",
        );
      }
    });

    it("when too many wait for the node already", async () => {
      const [first] = await Promise.all([invoke()]);
      for (let n = 1; n < PENDING_PER_NODE; n += 1) await invoke();
      const refusal = await caller.refusal("node.invoke", { nodeId: browser.nodeId, method: "m" });
      expect(refusal.code).to.equal("RATE_LIMITED");
      expect(refusal.details?.["retryAfterMs"]).to.equal(1_000);
      await node.call("node.invoke.result", { invokeId: first.invokeId });
      await invoke();
    });
  });

  describe("has its answer refused", () => {
    const answer = async (by: Party, invokeId: string, more: object = {}) =>
      told(await by.refusal("node.invoke.result", { invokeId, ...more }));

    it("from another node, and when there is none", async () => {
      const { invokeId } = await invoke();
      const other = await door.connect(await door.pair("browser-2"));
      const foreign = "FORBIDDEN: Invocation belongs to a different node";
      expect(await answer(other, invokeId)).to.equal(foreign);
      expect(await answer(node, "none")).to.equal("NOT_FOUND: Invocation not found");
      await node.call("node.invoke.result", { invokeId, result: 1 });
      expect(await completed()).to.deep.include({ invokeId, ok: true, result: 1 });
      expect(await answer(other, invokeId)).to.equal(foreign);
    });

    it("the second time, and after the deadline", async () => {
      const late = "CONFLICT: Invocation is no longer pending";
      const first = await invoke();
      await node.call("node.invoke.result", { invokeId: first.invokeId, result: 1 });
      expect(await answer(node, first.invokeId, { result: 2 })).to.equal(late);
      expect(await completed()).to.deep.include({ result: 1 });
      const second = await invoke({ timeoutMs: 10 });
      await door.clock.advance(10);
      expect(await answer(node, second.invokeId, { result: 2 })).to.equal(late);
      expect(await completed()).to.include({ invokeId: second.invokeId, ok: false });
      expect(await caller.told()).to.deep.equal([]);
    });

    it("over a later connection of the same node", async () => {
      const { invokeId } = await invoke();
      const next = await door.connect(browser);
      expect(await completed()).to.include({ invokeId, ok: false });
      expect(await answer(next, invokeId, { result: 1 })).to.equal(
        "CONFLICT: Invocation is no longer pending",
      );
    });

    it("from an operator, and from a node without an id", async () => {
      const { invokeId } = await invoke();
      expect(await answer(caller, invokeId)).to.equal(
        "FORBIDDEN: Method node.invoke.result requires node role",
      );
      expect(told(await node.refusal("node.invoke.result", {}))).to.equal(
        "INVALID_REQUEST: Missing required fields: invokeId",
      );
    });

    it("when it can not be passed on: the caller learns which bound it broke, the node is to give up", async () => {
      const result = "x".repeat(PASSED_JSON_BOUNDS.bytes - 2);
      const fits = await invoke();
      await node.call("node.invoke.result", { invokeId: fits.invokeId, result });
      expect((await completed()).result).to.have.length(result.length);
      await node.told();
      for (const oversized of [{ result: `${result}x` }, { error: `${result}x` }]) {
        const { invokeId, nodeId } = await invoke();
        await node.event();
        expect(await answer(node, invokeId, oversized)).to.equal(
          "INVALID_REQUEST: result violates JSON payload policy",
        );
        const { error, ...rest } = await completed();
        expect(rest).to.deep.equal({ invokeId, nodeId, ok: false, result: null });
        expect(error).to.deep.equal({
          message: "The node's answer is not valid; what it did is unknown",
          code: "invalid_remote_payload",
          kind: "max_bytes",
          retrySafe: false,
          mutationMayHaveApplied: true,
        });
        expect(await node.told()).to.deep.equal([
          { event: "node.invoke.cancel", payload: { invokeId, nodeId, reason: "invalid_result" } },
        ]);
      }
    });
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
