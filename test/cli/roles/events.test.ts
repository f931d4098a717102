/** Proves what a client of a running control plane is told without asking. */
import { join } from "node:path";
import { expect } from "chai";
import { signalProcess } from "../../../host/process-identity.ts";
import {
  managedToken,
  RoleStage,
  recordedServer,
  type StartedController,
} from "../../support/role-stage.ts";
import { type Frame, WsClient } from "../../support/ws-client.ts";

describe("a control plane tells its clients", () => {
  let stage: RoleStage;
  let controller: StartedController;
  let client: WsClient;

  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start");
    client = await WsClient.connect(controller.url, {
      auth: { token: managedToken(controller) },
      client: { id: "watcher" },
    });
  });
  after(() => stage[Symbol.asyncDispose]());

  /** The next event of this name. */
  async function told(event: string): Promise<Frame> {
    for (;;) {
      const frame = await client.next();
      if (frame["event"] === event) return frame;
    }
  }

  it("who is connected", async () => {
    const { connections, count } = Object((await told("presence")).payload);
    expect(count).to.equal(1);
    expect(connections[0]).to.include({ role: "operator", client_id: "watcher" });
  });

  it("that a machine asks to become a node, and what was decided", async () => {
    client.request("node.pair.request", { nodeType: "machine", nodeName: "worker-1" });
    const { pairingId, code, nodeName } = Object((await told("node.pair.requested")).payload);
    expect(code).to.match(/^\d{6}$/);
    expect(nodeName).to.equal("worker-1");
    client.request("node.pair.reject", { pairingId });
    expect(Object((await told("node.pair.resolved")).payload)).to.deep.equal({
      pairingId,
      nodeId: null,
      approved: false,
      rejected: true,
    });
  });

  it("that its hub was lost, and is back", async () => {
    signalProcess(recordedServer(join(controller.home, "controller/hub")), "SIGKILL");
    const lost = await told("health");
    expect(Object(lost.payload)).to.deep.equal({ ok: false, hub: "lost" });
    const back = await told("health");
    expect(Object(back.payload)).to.deep.equal({ ok: true, hub: "connected" });
    expect(Object(back["stateVersion"]).health).to.equal(Object(lost["stateVersion"]).health + 1);
  });

  it("that it stops, before it closes", async () => {
    controller.role.child.kill("SIGTERM");
    expect(Object((await told("shutdown")).payload)).to.deep.equal({ reason: "stopping" });
    expect((await client.closed()).code).to.equal(1001);
    expect((await controller.role.ended()).exitCode).to.equal(0);
  });
});
