import { once } from "node:events";
import { assert } from "chai";
import { Liveness, type Watched } from "../../../gateways/ws/liveness.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { OPCODE, operator, RawClient, WsClient, wsFrame } from "../../support/ws-client.ts";

const CONNECT = wsFrame(
  OPCODE.text,
  JSON.stringify({ type: "req", id: "c", method: "connect", params: operator() }),
);
/** An unmasked, empty ping as the server sends it. */
const PING = "\x89\x00";

describe("a socket of /ws, over time", () => {
  let clock: FakeClock;
  let gateway: TestGateway;

  beforeEach(async () => {
    clock = new FakeClock();
    gateway = await testGateway({ clock });
  });
  afterEach(() => gateway.close());

  /** Connected, and from then on silent: it answers no ping. */
  const mute = async (options = {}): Promise<RawClient> => {
    const raw = await RawClient.upgrade(gateway.port, options);
    raw.socket.write(CONNECT);
    await raw.until("hello-ok");
    return raw;
  };
  const pings = (raw: RawClient): number => raw.received.split(PING).length - 1;

  it("is pinged every 20 s", async () => {
    const client = await WsClient.connect(gateway.url);
    let pinged = 0;
    client.socket.on("ping", () => {
      pinged += 1;
    });
    for (let round = 1; round <= 4; round += 1) {
      await clock.advance(19_999);
      assert.equal(pinged, round - 1);
      const ping = once(client.socket, "ping");
      await clock.advance(1);
      await ping;
      assert.equal(pinged, round);
      // The pong is on its way before this answer.
      await client.call("health");
    }
  });

  it("is closed after 60 s without a byte from its peer, and its session ends", async () => {
    const raw = await mute();
    await clock.advance(59_999);
    assert.isFalse(raw.socket.destroyed);
    assert.equal(pings(raw), 2);
    await clock.advance(1);
    await raw.until("idle");
    assert.equal(gateway.roster.counts().active, 0);
    assert.isTrue(raw.received.endsWith("\x88\x06\x03\xe9idle"));
    // The peer is gone and answers no close frame either: it is cut.
    await clock.advance(5_000);
    await raw.ended;
    assert.equal(gateway.connections(), 0);
  });

  it("lives on any sign of its peer: a pong, a ping, a request, a part of a frame", async () => {
    const signs = [
      wsFrame(OPCODE.pong, ""),
      wsFrame(OPCODE.ping, ""),
      wsFrame(OPCODE.text, '{"type":"req","id":"h","method":"health"}'),
      wsFrame(OPCODE.text, "x".repeat(100)).subarray(0, 50),
    ];
    const raws = await Promise.all(signs.map(() => mute()));
    await clock.advance(59_000);
    for (const [index, raw] of raws.entries()) raw.socket.write(signs[index] ?? "");
    // What another connection sent after them has been read after them.
    const other = await WsClient.connect(gateway.url);
    await other.call("health");
    await clock.advance(59_999);
    for (const raw of raws) assert.notInclude(raw.received, "idle");
    await clock.advance(1);
    // What is no whole frame is noticed at the next look only.
    const [part, ...whole] = raws.toReversed();
    await Promise.all(whole.map((raw) => raw.until("idle")));
    assert.notInclude(part?.received ?? "", "idle");
    await clock.advance(1_000);
    await part?.until("idle");
  });

  it("is not idle while it is we who do not read", async () => {
    // The answers of this one do not leave, so its further requests are not read.
    const gate = Promise.withResolvers<void>();
    const slow = await testGateway({
      clock,
      wsLimits: { stallMs: 1_000_000 },
      handlers: {
        "node.pair.list": async () => {
          await gate.promise;
          return { requests: [], summary: { pad: "x".repeat(3_000_000) } };
        },
      },
    });
    try {
      const raw = await RawClient.upgrade(slow.port);
      raw.socket.write(CONNECT);
      await raw.until("hello-ok");
      raw.socket.pause();
      for (let index = 0; index < 8; index += 1) {
        const request = { type: "req", id: `${index}`, method: "node.pair.list" };
        raw.socket.write(wsFrame(OPCODE.text, JSON.stringify(request)));
      }
      const other = await WsClient.connect(slow.url);
      await other.call("health");
      gate.resolve();
      await other.call("health");
      await clock.advance(50_000);
      raw.socket.write(wsFrame(OPCODE.text, '{"type":"req","id":"last","method":"health"}'));
      await clock.advance(50_000);
      raw.socket.resume();
      assert.include(await raw.until('"id":"last"'), '"id":"last"');
      raw.socket.destroy();
    } finally {
      await slow.close();
    }
  });

  it("is cut when its peer said goodbye and keeps the line", async () => {
    const lingering = await mute({ lingers: true });
    lingering.socket.write(wsFrame(OPCODE.close, Buffer.from([0x03, 0xe8])));
    await lingering.until("\x88\x02\x03\xe8");
    await lingering.ended;
    assert.equal(gateway.connections(), 1);
    await clock.advance(20_000);
    assert.equal(gateway.connections(), 0);
    assert.equal(gateway.roster.counts().active, 0);
    lingering.socket.destroy();
  });

  it("is cut when its peer broke the protocol and keeps the line", async () => {
    const breaching = await mute({ lingers: true });
    breaching.socket.write(wsFrame(OPCODE.continuation, "x"));
    await breaching.until("\x88\x02\x03\xea");
    assert.equal(gateway.roster.counts().active, 0);
    assert.equal(gateway.connections(), 1);
    await clock.advance(5_000);
    assert.equal(gateway.connections(), 0);
    breaching.socket.destroy();
  });

  it("answers each ping with its data, and a flood of them with the last at least", async () => {
    const raw = await mute();
    raw.socket.write(wsFrame(OPCODE.ping, "one"));
    await raw.until("\x8a\x03one");
    const flood = Array.from({ length: 20_000 }, (_, index) => wsFrame(OPCODE.ping, `p${index}`));
    raw.socket.write(Buffer.concat(flood));
    const received = await raw.until("\x8a\x06p19999");
    assert.include(received, "\x8a\x06p19999");
    const others = await WsClient.connect(gateway.url);
    assert.equal((await others.call("health")).ok, true);
    raw.socket.destroy();
  });

  it("of a peer that floods it with pings and never reads is served no worse than others", async () => {
    const raw = await mute();
    raw.socket.pause();
    const flood = Buffer.concat(Array<Buffer>(10_000).fill(wsFrame(OPCODE.ping, "x".repeat(125))));
    for (let round = 0; round < 12; round += 1) {
      if (!raw.socket.write(flood)) await Promise.race([once(raw.socket, "drain"), raw.ended]);
    }
    const others = await WsClient.connect(gateway.url);
    assert.equal((await others.call("health")).ok, true);
    raw.socket.destroy();
  });

  it("leaves no timer when it ends", async () => {
    const before = clock.pending;
    const clients = [await WsClient.connect(gateway.url), await WsClient.open(gateway.url)];
    assert.isAbove(clock.pending, before);
    for (const client of clients) await client.close();
    await (await WsClient.open(gateway.url)).close();
    const other = await WsClient.open(gateway.url);
    const withOne = clock.pending;
    await other.close();
    await clock.advance(0);
    assert.isBelow(clock.pending, withOne);
    assert.equal(clock.pending, before);
  });
});

