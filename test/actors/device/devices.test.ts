/** Proves, over real sockets, how a device gets a session and what that is worth. */
import { expect } from "chai";
import { DEVICE_DOCUMENTS } from "../../../actors/device/devices.ts";
import type { DeviceRecord } from "../../../actors/device/record.ts";
import { MemoryDocuments } from "../../support/memory-documents.ts";
import { NodeDoor } from "../../support/node-door.ts";
import { Party } from "../../support/party.ts";
import { operator, WsClient } from "../../support/ws-client.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const WEEK_MS = 604_800_000;

describe("a device", () => {
  let documents: MemoryDocuments<DeviceRecord>;
  let door: NodeDoor;
  let admin: Party;

  beforeEach(async () => {
    documents = new MemoryDocuments<DeviceRecord>(DEVICE_DOCUMENTS.parse);
    door = await NodeDoor.open(documents);
    admin = await door.operator("nodes");
  });
  afterEach(() => door.close());

  const request = (deviceName = "phone-1") =>
    admin.call("device.pair.request", { deviceType: "phone", deviceName });
  const approve = async (deviceName?: string) => {
    const { pairingId } = await request(deviceName);
    return await admin.call("device.pair.approve", { pairingId });
  };
  const redeem = (challenge: string) => admin.call("connect.challenge", { challenge });
  const pair = async (deviceName?: string) => {
    const { deviceId, challengeToken } = await approve(deviceName);
    return { deviceId, token: (await redeem(challengeToken)).token };
  };
  /** What connecting with the token is answered. */
  const greet = async (token: string) => {
    const client = await WsClient.open(door.gateway.url);
    return await client.call("connect", { auth: { token } });
  };
  const refusalOf = async (token: string): Promise<string> => {
    const { error } = await greet(token);
    return `${error?.code}: ${error?.message}`;
  };
  const told = ({ code, message }: { readonly code: string; readonly message: string }) =>
    `${code}: ${message}`;

  it("asks, is approved and exchanges its challenge for a session of its own", async () => {
    const expiresAtMs = door.clock.nowMs() + 300_000;
    const { pairingId, code, ...asked } = await request();
    expect(code).to.match(/^[0-9]{6}$/);
    expect(asked).to.deep.equal({
      expiresAtMs,
      summary: { pairingId, deviceType: "phone", expiresAtMs },
    });
    const about = { pairingId, deviceType: "phone", deviceName: "phone-1" };
    expect(await admin.told()).to.deep.equal([{ event: "device.pair.requested", payload: about }]);
    const approval = await admin.call("device.pair.approve", { pairingId });
    const { deviceId, challengeToken } = approval;
    expect(deviceId).to.match(UUID);
    expect(approval).to.deep.include({ pairingId, approved: true });
    expect(await admin.told()).to.deep.equal([
      { event: "device.pair.resolved", payload: { ...about, status: "approved" } },
    ]);
    const redeemed = await redeem(challengeToken);
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
    const hello = await greet(redeemed.token);
    expect(hello["auth"]).to.deep.equal({
      role: "device",
      scopes: ["control"],
      clientId: deviceId,
    });
    expect(await admin.call("node.list")).to.deep.include({ nodes: [] });
  });

  it("can do nothing that asks for another scope, and hears of no pairing, only of the control plane", async () => {
    const { token } = await pair();
    const device = await Party.connect(door.gateway.url, { auth: { token } });
    for (const [method, params] of [
      ["node.list", {}],
      ["device.pair.request", { deviceType: "phone", deviceName: "x" }],
      ["node.invoke", { nodeId: "n", method: "m" }],
    ] as const) {
      expect(told(await device.refusal(method, params))).to.equal(
        `FORBIDDEN: Insufficient permissions for ${method}`,
      );
    }
    await request("phone-2");
    door.gateway.broadcast.publish("shutdown", { reason: "stopping" });
    expect((await device.told()).map(({ event }) => event)).to.deep.equal(["shutdown"]);
  });

  it("is told why its challenge or its request is worth nothing", async () => {
    const { challengeToken } = await approve();
    await redeem(challengeToken);
    const challenge = (worth: string) => admin.refusal("connect.challenge", { challenge: worth });
    expect(told(await challenge(challengeToken))).to.equal("UNAUTHORIZED: Invalid challenge");
    const late = await approve();
    await door.clock.advance(60_000);
    expect(told(await challenge(late.challengeToken))).to.equal("UNAUTHORIZED: Challenge expired");
    const inTime = await approve();
    await door.clock.advance(59_999);
    await redeem(inTime.challengeToken);
    const decide = async (pairingId: string, method = "approve") =>
      told(await admin.refusal(`device.pair.${method}`, { pairingId }));
    expect(await decide("none")).to.equal("NOT_FOUND: Pairing request not found");
    const { pairingId } = await request();
    await admin.told();
    await admin.call("device.pair.reject", { pairingId });
    expect(await admin.told()).to.deep.equal([
      {
        event: "device.pair.resolved",
        payload: { pairingId, status: "rejected", deviceType: "phone", deviceName: "phone-1" },
      },
    ]);
    const notPending = "INVALID_REQUEST: Pairing request is not pending";
    expect(await decide(pairingId)).to.equal(notPending);
    const approved = await approve();
    expect(await decide(approved.pairingId, "reject")).to.equal(notPending);
    const old = await request();
    await door.clock.advance(300_000);
    expect(await decide(old.pairingId)).to.equal("INVALID_REQUEST: Pairing request has expired");
  });

  it("gets another challenge when it is approved again, and its newest token alone is good", async () => {
    const first = await approve();
    const { token } = await redeem(first.challengeToken);
    const again = await admin.call("device.pair.approve", { pairingId: first.pairingId });
    expect(again.deviceId).to.equal(first.deviceId);
    const next = await redeem(again.challengeToken);
    expect(await refusalOf(token)).to.equal("UNAUTHORIZED: Invalid token");
    expect((await greet(next.token))["type"]).to.equal("hello-ok");
  });

  it("keeps its session over a restart of the controller, by the token's hash alone", async () => {
    const { token, deviceId } = await pair();
    expect(documents.text()).to.include(deviceId);
    expect(documents.text()).to.not.include(token);
    expect(`${door.gateway.text()}${door.room.system.text()}`).to.not.include(token);
    await door.close();
    door = await NodeDoor.open(documents);
    expect(Object((await greet(token))["auth"]).clientId).to.equal(deviceId);
  });

  it("has a session for seven days, not more, and is forgotten then", async () => {
    const { token, deviceId } = await pair();
    door.clock.jumpWallClock(WEEK_MS - 1);
    expect((await greet(token))["type"]).to.equal("hello-ok");
    door.clock.jumpWallClock(1);
    expect(await refusalOf(token)).to.equal("UNAUTHORIZED: Token has expired");
    await pair("phone-2");
    expect(documents.text()).to.not.include(deviceId);
    expect(await refusalOf(token)).to.equal("UNAUTHORIZED: Invalid token");
    expect(documents.text().split("\n")).to.have.length(1);
  });

  it("loses nothing when the store refuses, and what was not answered is worth nothing", async () => {
    const { challengeToken, pairingId } = await approve();
    documents.writeFaults.push({ kind: "refused" });
    const refused = await admin.refusal("connect.challenge", { challenge: challengeToken });
    expect(refused.details).to.include({ code: "unavailable", retrySafe: true });
    documents.writeFaults.push({ kind: "lost", applied: true });
    const lost = await admin.refusal("connect.challenge", { challenge: challengeToken });
    expect(lost.details).to.include({ code: "timeout", mutationMayHaveApplied: true });
    // The challenge is spent; the request is not.
    expect(told(await admin.refusal("connect.challenge", { challenge: challengeToken }))).to.equal(
      "UNAUTHORIZED: Invalid challenge",
    );
    const again = await admin.call("device.pair.approve", { pairingId });
    const { token } = await redeem(again.challengeToken);
    expect((await greet(token))["type"]).to.equal("hello-ok");
  });

  it("asks in vain without the right to administer", async () => {
    const other = await Party.connect(
      door.gateway.url,
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
      expect(told(await admin.refusal("device.pair.request", params))).to.equal(
        `INVALID_REQUEST: ${message}`,
      );
    }
  });
});
