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

  it("are cut by how much they hold, not by who comes last: somebody of good will is let in", async () => {
    const gateway = await testGateway({ wsLimits: { strangerBytes: 100 * KIB } });
    try {
      const unfinished = wsFrame(OPCODE.text, "x".repeat(200 * KIB));
      const hoarders = await Promise.all(
        [70, 29].map(async (kib) => {
          const raw = await RawClient.upgrade(gateway.port);
          raw.socket.write(unfinished.subarray(0, kib * KIB));
          // What another sends after it is read after it.
          await (await WsClient.open(gateway.url)).close();
          return raw;
        }),
      );
      const params = operator({ client: { id: "x".repeat(4 * KIB) } });
      const honest = await WsClient.connect(gateway.url, params);
      assert.equal((await honest.call("health")).ok, true);
      assert.include(await hoarders[0]?.all(), "\x03\xf5too much");
      assert.notInclude(hoarders[1]?.received, "too much");
      for (const raw of hoarders) raw.socket.destroy();
    } finally {
      await gateway.close();
    }
  });

  it("pay for each fragment as for what it costs here, and for none once the message is whole", async () => {
    const gateway = await testGateway({ wsLimits: { strangerBytes: 100 * KIB } });
    try {
      const part = (count: number) =>
        Buffer.concat(Array<Buffer>(count).fill(wsFrame(OPCODE.continuation, "x", false)));
      const frugal = await RawClient.upgrade(gateway.port);
      for (let round = 1; round <= 3; round += 1) {
        frugal.socket.write(wsFrame(OPCODE.text, "x", false));
        frugal.socket.write(part(600));
        frugal.socket.write(wsFrame(OPCODE.continuation, "x"));
        frugal.socket.write(wsFrame(OPCODE.ping, `round ${round}`));
        await frugal.until(`round ${round}`);
        assert.equal(frugal.received.split("Invalid JSON").length, round + 1);
      }
      // Seven bytes each, 6 KiB on the wire.
      const greedy = await RawClient.upgrade(gateway.port);
      greedy.socket.write(Buffer.concat([wsFrame(OPCODE.text, "x", false), part(900)]));
      assert.include(await greedy.all(), "\x03\xf5too much");
      frugal.socket.destroy();
    } finally {
      await gateway.close();
    }
  });

  it("are counted until their line is cut, also while it is being closed", async () => {
    const gateway = await testGateway({
      times: { handshakeMs: 100 },
      wsLimits: { strangerBytes: 100 * KIB, closeMs: 60_000 },
    });
    try {
      const client = await RawClient.upgrade(gateway.port, { lingers: true });
      const unfinished = wsFrame(OPCODE.text, "x".repeat(200 * KIB));
      client.socket.write(unfinished.subarray(0, 10 * KIB));
      // It said nothing in time; its line is open still, for its goodbye.
      await client.until("\x03\xf0");
      assert.equal(gateway.connections(), 1);
      client.socket.write(unfinished.subarray(10 * KIB, -1));
      await client.ended;
      assert.equal(gateway.connections(), 0);
      client.socket.destroy();
    } finally {
      await gateway.close();
    }
  });

  it("can not hide what they began behind something whole in the same packet", async () => {
    const gateway = await testGateway({ wsLimits: { strangerBytes: 100 * KIB } });
    try {
      const begun = [
        wsFrame(OPCODE.text, "x".repeat(60 * KIB)).subarray(0, -1),
        wsFrame(OPCODE.text, "x".repeat(60 * KIB), false),
      ];
      for (const part of begun) {
        const raws = [await RawClient.upgrade(gateway.port), await RawClient.upgrade(gateway.port)];
        for (const raw of raws) raw.socket.write(Buffer.concat([wsFrame(OPCODE.text, "{"), part]));
        await Promise.race(raws.map((raw) => raw.until("\x03\xf5too much")));
        for (const raw of raws) raw.socket.destroy();
      }
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
