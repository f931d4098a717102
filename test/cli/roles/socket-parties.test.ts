/** Proves browser nodes and devices with the real controller, its hub and its store: also over its restart. */
import { expect } from "chai";
import { filesHolding } from "../../support/canaries.ts";
import { Party } from "../../support/party.ts";
import {
  managedToken,
  RoleStage,
  type StartedController,
  until,
} from "../../support/role-stage.ts";
import { WsClient } from "../../support/ws-client.ts";

describe("a controller with a browser node and a device", () => {
  let stage: RoleStage;
  let controller: StartedController;
  const controllers: StartedController[] = [];
  let admin: Party;
  let browser: { readonly nodeId: string; readonly token: string };
  let device: { readonly deviceId: string; readonly token: string };

  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start");
    controllers.push(controller);
  });
  after(() => stage[Symbol.asyncDispose]());

  const connect = (token: string) => Party.connect(controller.url, { auth: { token } });
  const begin = async () => {
    admin = await connect(managedToken(controller));
    // It is told only what is addressed to it.
    await admin.call("events.unsubscribe");
  };
  const status = async (): Promise<unknown> =>
    (await admin.call("node.describe", { nodeId: browser.nodeId })).status;

  it("pairs both", async () => {
    await begin();
    const asked = { nodeType: "browser", nodeName: "browser-1" };
    const { pairingId } = await admin.call("node.pair.request", asked);
    const approved = await admin.call("node.pair.approve", { pairingId });
    const node = await admin.call("connect.challenge", { challenge: approved.challengeToken });
    browser = { nodeId: approved.nodeId, token: node.token };
    const request = await admin.call("device.pair.request", {
      deviceType: "phone",
      deviceName: "phone-1",
    });
    const { deviceId, challengeToken } = await admin.call("device.pair.approve", {
      pairingId: request.pairingId,
    });
    const { token } = await admin.call("connect.challenge", { challenge: challengeToken });
    device = { deviceId, token };
  });

  it("has the node asked, and stops with a word to who still waits", async () => {
    const node = await connect(browser.token);
    expect(await status()).to.equal("online");
    const args = { url: "https://example.org/?c4n4ry-args" };
    const invocation = { nodeId: browser.nodeId, method: "browser.navigate", args };
    const { invokeId } = await admin.call("node.invoke", invocation);
    expect((await node.event()).payload).to.deep.include({ invokeId, args });
    await node.call("node.invoke.result", { invokeId, result: { title: "c4n4ry-result" } });
    expect((await admin.event()).payload).to.deep.include({
      invokeId,
      ok: true,
      result: { title: "c4n4ry-result" },
    });
    await node.call("node.event", { eventType: "log", payload: { message: "c4n4ry-log" } });

    const left = await admin.call("node.invoke", invocation);
    controller.role.child.kill("SIGTERM");
    const { payload } = await admin.event();
    expect(payload).to.deep.include({ invokeId: left.invokeId, ok: false });
    expect(payload.error).to.include({ code: "actor_ended", mutationMayHaveApplied: true });
    expect((await admin.client.closed()).code).to.equal(1001);
    expect((await controller.role.ended()).exitCode).to.equal(0);
  });

  it("knows both again after its restart, by their tokens alone", async () => {
    controller = await stage.controller("start", { home: controller.home });
    controllers.push(controller);
    await begin();
    expect(await status()).to.equal("offline");
    const { lastSeenMs } = await admin.call("node.describe", { nodeId: browser.nodeId });
    expect(lastSeenMs).to.be.a("number");
    const node = await connect(browser.token);
    expect(await status()).to.equal("online");
    const phone = await connect(device.token);
    expect(phone.hello["auth"]).to.deep.equal({
      role: "device",
      scopes: ["control"],
      clientId: device.deviceId,
    });
    node.client.socket.terminate();
    await until("the node offline", async () =>
      (await status()) === "offline" ? true : undefined,
    );
  });

  it("hears no more guesses than it says", async () => {
    const guesses = await Promise.all(
      Array.from({ length: 100 }, async () => {
        const client = await WsClient.open(controller.url);
        const { error } = await client.call("connect", { auth: { token: "wrong" } });
        return error?.code;
      }),
    );
    expect(guesses).to.include("UNAUTHORIZED");
    expect(guesses).to.include("RATE_LIMITED");
  });

  it("has written none of their words and tokens anywhere", () => {
    for (const secret of ["c4n4ry", browser.token, device.token]) {
      expect(filesHolding(stage.path, secret)).to.deep.equal([]);
      for (const { role } of controllers) expect(role.log.includes(secret)).to.equal(false);
    }
  });
});
