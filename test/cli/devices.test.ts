import { expect } from "chai";
import type { DeviceRow } from "../../cli/device/list.ts";
import { LemonError } from "../../protocol/errors.ts";
import { FakeControlPlane, SILENCE } from "../support/fake-control-plane.ts";
import { TestShell } from "../support/test-shell.ts";

const DEVICE_ID = "5f3d0a3e-0f0b-4f3c-8a49-2b1f6c1d7e90";
const OTHER_ID = "6a4d0a3e-0f0b-4f3c-8a49-2b1f6c1d7e91";

function device(fields: Partial<DeviceRow> = {}): DeviceRow {
  return {
    deviceId: DEVICE_ID,
    deviceName: "phone-1",
    deviceType: "phone",
    issuedAtMs: 0,
    expiresAtMs: Date.now() + 6 * 86_400_000,
    connections: 1,
    ...fields,
  };
}

describe("lemon device", () => {
  let peer: FakeControlPlane;
  let shell: TestShell;

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    shell = new TestShell({ environment: { LEMON_CONTROLLER: peer.url } });
    peer.on("device.revoke", ({ deviceId }) => ({ deviceId, revoked: true }));
  });

  afterEach(async () => {
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
  });

  const lemon = (...words: readonly string[]) => shell.run("device", ...words);
  const are = (...devices: readonly DeviceRow[]) =>
    peer.on("device.list", () => ({ devices: [...devices], summary: {} }));
  const revoked = () =>
    peer.requests.flatMap(({ method, params }) => (method === "device.revoke" ? [params] : []));

  it("list shows each device on a line, without what could drive a terminal", async () => {
    const deviceName = "evil\u001b]0;title\u0007\nroot";
    are(
      device({ deviceName, deviceType: "t\u202e" }),
      device({ deviceId: "b", expiresAtMs: 1, connections: 0 }),
    );
    expect(await lemon("list")).to.equal(0);
    const lines = shell.stdout.text.split("\n");
    expect(lines[0]).to.match(/^NAME +TYPE +CONNECTIONS +TOKEN +ID$/);
    expect(lines[1]).to.match(
      /^evil\\u\{1b\}\]0;title\\u\{7\}\\u\{a\}root +t\\u\{202e\} +1 +ends in 6 d +5f3d/,
    );
    expect(lines[2]).to.match(/^phone-1 +phone +0 +expired +b$/);
    expect(lines).to.have.length(4);
  });

  it("list says that there is none, and answers the whole list with --json", async () => {
    are();
    expect(await lemon("list")).to.equal(0);
    expect(shell.stdout.text).to.equal("No device holds a session.\n");
    shell = new TestShell({ environment: { LEMON_CONTROLLER: peer.url } });
    expect(await lemon("list", "--json")).to.equal(0);
    expect(shell.document).to.deep.equal({ devices: [], summary: {} });
  });

  it("revoke takes a name that one device has", async () => {
    are(device(), device({ deviceId: OTHER_ID, deviceName: "phone-2" }));
    expect(await lemon("revoke", " phone-2 ")).to.equal(0);
    expect(revoked()).to.deep.equal([{ deviceId: OTHER_ID }]);
    expect(shell.stdout.text).to.match(new RegExp(`^phone-2 \\(${OTHER_ID}\\) is revoked: .*\\n$`));
  });

  it("revoke takes an id as it is, whoever is called so and whether it is listed", async () => {
    are(device({ deviceId: OTHER_ID, deviceName: DEVICE_ID }));
    expect(await lemon("revoke", DEVICE_ID, "--json")).to.equal(0);
    expect(revoked()).to.deep.equal([{ deviceId: DEVICE_ID }]);
    expect(shell.document).to.deep.equal({ deviceId: DEVICE_ID, revoked: true });
  });

  it("revoke sends nothing when several devices have the name, and says which they are", async () => {
    are(device(), device({ deviceId: OTHER_ID }));
    expect(await lemon("revoke", "phone-1")).to.equal(2);
    expect(shell.stderr.text).to.include(DEVICE_ID).and.to.include(OTHER_ID);
    expect(revoked()).to.deep.equal([]);
  });

  it("revoke ends with 122 for a device that is not there", async () => {
    are(device());
    expect(await lemon("revoke", "phone-9")).to.equal(122);
    expect(revoked()).to.deep.equal([]);
    peer.on("device.revoke", () => {
      throw new LemonError("device_not_found");
    });
    expect(await lemon("revoke", OTHER_ID)).to.equal(122);
  });

  it("revoke sends once; a lost answer is told with the command that settles it", async () => {
    peer.on("device.revoke", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
    expect(await lemon("revoke", DEVICE_ID, "--json")).to.equal(125);
    expect(revoked()).to.have.length(1);
    expect(shell.document).to.have.nested.property("error.deviceId", DEVICE_ID);
    expect(shell.document)
      .to.have.nested.property("error.settle")
      .that.matches(/^lemon device list/);
    expect(shell.stderr.text).to.include("lemon: see what is so with: lemon device list");
  });
});
