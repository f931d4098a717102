import { expect } from "chai";
import { managedToken, RoleStage, shellRun } from "../../support/role-stage.ts";

describe("a node under a new durable id", () => {
  let stage: RoleStage;
  beforeEach(() => {
    stage = new RoleStage();
  });
  afterEach(() => stage[Symbol.asyncDispose]());

  it("follows a local node that was removed: a store of its own, nothing spent", async () => {
    const first = await stage.controller("up");
    await first.role.said("probe");
    const nodeId = String(first.ready["nodeId"]);
    const client = await stage.client(first.url, managedToken(first));
    const revoked = await client.call("node.revoke", { nodeId }).catch((error: unknown) => error);
    expect(revoked).to.include({ code: "conflict", mutationMayHaveApplied: false });
    await client.call("node.remove", { nodeId });
    await first.role.end("SIGTERM");

    const next = await stage.controller("up");
    const probe = await next.role.said("probe");
    const nextId = String(next.ready["nodeId"]);
    expect(nextId).to.not.equal(nodeId);
    expect(probe["receipt"]).to.include({ nodeId: nextId, state: "completed", exitCode: 0 });
    const again = await stage.client(next.url, managedToken(next));
    const receipt = await again.call("node.process.run", shellRun(nextId, "t:1", "exit 3"));
    expect(receipt).to.include({ state: "completed", exitCode: 3 });
  });

  it("knows nothing of what its machine did under another, and finds it again as that one", async () => {
    const controller = await stage.controller("start");
    const token = managedToken(controller);
    const client = await stage.client(controller.url, token);
    const environment = { LEMON_NODE_OPERATOR_TOKEN: token };
    const stateOf = async (nodeId: string) =>
      (await client.call("node.process.get", { nodeId, processId: "t:1" })).state;

    const first = await stage.node(controller, { environment });
    await client.call("node.process.run", shellRun(first.nodeId, "t:1", "exit 3"));
    await first.role.end("SIGTERM");
    await client.call("node.rename", { nodeId: first.nodeId, name: "before" });

    const other = await stage.node(controller, { environment, words: ["--pair"] });
    expect(other.nodeId).to.not.equal(first.nodeId);
    expect(await stateOf(other.nodeId)).to.equal("not_found");
    const run = await client.call("node.process.run", shellRun(other.nodeId, "t:1", "exit 4"));
    expect(run).to.include({ nodeId: other.nodeId, state: "completed", exitCode: 4 });
    await other.role.end("SIGTERM");

    const words = ["--node-id", first.nodeId, "--repair"];
    const back = await stage.node(controller, { environment, words });
    expect(back.nodeId).to.equal(first.nodeId);
    const kept = await client.call("node.process.get", { nodeId: back.nodeId, processId: "t:1" });
    expect(kept).to.include({ state: "completed", exitCode: 3 });
  });
});
