/** Proves, over real sockets, how a device gets a session and what that is worth. */
import { expect } from "chai";
import { DEVICE_CLOSE } from "../../../protocol/methods/devices.ts";
import { DeviceDoor, told } from "../../support/device-door.ts";
import { Party } from "../../support/party.ts";
import { operator } from "../../support/ws-client.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const WEEK_MS = 604_800_000;

describe("a device", () => {
  let devices: DeviceDoor;

  beforeEach(async () => {
    devices = await DeviceDoor.open();
  });
  afterEach(() => devices.close());

  it("asks, is approved and exchanges its challenge for a session of its own", async () => {
    const expiresAtMs = devices.door.clock.nowMs() + 300_000;
    const { pairingId, code, ...asked } = await devices.request();
    expect(code).to.match(/^[0-9]{6}$/);
    expect(asked).to.deep.equal({
      expiresAtMs,
      summary: { pairingId, deviceType: "phone", expiresAtMs },
    });
    const about = { pairingId, deviceType: "phone", deviceName: "phone-1" };
    expect(await devices.admin.told()).to.deep.equal([
      { event: "device.pair.requested", payload: about },
    ]);
    const approval = await devices.admin.call("device.pair.approve", { pairingId });
    const { deviceId, challengeToken } = approval;
    expect(deviceId).to.match(UUID);
    expect(approval).to.deep.include({ pairingId, approved: true });
    expect(await devices.admin.told()).to.deep.equal([
      { event: "device.pair.resolved", payload: { ...about, status: "approved" } },
    ]);
    const redeemed = await devices.redeem(challengeToken);
    expect(redeemed).to.deep.include({
      verified: true,
      identity: { type: "device", deviceId, deviceName: "phone-1" },
      summary: {
        verified: true,
        identityType: "device",
        identityId: deviceId,
        tokenTtlMs: WEEK_MS,
      },
    });
    const hello = await devices.greet(redeemed.token);
    expect(hello["auth"]).to.deep.equal({
      role: "device",
      scopes: ["control"],
      clientId: deviceId,
    });
    expect(await devices.admin.call("node.list")).to.deep.include({ nodes: [] });
  });

  it("can do nothing that asks for another scope, and hears of no pairing, only of the control plane", async () => {
    const { token } = await devices.pair();
    const device = await devices.connect(token);
    for (const [method, params] of [
      ["node.list", {}],
      ["device.pair.request", { deviceType: "phone", deviceName: "x" }],
      ["node.invoke", { nodeId: "n", method: "m" }],
    ] as const) {
      expect(told(await device.refusal(method, params))).to.equal(
        `FORBIDDEN: Insufficient permissions for ${method}`,
      );
    }
    await devices.request("phone-2");
    devices.door.gateway.broadcast.publish("shutdown", { reason: "stopping" });
    expect((await device.told()).map(({ event }) => event)).to.deep.equal(["shutdown"]);
  });

  it("is told why its challenge or its request is worth nothing", async () => {
    const { challengeToken } = await devices.approve();
    await devices.redeem(challengeToken);
    const challenge = (worth: string) =>
      devices.admin.refusal("connect.challenge", { challenge: worth });
    expect(told(await challenge(challengeToken))).to.equal("UNAUTHORIZED: Invalid challenge");
    const late = await devices.approve();
    await devices.door.clock.advance(60_000);
    expect(told(await challenge(late.challengeToken))).to.equal("UNAUTHORIZED: Challenge expired");
    const inTime = await devices.approve();
    await devices.door.clock.advance(59_999);
    await devices.redeem(inTime.challengeToken);
    const decide = async (pairingId: string, method = "approve") =>
      told(await devices.admin.refusal(`device.pair.${method}`, { pairingId }));
    expect(await decide("none")).to.equal("NOT_FOUND: Pairing request not found");
    const { pairingId } = await devices.request();
    await devices.admin.told();
    await devices.admin.call("device.pair.reject", { pairingId });
    expect(await devices.admin.told()).to.deep.equal([
      {
        event: "device.pair.resolved",
        payload: { pairingId, status: "rejected", deviceType: "phone", deviceName: "phone-1" },
      },
    ]);
    const notPending = "INVALID_REQUEST: Pairing request is not pending";
    expect(await decide(pairingId)).to.equal(notPending);
    const approved = await devices.approve();
    expect(await decide(approved.pairingId, "reject")).to.equal(notPending);
    const old = await devices.request();
    await devices.door.clock.advance(300_000);
    expect(await decide(old.pairingId)).to.equal("INVALID_REQUEST: Pairing request has expired");
  });

  it("gets another challenge when it is approved again; with the token of that all before it ends", async () => {
    const first = await devices.approve();
    const { token } = await devices.redeem(first.challengeToken);
    const older = [await devices.connect(token), await devices.connect(token)];
    const other = await devices.connect((await devices.pair()).token);
    const again = await devices.admin.call("device.pair.approve", { pairingId: first.pairingId });
    expect(again.deviceId).to.equal(first.deviceId);
    for (const party of older) expect((await party.answer("health")).ok).to.equal(true);
    const next = await devices.redeem(again.challengeToken);
    for (const party of older)
      expect(await party.client.closed()).to.deep.equal(DEVICE_CLOSE.replaced);
    expect(await devices.refusalOf(token)).to.equal("UNAUTHORIZED: Invalid token");
    const newer = await devices.connect(next.token);
    for (const party of [newer, other]) expect((await party.answer("health")).ok).to.equal(true);
  });

  it("keeps its session over a restart of the controller, by the token's hash alone", async () => {
    const { token, deviceId } = await devices.pair();
    expect(devices.documents.text()).to.include(deviceId);
    expect(devices.documents.text()).to.not.include(token);
    expect(`${devices.door.gateway.text()}${devices.door.room.system.text()}`).to.not.include(
      token,
    );
    devices = await devices.restart();
    expect(Object((await devices.greet(token))["auth"]).clientId).to.equal(deviceId);
  });

  it("has a session for seven days, not more, and is forgotten when it is gone", async () => {
    const { token, deviceId } = await devices.pair();
    devices.door.clock.jumpWallClock(WEEK_MS - 1);
    const phone = await devices.connect(token);
    devices.door.clock.jumpWallClock(1);
    expect(await devices.refusalOf(token)).to.equal("UNAUTHORIZED: Token has expired");
    await devices.pair("phone-2");
    expect(devices.documents.text()).to.include(deviceId);
    await phone.answer("health");
    await devices.leave(phone);
    await devices.pair("phone-3");
    expect(devices.documents.text()).to.not.include(deviceId);
    expect(await devices.refusalOf(token)).to.equal("UNAUTHORIZED: Invalid token");
    expect(devices.documents.text().split("\n")).to.have.length(2);
  });

  it("loses nothing when the store refuses, and what was not answered is worth nothing", async () => {
    const { challengeToken, pairingId } = await devices.approve();
    devices.documents.writeFaults.push({ kind: "refused" });
    const refused = await devices.admin.refusal("connect.challenge", { challenge: challengeToken });
    expect(refused.details).to.include({ code: "unavailable", retrySafe: true });
    devices.documents.writeFaults.push({ kind: "lost", applied: true });
    const lost = await devices.admin.refusal("connect.challenge", { challenge: challengeToken });
    expect(lost.details).to.include({ code: "timeout", mutationMayHaveApplied: true });
    // The challenge is spent; the request is not.
    expect(
      told(await devices.admin.refusal("connect.challenge", { challenge: challengeToken })),
    ).to.equal("UNAUTHORIZED: Invalid challenge");
    const again = await devices.admin.call("device.pair.approve", { pairingId });
    const { token } = await devices.redeem(again.challengeToken);
    expect((await devices.greet(token))["type"]).to.equal("hello-ok");
  });

  it("asks in vain without the right to administer", async () => {
    const other = await Party.connect(
      devices.door.gateway.url,
      operator({ scopes: ["operator.pairing", "read", "write"] }),
    );
    for (const method of ["request", "approve", "reject"]) {
      const params = { deviceType: "t", deviceName: "n", pairingId: "p" };
      expect(told(await other.refusal(`device.pair.${method}`, params))).to.equal(
        `FORBIDDEN: Insufficient permissions for device.pair.${method}`,
      );
    }
  });

  it("must say what it is", async () => {
    for (const [params, message] of [
      [{}, "Missing required fields: deviceType, deviceName"],
      [{ deviceType: "t", deviceName: " " }, "Invalid params: deviceName: must not be empty"],
      [
        { deviceType: "t\u0007", deviceName: "n" },
        "Invalid params: deviceType: must not contain control characters",
      ],
    ] as const) {
      expect(told(await devices.admin.refusal("device.pair.request", params))).to.equal(
        `INVALID_REQUEST: ${message}`,
      );
    }
  });
});