describe("the watch over a peer", () => {
  /** A socket that takes pongs and does not get rid of them. */
  function stuck() {
    const pongs: string[] = [];
    const sent: (() => void)[] = [];
    const watched: Watched = {
      bytesRead: 0,
      paused: false,
      ping() {},
      pong(data, flushed) {
        pongs.push(data.toString());
        sent.push(flushed);
      },
    };
    const watch = new Liveness(watched, { pingMs: 20, idleMs: 60 }, new FakeClock(), () => {});
    return { pongs, sent, watch };
  }

  it("holds one pong under way and one owed, however many pings come", () => {
    const { pongs, sent, watch } = stuck();
    const data = Buffer.alloc(5);
    for (let index = 0; index < 10_000; index += 1) {
      // As it is with the bytes of a chunk: they are written over.
      data.write(`p${index}`.padEnd(5));
      watch.pinged(data);
    }
    data.fill(0);
    assert.deepEqual(pongs, ["p0   "]);
    sent.shift()?.();
    assert.deepEqual(pongs, ["p0   ", "p9999"]);
    sent.shift()?.();
    assert.equal(pongs.length, 2);
    watch.stop();
  });

  it("owes nothing any more once it has stopped", () => {
    const { pongs, sent, watch } = stuck();
    watch.pinged(Buffer.from("a"));
    watch.pinged(Buffer.from("b"));
    watch.stop();
    sent.shift()?.();
    assert.deepEqual(pongs, ["a"]);
  });
});
