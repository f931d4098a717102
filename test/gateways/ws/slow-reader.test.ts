import { once } from "node:events";
import { assert } from "chai";
import { FakeClock } from "../../support/fake-clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { OPCODE, operator, RawClient, WsClient, wsFrame } from "../../support/ws-client.ts";

const MIB = 1_048_576;
const request = (id: string | number, method: string, params: object = {}): Buffer =>
  wsFrame(OPCODE.text, JSON.stringify({ type: "req", id: `${id}`, method, params }));

describe("a client that does not read", () => {
  let clock: FakeClock;
  let gateway: TestGateway;
  let asked: number;

  beforeEach(async () => {
    asked = 0;
    clock = new FakeClock();
    gateway = await testGateway({
      clock,
      handlers: {
        // An answer of one mebibyte.
        "node.pair.list": () => {
          asked += 1;
          return { requests: [], summary: { pad: "x".repeat(MIB) } };
        },
      },
    });
  });
  afterEach(() => gateway.close());

  const deaf = async (): Promise<RawClient> => {
    const raw = await RawClient.upgrade(gateway.port);
    raw.socket.write(request("c", "connect", operator()));
    await raw.until("hello-ok");
    raw.socket.pause();
    return raw;
  };
  /** Asks until nothing more is taken from it, or `requests` are written. */
  const askUntilStuck = async (raw: RawClient, requests: number): Promise<boolean> => {
    for (let sent = 0; sent < requests; sent += 100) {
      const batch = Array.from({ length: 100 }, (_, index) =>
        request(sent + index, "node.pair.list"),
      );
      const taken = raw.socket.write(Buffer.concat(batch));
      const served = await WsClient.connect(gateway.url);
      await served.call("health");
      await served.close();
      if (!taken) return true;
    }
    return false;
  };

  it("is not read either once its answers pile up; its memory stays bounded, others are served", async () => {
    const raw = await deaf();
    // Twenty thousand mebibytes of answers, were they all to be given.
    await askUntilStuck(raw, 20_000);
    // So many mebibytes: what the system holds for the socket, what waits, and the one that made it too much.
    assert.isBelow(asked, 32);
    const others = await WsClient.connect(gateway.url);
    assert.equal((await others.call("health")).ok, true);
    raw.socket.destroy();
  });

  it("is cut with 1013 when nothing moved for 10 s, and everything it held is released", async () => {
    const raw = await deaf();
    await askUntilStuck(raw, 200);
    const other = await WsClient.connect(gateway.url);
    assert.equal(gateway.roster.counts().active, 2);
    await clock.advance(9_999);
    assert.equal(gateway.roster.counts().active, 2);
    await clock.advance(1);
    assert.equal(gateway.roster.counts().active, 1);
    // It reads after all: the close frame comes behind what the system held already.
    raw.socket.resume();
    const received = await raw.until("slow consumer");
    assert.isTrue(received.endsWith("\x88\x0f\x03\xf5slow consumer"));
    await clock.advance(5_000);
    await raw.ended;
    assert.equal((await other.call("health")).ok, true);
    assert.equal(gateway.connections(), 1);
  });

  it("is cut without a close frame when it never reads at all", async () => {
    const raw = await deaf();
    await askUntilStuck(raw, 200);
    await clock.advance(10_000);
    assert.equal(gateway.connections(), 1);
    await clock.advance(5_000);
    assert.equal(gateway.connections(), 0);
    raw.socket.destroy();
  });

  it("leaves a line in the log when it is cut, and none before", async () => {
    const said = () =>
      gateway.lines
        .filter(({ msg }) => msg === "slow readers of /ws were cut")
        .map(({ level, times }) => ({ level, times }));
    const first = await deaf();
    await askUntilStuck(first, 200);
    await clock.advance(9_999);
    assert.deepEqual(said(), []);
    await clock.advance(1);
    assert.deepEqual(said(), [{ level: 30, times: 1 }]);
    first.socket.destroy();
  });

  it("gets everything, in order, when it reads in time", async () => {
    const raw = await deaf();
    const requests = 40;
    raw.socket.write(
      Buffer.concat(Array.from({ length: requests }, (_, id) => request(id, "node.pair.list"))),
    );
    const other = await WsClient.connect(gateway.url);
    await other.call("health");
    await clock.advance(9_999);
    raw.socket.resume();
    raw.socket.write(request("last", "health"));
    const received = await raw.until('"id":"last"');
    const ids = [...received.matchAll(/"res","id":"(\w+)"/g)].map((match) => match[1]);
    assert.deepEqual(ids, [...Array.from({ length: requests }, (_, id) => `${id}`), "last"]);
    raw.socket.destroy();
  });
});

describe("a client that reads", () => {
  it("may have many answers of 1 MiB under way at once: it is no slow reader", async () => {
    const many = 100;
    const go = Promise.withResolvers<void>();
    const pad = "x".repeat(MIB);
    const gateway = await testGateway({
      handlers: {
        "node.pair.list": async () => {
          await go.promise;
          return { requests: [], summary: { pad } };
        },
      },
    });
    try {
      const client = await WsClient.connect(gateway.url);
      let bytes = 0;
      let answers = 0;
      const done = Promise.withResolvers<void>();
      client.socket.removeAllListeners("message");
      client.socket.on("message", (data: Buffer) => {
        bytes += data.length;
        answers += 1;
        if (answers === many) done.resolve();
      });
      for (let index = 0; index < many; index += 1) client.request("node.pair.list");
      go.resolve();
      await done.promise;
      assert.isAbove(bytes, many * MIB);
      assert.equal(client.socket.readyState, client.socket.OPEN);
    } finally {
      await gateway.close();
    }
  });

  it("slowly, but steadily, is served to the end", async () => {
    const clock = new FakeClock();
    const requests = 60;
    let asked = 0;
    const gateway = await testGateway({
      clock,
      handlers: {
        "node.pair.list": () => {
          asked += 1;
          return { requests: [], summary: { pad: "x".repeat(MIB) } };
        },
      },
    });
    try {
      const raw = await RawClient.upgrade(gateway.port);
      raw.socket.write(request("c", "connect", operator()));
      await raw.until("hello-ok");
      for (let id = 0; id < requests; id += 1) raw.socket.write(request(id, "node.pair.list"));
      let rounds = 0;
      while (asked < requests) {
        raw.socket.pause();
        await clock.advance(9_999);
        raw.socket.resume();
        // Another one is asked when enough of those before it have left.
        const before = asked;
        while (asked === before) await once(raw.socket, "data");
        rounds += 1;
      }
      assert.isAbove(rounds, 5);
      raw.socket.write(request("last", "health"));
      assert.include(await raw.until('"id":"last"'), '"id":"last"');
      raw.socket.destroy();
    } finally {
      await gateway.close();
    }
  });
});
