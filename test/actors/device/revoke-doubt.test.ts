/** Proves what a revocation and a newer token are worth while the store does not answer clearly. */
import { expect } from "chai";
import { DEVICE_CLOSE } from "../../../protocol/methods/devices.ts";
import { DeviceDoor, type PairedDevice } from "../../support/device-door.ts";
import type { Party } from "../../support/party.ts";

const INVALID_TOKEN = "UNAUTHORIZED: Invalid token";
const UNKNOWN_YET = "UNAVAILABLE: The service is not available; nothing was done";
const SETTLES_AFTER_MS = 1_000;

describe("a device whose store", () => {
  let devices: DeviceDoor;
  let device: PairedDevice;
  let phone: Party;

  beforeEach(async () => {
    devices = await DeviceDoor.open();
    device = await devices.pair();
    phone = await devices.connect(device.token);
  });
  afterEach(() => devices.close());

  const revocation = async () => {
    const { deviceId } = device;
    return (await devices.admin.refusal("device.revoke", { deviceId })).details ?? {};
  };
  const approveAgain = async (): Promise<string> => {
    const { pairingId } = device;
    return (await devices.admin.call("device.pair.approve", { pairingId })).challengeToken;
  };
  const expectUncertain = (details: object) =>
    expect(details).to.include({ retrySafe: false, mutationMayHaveApplied: true });

  it("refuses is not revoked: it stays as it was, and is revoked by a repeat", async () => {
    const challenge = await approveAgain();
    devices.documents.writeFaults.push({ kind: "refused" });
    expect(await revocation()).to.include({
      code: "unavailable",
      mutationMayHaveApplied: false,
      retrySafe: true,
    });
    expect((await phone.answer("health")).ok).to.equal(true);
    expect(await devices.listed()).to.deep.equal([device.deviceId]);
    const { token } = await devices.redeem(challenge);
    expect(await phone.client.closed()).to.deep.equal(DEVICE_CLOSE.replaced);
    const newer = await devices.connect(token);
    await devices.revoke(device.deviceId);
    expect(await newer.client.closed()).to.deep.equal(DEVICE_CLOSE.revoked);
  });

  for (const applied of [true, false]) {
    describe(`does not answer, and ${applied ? "has" : "has not"} done it`, () => {
      beforeEach(() => devices.documents.writeFaults.push({ kind: "lost", applied }));

      it("is cut off at once, and revoked by the time that it is listed", async () => {
        const challenge = await approveAgain();
        expectUncertain(await revocation());
        expect(await phone.client.closed()).to.deep.equal(DEVICE_CLOSE.revoked);
        expect(await devices.refusalOf(device.token)).to.equal(UNKNOWN_YET);
        const spent = await devices.admin.refusal("connect.challenge", { challenge });
        expect(spent.message).to.equal("Invalid challenge");
        expect(await devices.listed()).to.deep.equal([]);
        expect(await devices.refusalOf(device.token)).to.equal(INVALID_TOKEN);
        devices.documents.landGhosts();
        devices = await devices.restart();
        expect(await devices.refusalOf(device.token)).to.equal(INVALID_TOKEN);
        expect(devices.documents.text()).to.equal("");
      });

      it("is revoked a moment later without anybody's asking, once the store is back", async () => {
        devices.documents.writeFaults.push({ kind: "refused" }, { kind: "refused" });
        expectUncertain(await revocation());
        await devices.door.clock.advance(SETTLES_AFTER_MS);
        expect(await devices.refusalOf(device.token)).to.equal(UNKNOWN_YET);
        const unlisted = await devices.admin.refusal("device.list");
        expect(unlisted.code).to.equal("UNAVAILABLE");
        await devices.door.clock.advance(SETTLES_AFTER_MS);
        expect(await devices.refusalOf(device.token)).to.equal(INVALID_TOKEN);
        expect(devices.documents.text()).to.equal("");
      });

      it("is revoked by a repeat, which finds nothing more to do", async () => {
        expectUncertain(await revocation());
        expect(await revocation()).to.include({
          code: "device_not_found",
          mutationMayHaveApplied: false,
        });
        expect(await devices.refusalOf(device.token)).to.equal(INVALID_TOKEN);
      });

      it("is cut off from a token that a newer one may have replaced", async () => {
        const challenge = await approveAgain();
        const lost = await devices.admin.refusal("connect.challenge", { challenge });
        expectUncertain(lost.details ?? {});
        expect(await phone.client.closed()).to.deep.equal(DEVICE_CLOSE.replaced);
        expect(await devices.refusalOf(device.token)).to.equal(UNKNOWN_YET);
        await devices.door.clock.advance(SETTLES_AFTER_MS);
        expect(await devices.refusalOf(device.token)).to.equal(INVALID_TOKEN);
        devices.documents.landGhosts();
        // Nobody has the newer one: it is asked for again, or all of it is taken back.
        const { token } = await devices.redeem(await approveAgain());
        expect((await devices.greet(token))["type"]).to.equal("hello-ok");
        await devices.revoke(device.deviceId);
        expect(devices.documents.text()).to.equal("");
      });
    });
  }

  it("does not answer its first exchange is no device that comes back later", async () => {
    const { deviceId, challengeToken: challenge } = await devices.approve("second");
    devices.documents.writeFaults.push({ kind: "lost", applied: false });
    await devices.admin.refusal("connect.challenge", { challenge });
    await devices.revoke(deviceId);
    devices.documents.landGhosts();
    devices = await devices.restart();
    expect(await devices.listed()).to.deep.equal([device.deviceId]);
  });
});
