import { join } from "node:path";
import { expect } from "chai";
import { identify, isAlive } from "../../../host/process-identity.ts";
import {
  managedToken,
  RoleStage,
  recordedServer,
  shellRun,
  until,
} from "../../support/role-stage.ts";

describe("a nats-server that hangs", () => {
  it("is killed and started again, on the controller and on a node, and both do their work again", async () => {
    await using stage = new RoleStage();
    const controller = await stage.controller("start");
    const token = managedToken(controller);
    const node = await stage.node(controller, {
      environment: { LEMON_NODE_OPERATOR_TOKEN: token },
    });
    const client = await stage.client(controller.url, token);
    const { nodeId } = node;
    const run = (id: string) => client.call("node.process.run", shellRun(nodeId, id, "exit 3"));
    expect(await run("before")).to.include({ exitCode: 3 });

    const roles = [
      { role: controller.role, folder: join(controller.home, "controller", "hub") },
      { role: node.role, folder: join(node.home, "nodes", node.name, "server", nodeId) },
    ].map(({ role, folder }) => ({ role, folder, hung: recordedServer(folder) }));
    for (const { hung } of roles) process.kill(hung.pid, "SIGSTOP");
    for (const { role, folder, hung } of roles) {
      await role.until(() => (/does not answer any more/.test(role.log) ? true : undefined));
      await role.until(() =>
        (role.log.match(/"nats-server is ready"/g)?.length ?? 0) > 1 ? true : undefined,
      );
      expect(isAlive(hung)).to.equal(false);
      expect(identify(recordedServer(folder).pid)).not.to.equal(null);
    }
    await until("the node is online", async () => {
      const { status } = await client.call("node.describe", { nodeId });
      return status === "online" ? true : undefined;
    });
    const after = await until("a run is admitted", () =>
      run("after").then(
        (receipt) => receipt,
        () => undefined,
      ),
    );
    expect(after).to.include({ exitCode: 3 });
    const kept = await client.call("node.process.get", { nodeId, processId: "before" });
    expect(kept).to.include({ state: "completed", exitCode: 3 });
    const { trees } = await client.call("supervision.tree", {});
    expect(trees.length).to.equal(2);
    for (const { tree } of trees) {
      const server = tree?.children.find(({ kind }) => kind === "nats-server");
      expect(server).to.include({ restartsInWindow: 1, lastCrash: "nats_server_silent" });
    }
  });
});
