import { expect } from "chai";
import type { NetworkEvent } from "../../../host/machine/network.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { fakeHost, hostRefusal } from "../../support/fake-host.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const wifi = (ssid: string, password: string, hidden = false) => ({
  ssid,
  password: Buffer.from(password),
  hidden,
});

describe("a fake host's network", () => {
  let folder: TempFolder;
  beforeEach(() => {
    folder = tempFolder();
  });
  afterEach(() => folder[Symbol.dispose]());

  it("takes a password of 8 to 63 bytes for a secured network", async () => {
    const { network } = await fakeHost(folder.path);
    for (const password of ["1234567", "x".repeat(64), "wrong-password", ""]) {
      expect(await hostRefusal(network.connect(wifi("Malmo Home", password)))).to.equal(
        "auth-failed",
      );
    }
    for (const password of ["12345678", "x".repeat(63)]) {
      expect(await network.connect(wifi("Malmo Home", password))).to.deep.equal({
        connection_id: "wifi-1",
        state: "activated",
      });
    }
    expect(await network.connect(wifi("Open Cafe", ""))).to.include({ connection_id: "wifi-2" });
    const { wifi: networks } = await network.state();
    expect(networks.filter(({ saved }) => saved).map(({ ssid }) => ssid)).to.deep.equal([
      "Malmo Home",
      "Open Cafe",
    ]);
    expect(networks.filter(({ connected }) => connected).map(({ ssid }) => ssid)).to.deep.equal([
      "Open Cafe",
    ]);
  });

  it("reaches no network it does not see, unless that is hidden; and times out at one", async () => {
    const { network } = await fakeHost(folder.path);
    expect(await hostRefusal(network.connect(wifi("Elsewhere", "12345678")))).to.equal("no-signal");
    expect(await hostRefusal(network.connect(wifi("Timeout Cafe", "")))).to.equal("timeout");
    expect(await network.connect(wifi("Elsewhere", "12345678", true))).to.include({
      connection_id: "wifi-1",
    });
  });

  it("has exactly one primary connection, whatever is forgotten", async () => {
    const { network } = await fakeHost(folder.path);
    await network.connect(wifi("Open Cafe", ""));
    await network.setPrimary("wifi-1");
    expect((await network.state()).primary).to.equal("wifi-1");
    await network.forget("wifi-1");
    await network.forget("wifi-1");
    expect((await network.state()).primary).to.equal("ethernet-1");
    expect(await hostRefusal(network.setPrimary("wifi-1"))).to.equal("unknown-connection");
    expect(await hostRefusal(network.setPrimary("__proto__"))).to.equal("unknown-connection");
    expect(await hostRefusal(network.forget("ethernet-1"))).to.equal("bad-request");
  });

  it("keeps what a connection was configured with", async () => {
    const { network } = await fakeHost(folder.path);
    const fixed = { mode: "static", address: "10.0.0.2/24", gateway: "10.0.0.1", dns: [] } as const;
    await network.configureIp("ethernet-1", { ...fixed, dns: [] });
    expect((await network.state()).ipv4["ethernet-1"]).to.deep.equal(fixed);
    await network.configureIp("ethernet-1", { mode: "dhcp" });
    expect((await network.state()).ipv4["ethernet-1"]).to.include({ mode: "dhcp" });
    expect(await hostRefusal(network.configureIp("wifi-9", { mode: "dhcp" }))).to.equal(
      "unknown-connection",
    );
  });

  it("tells whoever watches of each change, and nobody who has stopped", async () => {
    const clock = new FakeClock();
    const { network } = await fakeHost(folder.path, { clock });
    const seen: NetworkEvent["type"][] = [];
    const stop = network.watch(({ type }) => seen.push(type));
    await network.connect(wifi("Open Cafe", ""));
    await network.setPrimary("wifi-1");
    await clock.advance(5_000);
    await network.forget("wifi-1");
    stop();
    await network.setPrimary("ethernet-1");
    await clock.advance(60_000);
    expect(seen).to.deep.equal(["connected", "primary", "signal", "dropped", "primary"]);
  });
});
