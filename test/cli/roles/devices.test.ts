/** Proves with the real controller, its store and the command that a revoked device stays out, whatever happens to the controller. */
import { join } from "node:path";
import { expect } from "chai";
import type { DeviceRow } from "../../../cli/device/list.ts";
import { signalProcess } from "../../../host/process-identity.ts";
import { DEVICE_CLOSE } from "../../../protocol/methods/devices.ts";
import { filesHolding } from "../../support/canaries.ts";
import { Party } from "../../support/party.ts";
import {
  managedToken,
  RoleStage,
  recordedServer,
  type StartedController,
} from "../../support/role-stage.ts";
import { WsClient } from "../../support/ws-client.ts";

describe("an operator's revocation of a device, by the command", () => {
  let stage: RoleStage;
  let controller: StartedController;
  const controllers: StartedController[] = [];

  before(async () => {
    stage = new RoleStage();
    await start();
  });
  after(() => stage[Symbol.asyncDispose]());

  async function start(): Promise<void> {
    controller = await stage.controller("start");
    controllers.push(controller);
  }
  async function lemon(...words: readonly string[]) {
    const ended = await stage.lemon([...words, "--json"], { LEMON_HOME: controller.home });
    const document: unknown = JSON.parse(ended.stdout.toString());
    return { exitCode: ended.exitCode, document };
  }
  async function rows(): Promise<readonly object[]> {
    const { exitCode, document } = await lemon("device", "list");
    expect(exitCode).to.equal(0);
    const { devices } = document as { readonly devices: readonly DeviceRow[] };
    return devices.map(({ deviceId, connections }) => ({ deviceId, connections }));
  }
  const connect = (token: string) => Party.connect(controller.url, { auth: { token } });
  async function pair(deviceName: string) {
    const admin = await connect(managedToken(controller));
    await admin.call("events.unsubscribe");
    const asked = { deviceType: "phone", deviceName };
    const { pairingId } = await admin.call("device.pair.request", asked);
    const { deviceId, challengeToken } = await admin.call("device.pair.approve", { pairingId });
    const { token } = await admin.call("connect.challenge", { challenge: challengeToken });
    await admin.client.close();
    return { deviceId: String(deviceId), token: String(token) };
  }
  async function refusalOf(token: string): Promise<string | undefined> {
    const client = await WsClient.open(controller.url);
    const { error } = await client.call("connect", { auth: { token } });
    await client.close();
    return error?.message;
  }

  it("ends its connections, and is in force after the controller is killed and started anew", async () => {
    const lost = await pair("lost phone");
    const kept = await pair("kept phone");
    const [phone, other] = [await connect(lost.token), await connect(kept.token)];
    expect(await rows()).to.deep.equal([
      { deviceId: kept.deviceId, connections: 1 },
      { deviceId: lost.deviceId, connections: 1 },
    ]);

    const { deviceId } = lost;
    const revoked = await lemon("device", "revoke", "lost phone");
    controller.role.child.kill("SIGKILL");
    signalProcess(recordedServer(join(controller.home, "controller", "hub")), "SIGKILL");
    expect(revoked).to.deep.equal({ exitCode: 0, document: { deviceId, revoked: true } });
    expect(await phone.client.closed()).to.deep.equal(DEVICE_CLOSE.revoked);
    const KILLED = 1006;
    expect((await other.client.closed()).code).to.equal(KILLED);
    await controller.role.ended();

    await start();
    expect(await refusalOf(lost.token)).to.equal("Invalid token");
    expect((await connect(kept.token)).hello["auth"]).to.include({ clientId: kept.deviceId });
    expect(await lemon("device", "revoke", deviceId)).to.have.property("exitCode", 122);
    expect(await rows()).to.deep.equal([{ deviceId: kept.deviceId, connections: 1 }]);
    for (const { token } of [lost, kept]) {
      expect(filesHolding(stage.path, token)).to.deep.equal([]);
      for (const { role } of controllers) expect(role.log.includes(token)).to.equal(false);
    }
  });
});
