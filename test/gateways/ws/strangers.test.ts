import { assert } from "chai";
import { testGateway } from "../../support/gateway.ts";
import { OPCODE, operator, RawClient, WsClient, wsFrame } from "../../support/ws-client.ts";

const KIB = 1_024;

describe("peers that nobody knows yet", () => {
  it("share one bound for their unfinished frames: who exceeds it is closed, the others are not", async () => {
    const gateway = await testGateway({ wsLimits: { strangerBytes: 100 * KIB } });
    try {
      const frame = wsFrame(OPCODE.text, "x".repeat(60 * KIB));
      const first = await RawClient.upgrade(gateway.port);
      first.socket.write(frame.subarray(0, 60 * KIB));
      const second = await RawClient.upgrade(gateway.port);
      second.socket.write(frame.subarray(0, 60 * KIB));
      await Promise.race([first.until("too much"), second.until("too much")]);
      const [cut, kept] = first.received.includes("too much") ? [first, second] : [second, first];
      assert.include(cut.received, "\x03\xf5too much is being received");
      // What the one held is free again, and the other's frame is whole in the end.
      kept.socket.write(frame.subarray(60 * KIB));
      assert.include(await kept.until("Invalid JSON"), "Invalid JSON");
      kept.socket.destroy();
      cut.socket.destroy();
    } finally {
      await gateway.close();
    }
  });

  it("may send large frames one after the other: only what is unfinished counts", async () => {
    const gateway = await testGateway({ wsLimits: { strangerBytes: 200 * KIB } });
    try {
      const client = await WsClient.open(gateway.url);
      for (let round = 0; round < 10; round += 1) {
        client.send("x".repeat(150 * KIB));
        assert.match(String((await client.next()).error?.message), /^Invalid JSON/);
      }
      await client.close();
    } finally {
      await gateway.close();
    }
  });

  it("are strangers no longer once they are admitted", async () => {
    const gateway = await testGateway({ wsLimits: { strangerBytes: 100 * KIB } });
    try {
      const client = await WsClient.connect(gateway.url, operator());
      client.send(
        JSON.stringify({
          type: "req",
          id: "1",
          method: "health",
          params: { pad: "x".repeat(3_000 * KIB) },
        }),
      );
      assert.equal((await client.next()).ok, true);
      await client.close();
    } finally {
      await gateway.close();
    }
  });
});

describe("sockets beyond the limit", () => {
  it("are refused with 503 before their upgrade, and let in when there is room again", async () => {
    const gateway = await testGateway({ wsLimits: { connections: 2 } });
    try {
      const first = await WsClient.connect(gateway.url);
      const second = await WsClient.open(gateway.url);
      const third = await WsClient.open(gateway.url).then(
        () => "opened",
        (failure: Error) => failure.message,
      );
      assert.include(third, "503");
      assert.include(gateway.text(), "connection limit of /ws reached");
      await second.close();
      const fourth = await WsClient.connect(gateway.url);
      assert.equal((await fourth.call("health")).ok, true);
      assert.equal((await first.call("health")).ok, true);
    } finally {
      await gateway.close();
    }
  });
});
