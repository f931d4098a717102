/** Proves, over real sockets, that a revoked device is cut off at once and for good, and nobody else is. */
import { expect } from "chai";
import { DEVICE_CLOSE } from "../../../protocol/methods/devices.ts";
import { DeviceDoor, told } from "../../support/device-door.ts";
import { settle } from "../../support/fake-clock.ts";
import { Party } from "../../support/party.ts";
import { operator, WsClient } from "../../support/ws-client.ts";

const WEEK_MS = 604_800_000;
const INVALID_TOKEN = "UNAUTHORIZED: Invalid token";
const INVALID_CHALLENGE = "UNAUTHORIZED: Invalid challenge";
const NOT_PENDING = "INVALID_REQUEST: Pairing request is not pending";
const NOT_FOUND = "NOT_FOUND: Device not found";

describe("the devices of a controller", () => {
  let devices: DeviceDoor;

  beforeEach(async () => {
    devices = await DeviceDoor.open();
  });
  afterEach(() => devices.close());

  const refused = async (method: string, params: object): Promise<string> =>
    told(await devices.admin.refusal(method, params));
  const ended = (...parties: readonly Party[]) =>
    Promise.all(parties.map(({ client }) => client.closed()));
  const expectAlive = async (...parties: readonly Party[]) => {
    for (const party of parties) expect((await party.answer("health")).ok).to.equal(true);
  };
  /** Holds the next write up; `release` lets it go on. */
  const heldWrite = () => {
    const begun = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    devices.documents.beforeWrite = () => {
      begun.resolve();
      return held.promise;
    };
    return { begun: begun.promise, release: held.resolve };
  };

  it("are listed by name, with what their sessions are", async () => {
    const issuedAtMs = devices.door.clock.nowMs();
    const [late, early] = [await devices.pair("b"), await devices.pair("a")];
    await devices.approve("without a session");
    await devices.connect(early.token);
    await devices.connect(early.token);
    const row = { deviceType: "phone", issuedAtMs, expiresAtMs: issuedAtMs + WEEK_MS };
    expect(await devices.list()).to.deep.equal({
      devices: [
        { deviceId: early.deviceId, deviceName: "a", connections: 2, ...row },
        { deviceId: late.deviceId, deviceName: "b", connections: 0, ...row },
      ],
      summary: { deviceCount: 2 },
    });
    devices.door.clock.jumpWallClock(WEEK_MS);
    // One that is still connected is still there to be revoked.
    expect(await devices.listed()).to.deep.equal([early.deviceId]);
  });

  it("lose everything when they are revoked, and one of the same name loses nothing", async () => {
    const device = await devices.pair("phone");
    const namesake = await devices.pair("phone");
    const parties = [await devices.connect(device.token), await devices.connect(device.token)];
    const other = await devices.connect(namesake.token);
    const { pairingId, deviceId, token } = device;
    expect(await devices.revoke(deviceId)).to.deep.equal({ deviceId, revoked: true });
    expect(await ended(...parties)).to.deep.equal([DEVICE_CLOSE.revoked, DEVICE_CLOSE.revoked]);
    expect(await devices.refusalOf(token)).to.equal(INVALID_TOKEN);
    expect(await refused("device.pair.approve", { pairingId })).to.equal(NOT_PENDING);
    expect(await refused("device.revoke", { deviceId })).to.equal(NOT_FOUND);
    await expectAlive(other);
    expect(await devices.listed()).to.deep.equal([namesake.deviceId]);
    expect(devices.documents.text()).to.not.include(deviceId);
    // Paired anew it is another device.
    const again = await devices.pair("phone");
    expect(again.deviceId).to.not.equal(deviceId);
    await expectAlive(await devices.connect(again.token), other);
  });

  it("stay revoked over a restart of the controller", async () => {
    const { deviceId, pairingId, token } = await devices.pair();
    const { token: kept } = await devices.pair("kept");
    await devices.revoke(deviceId);
    devices = await devices.restart();
    expect(await devices.refusalOf(token)).to.equal(INVALID_TOKEN);
    expect(await refused("device.revoke", { deviceId })).to.equal(NOT_FOUND);
    expect(await refused("device.pair.approve", { pairingId })).to.match(/^NOT_FOUND/);
    await expectAlive(await devices.connect(kept));
  });

  it("are revoked before they have come: the challenge and the approval are void", async () => {
    const { deviceId, pairingId, challengeToken: challenge } = await devices.approve();
    await devices.revoke(deviceId);
    expect(await refused("connect.challenge", { challenge })).to.equal(INVALID_CHALLENGE);
    expect(await refused("device.pair.approve", { pairingId })).to.equal(NOT_PENDING);
    expect(await refused("device.revoke", { deviceId })).to.equal(NOT_FOUND);
    // Also when a new challenge could have been had.
    const late = await devices.approve();
    await devices.door.clock.advance(60_000);
    await devices.revoke(late.deviceId);
    const { pairingId: lost } = late;
    expect(await refused("device.pair.approve", { pairingId: lost })).to.equal(NOT_PENDING);
    // But not when nothing is left of it.
    const over = await devices.approve();
    await devices.door.clock.advance(300_000);
    const { deviceId: gone } = over;
    expect(await refused("device.revoke", { deviceId: gone })).to.equal(NOT_FOUND);
  });

  it("are revoked with a second challenge out, and with one that outlives its request", async () => {
    const { deviceId, pairingId } = await devices.pair();
    const { challengeToken } = await devices.admin.call("device.pair.approve", { pairingId });
    await devices.revoke(deviceId);
    const challenge = challengeToken;
    expect(await refused("connect.challenge", { challenge })).to.equal(INVALID_CHALLENGE);
    const asked = await devices.request();
    await devices.door.clock.advance(299_999);
    const last = await devices.admin.call("device.pair.approve", { pairingId: asked.pairingId });
    await devices.door.clock.advance(30_000);
    await devices.revoke(last.deviceId);
    const { challengeToken: left } = last;
    expect(await refused("connect.challenge", { challenge: left })).to.equal(INVALID_CHALLENGE);
  });

  it("are revoked in the middle of the exchange: the token that comes of it is worth nothing", async () => {
    const { deviceId, challengeToken: challenge } = await devices.approve();
    const write = heldWrite();
    const exchanger = await devices.door.operator();
    const exchange = exchanger.call("connect.challenge", { challenge });
    await write.begun;
    const revocation = devices.revoke(deviceId);
    await settle();
    write.release();
    const { token } = await exchange;
    expect(await revocation).to.include({ revoked: true });
    expect(await devices.refusalOf(token)).to.equal(INVALID_TOKEN);
    expect(devices.documents.text()).to.equal("");
  });

  it("are revoked while they connect: who is let in before it is done is ended with it", async () => {
    const { deviceId, token } = await devices.pair();
    const write = heldWrite();
    const revocation = devices.revoke(deviceId);
    await write.begun;
    const party = await devices.connect(token);
    await expectAlive(party);
    write.release();
    await revocation;
    expect(await ended(party)).to.deep.equal([DEVICE_CLOSE.revoked]);
  });

  it("are revoked among many of their connects: none is left", async () => {
    for (let round = 0; round < 10; round += 1) {
      const { deviceId, token } = await devices.pair();
      const clients = await Promise.all(
        Array.from({ length: 8 }, () => WsClient.open(devices.door.gateway.url)),
      );
      const connects = clients.map((client, place) => {
        if (place === round % 8) devices.admin.client.request("device.revoke", { deviceId }, "end");
        return client.call("connect", { auth: { token } });
      });
      expect((await devices.admin.client.next()).ok).to.equal(true);
      for (const [place, answer] of (await Promise.all(connects)).entries()) {
        const client = clients[place];
        if (answer["type"] === "hello-ok")
          expect(await client?.closed()).to.deep.equal(DEVICE_CLOSE.revoked);
        else {
          expect(answer.error?.message).to.equal("Invalid token");
          await client?.close();
        }
      }
      expect(devices.door.gateway.roster.counts().devices).to.equal(0);
      // Those that came too late have guessed wrong.
      await devices.door.clock.advance(10_000);
    }
  });

  it("are revoked once, however many ask at once", async () => {
    const { deviceId } = await devices.pair();
    const other = await devices.door.operator();
    const answers = await Promise.all(
      [devices.admin, other].map((party) => party.answer("device.revoke", { deviceId })),
    );
    expect(answers.map(({ ok }) => ok).sort()).to.deep.equal([false, true]);
    expect(answers.find(({ ok }) => ok === false)?.error?.message).to.equal("Device not found");
  });

  it("are revoked while they are connected with a token that has expired", async () => {
    const { deviceId, token } = await devices.pair();
    const party = await devices.connect(token);
    devices.door.clock.jumpWallClock(WEEK_MS);
    await devices.pair("another");
    await devices.revoke(deviceId);
    expect(await ended(party)).to.deep.equal([DEVICE_CLOSE.revoked]);
  });

  it("are known by their id alone: no name, no node, no pairing and no operator goes by it", async () => {
    const node = await devices.door.pair("browser-1");
    const serving = await devices.door.connect(node);
    const { deviceId, pairingId, token } = await devices.pair("phone-1");
    const phone = await devices.connect(token);
    const operators = await Party.connect(
      devices.door.gateway.url,
      operator({ client: { id: deviceId } }),
    );
    for (const wrong of ["phone-1", node.nodeId, pairingId, token, deviceId.toUpperCase(), "x"]) {
      expect(await refused("device.revoke", { deviceId: wrong })).to.equal(NOT_FOUND);
    }
    for (const [params, message] of [
      [{}, "Missing required fields: deviceId"],
      [{ deviceId: "" }, "Invalid params: deviceId: must not be empty"],
      [{ deviceId: "x".repeat(257) }, "Invalid params: deviceId: must be at most 256 characters"],
    ] as const) {
      expect(await refused("device.revoke", params)).to.equal(`INVALID_REQUEST: ${message}`);
    }
    await expectAlive(serving, phone, operators);
    await devices.revoke(deviceId);
    expect(await ended(phone)).to.deep.equal([DEVICE_CLOSE.revoked]);
    await expectAlive(serving, operators);
    expect(await refused("node.revoke", { nodeId: deviceId })).to.equal(
      "NOT_FOUND: Node not found",
    );
  });

  it("revoke neither themselves nor one another, and only who may pair them sees them", async () => {
    const { deviceId, token } = await devices.pair();
    const phone = await devices.connect(token);
    const as = (...scopes: string[]) =>
      Party.connect(devices.door.gateway.url, operator({ scopes }));
    const may = async (party: Party) => ({
      list: (await party.answer("device.list")).ok,
      revoke: (await party.answer("device.revoke", { deviceId: "none" })).error?.code,
    });
    expect(told(await phone.refusal("device.revoke", { deviceId }))).to.equal(
      "FORBIDDEN: Insufficient permissions for device.revoke",
    );
    const none = { list: false, revoke: "FORBIDDEN" };
    expect(await may(phone)).to.deep.equal(none);
    expect(await may(await as("read", "write"))).to.deep.equal(none);
    expect(await may(await as("operator.pairing"))).to.deep.equal({ ...none, list: true });
    expect(await may(await as("admin"))).to.deep.equal({ list: true, revoke: "NOT_FOUND" });
    await expectAlive(phone);
  });
});
