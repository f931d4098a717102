/** Proves that one new master key reaches every vault of a state folder: of a controller, its local node and a worker. */
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import {
  managedToken,
  RoleStage,
  type StartedController,
  type StartedNode,
  until,
} from "../../support/role-stage.ts";

describe("a new master key of a state folder that several processes share", () => {
  let stage: RoleStage;
  let controller: StartedController;
  let worker: StartedNode;
  let client: Client;
  let ids: string[];

  const join = () =>
    stage.node(controller, {
      home: controller.home,
      environment: { LEMON_NODE_OPERATOR_TOKEN: managedToken(controller) },
    });
  const set = (operationId: string) =>
    Promise.all(
      ids.map((nodeId) =>
        client.call("node.secrets.set", { nodeId, name: "name", value: "value", operationId }),
      ),
    );
  const matches = async (operationId: string): Promise<boolean[]> => {
    const receipts = ids.map((nodeId) =>
      client.call("node.secrets.receipt", { nodeId, operationId }),
    );
    return (await Promise.all(receipts)).map(({ currentBindingMatches }) => currentBindingMatches);
  };

  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("up");
    worker = await join();
    client = await stage.client(controller.url, managedToken(controller));
    ids = [String(controller.ready["nodeId"]), worker.nodeId];
    const made = await stage.lemon(["secrets", "init"], { LEMON_HOME: controller.home });
    expect(made.exitCode).to.equal(0);
    await client.call("secrets.set", { name: "name", value: "value" });
  });
  after(() => stage[Symbol.asyncDispose]());

  it("is followed by all of them before the rotation is answered, whoever was asked for it", async () => {
    await set("op:1");
    expect(await matches("op:1")).to.deep.equal([true, true]);
    const rotated = await client.call("secrets.rotate", {});
    expect([rotated.count, rotated.behind]).to.deep.equal([2, []]);
    expect(await matches("op:1")).to.deep.equal([false, false]);
    await set("op:2");
    expect(await matches("op:2")).to.deep.equal([true, true]);
    expect(await client.call("node.secrets.rotate", { nodeId: worker.nodeId })).to.deep.equal({
      count: 1,
      behind: [],
    });
    expect(await matches("op:2")).to.deep.equal([false, false]);
    const { cleanup, healthy } = await client.call("secrets.status", {});
    expect([cleanup, healthy]).to.deep.equal([{ unerased: 0, unrotated: 0 }, true]);
  });

  it("names the one that can not follow yet, which does by itself", async () => {
    await set("op:3");
    worker.role.child.kill("SIGSTOP");
    try {
      const { behind } = await client.call("secrets.rotate", {});
      expect(behind).to.deep.equal([worker.nodeId]);
    } finally {
      worker.role.child.kill("SIGCONT");
    }
    await until("the worker follows", async () => {
      const all = await matches("op:3").catch(() => [true]);
      return all.includes(true) ? undefined : true;
    });
  });

  it("waits for none that was killed, which follows when it starts, however many keys came since", async () => {
    await set("op:4");
    await worker.role.end("SIGKILL");
    for (let round = 0; round < 2; round += 1) {
      expect((await client.call("secrets.rotate", {})).behind).to.deep.equal([]);
    }
    worker = await join();
    expect(await matches("op:4")).to.deep.equal([false, false]);
    await set("op:5");
    const { behind } = await client.call("secrets.rotate", {});
    expect(behind).to.deep.equal([]);
    expect(await matches("op:5")).to.deep.equal([false, false]);
  });
});
