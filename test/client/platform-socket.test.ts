import { expect } from "chai";
import { type Client, connect, LemonError } from "../../client/index.ts";
import { FakeControlPlane, type PeerConnection, SILENCE } from "../support/fake-control-plane.ts";
import { refusalOf } from "../support/refusal.ts";

describe("a client on the platform's WebSocket", () => {
  let peer: FakeControlPlane;
  let client: Client;

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    client = await connect({ url: peer.url, clientId: "page" });
  });
  afterEach(async () => {
    client.close();
    await client.ended;
    await peer.stop();
  });

  const breaches: Readonly<Record<string, (connection: PeerConnection) => void>> = {
    "text that is no JSON": (connection) => connection.raw("hello"),
    "a binary frame": (connection) => connection.binary(new Uint8Array(8)),
  };
  for (const [name, breach] of Object.entries(breaches)) {
    it(`ends the connection and throws at nobody when the peer sends ${name}`, async () => {
      peer.on("health", (_params, connection) => {
        breach(connection);
        return SILENCE;
      });
      const ended = new Promise<number>((resolve) => {
        client.onClose(({ code }) => resolve(code));
      });
      expect((await refusalOf(() => client.call("health", {}))).code).to.equal("link_lost");
      expect(await ended).to.equal(1002);
      // It may not send 1002: the peer is told of an end without a reason.
      expect(await peer.connections[0]?.closed.promise).to.include({ code: 1005 });
    });
  }

  it("closes with a code and a reason of the user's own", async () => {
    client.close(4999, "é".repeat(61));
    expect(await peer.connections[0]?.closed.promise).to.deep.equal({
      code: 4999,
      reason: "é".repeat(61),
    });
  });

  it("refuses a code or reason that no program may send, and stays connected", async () => {
    for (const code of [0, 999, 1001, 1002, 2999, 5000, 3000.5, Number.NaN])
      expect(() => client.close(code), String(code)).to.throw(LemonError, "closed with 1000");
    expect(() => client.close(1000, "é".repeat(62))).to.throw(LemonError, "at most 123 bytes");
    expect(client.connected).to.equal(true);
  });
});
