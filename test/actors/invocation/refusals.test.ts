/** Proves which invocations are refused, and which answers to them. */
import { expect } from "chai";
import { PENDING_PER_NODE } from "../../../actors/invocation/book.ts";
import { PASSED_JSON_BOUNDS } from "../../../protocol/json-policy.ts";
import { METHODS } from "../../../protocol/methods.ts";
import { InvokedBrowser, told } from "../../support/invoked-browser.ts";
import type { DoorNode, NodeDoor } from "../../support/node-door.ts";
import { opening } from "../../support/nodes-room.ts";
import { Party } from "../../support/party.ts";
import { operator } from "../../support/ws-client.ts";

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
});
