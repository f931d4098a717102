import { expect } from "chai";
import { managedToken, RoleStage, shellRun } from "../../support/role-stage.ts";

describe("a local node that was removed", () => {
  let stage: RoleStage;
  before(() => {
    stage = new RoleStage();
  });
  after(() => stage[Symbol.asyncDispose]());

  it("is a new one after the next start: another id, a store of its own, nothing spent", async () => {
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
});
