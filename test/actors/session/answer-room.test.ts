import { assert } from "chai";
import fc from "fast-check";
import { AHEAD_BYTES, AnswerRoom } from "../../../actors/session/answer-room.ts";
import type { MethodHandlers } from "../../../actors/session/handler.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import {
  type Frame,
  OPCODE,
  operator,
  RawClient,
  WsClient,
  wsFrame,
} from "../../support/ws-client.ts";

const MIB = 1_048_576;

describe("the room for answers of one connection", () => {
  it("lets so many bytes be expected, and begins another when one has been given", () => {
    const begun: number[] = [];
    const room = new AnswerRoom(() => 0);
    for (let at = 0; at < 20; at += 1) room.enter(MIB, () => begun.push(at));
    assert.equal(begun.length, AHEAD_BYTES / MIB);
    room.leave(MIB);
    assert.equal(begun.length, AHEAD_BYTES / MIB + 1);
    assert.deepEqual(begun, [...begun.keys()]);
  });

  it("counts what was given and not taken", () => {
    const begun: string[] = [];
    let unsentBytes = AHEAD_BYTES - MIB;
    const room = new AnswerRoom(() => unsentBytes);
    room.enter(MIB, () => begun.push("fits"));
    room.enter(1, () => begun.push("waits"));
    assert.deepEqual(begun, ["fits"]);
    unsentBytes -= 1;
    assert.deepEqual(begun, ["fits"]);
    room.next();
    assert.deepEqual(begun, ["fits", "waits"]);
  });

  it("has always room for a single one", () => {
    const begun: string[] = [];
    const room = new AnswerRoom(() => 0);
    room.enter(2 * AHEAD_BYTES, () => begun.push("large"));
    room.enter(1, () => begun.push("small"));
    assert.deepEqual(begun, ["large"]);
    room.leave(2 * AHEAD_BYTES);
    assert.deepEqual(begun, ["large", "small"]);
  });

  it("begins nothing after its end", () => {
    const room = new AnswerRoom(() => 0);
    room.enter(AHEAD_BYTES, () => {});
    room.enter(1, () => assert.fail("it was begun"));
    room.end();
    room.leave(AHEAD_BYTES);
  });

  it("never expects too much, forgets nobody and keeps the order, whatever is asked, given and taken when", () => {
    const step = fc.oneof(
      fc.record({ enter: fc.integer({ min: 1, max: AHEAD_BYTES }) }),
      fc.constant("give" as const),
      fc.record({ take: fc.nat({ max: AHEAD_BYTES }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let entered = 0;
        const begun: number[] = [];
        const underWay: number[] = [];
        let unsentBytes = 0;
        const room = new AnswerRoom(() => unsentBytes);
        const sum = () => underWay.reduce((all, bytes) => all + bytes, unsentBytes);
        const give = (): boolean => {
          const bytes = underWay.shift();
          if (bytes === undefined) return false;
          unsentBytes += bytes;
          room.leave(bytes);
          return true;
        };
        const take = (bytes: number): void => {
          unsentBytes = Math.max(0, unsentBytes - bytes);
          room.next();
        };
        for (const each of steps) {
          if (each === "give") {
            give();
          } else if ("take" in each) {
            take(each.take);
          } else {
            const at = entered;
            entered += 1;
            room.enter(each.enter, () => {
              begun.push(at);
              underWay.push(each.enter);
            });
          }
          assert.isAtMost(sum(), AHEAD_BYTES);
        }
        take(AHEAD_BYTES);
        while (give()) take(AHEAD_BYTES);
        assert.deepEqual(begun, [...Array(entered).keys()]);
      }),
      { numRuns: 300 },
    );
  });
});

describe("reads with large answers", () => {
  let begun: string[];
  let go: PromiseWithResolvers<void>;
  let gateway: TestGateway;
  const clock = new FakeClock();

  const handlers: Partial<MethodHandlers> = {
    "node.fs.read": async ({ nodeId, path, offset, length }) => {
      begun.push(path);
      await go.promise;
      if (nodeId === "broken") throw new Error("no");
      const mime = "text/plain";
      // Room is kept for what was asked for, also when less comes.
      const dataBase64 = nodeId === "full" ? "A".repeat(Math.ceil(length / 3) * 4) : "";
      return { path, offset, length, size: length, eof: true, mime, dataBase64 };
    },
    "node.rename": () => ({ nodeId: "n", name: "x", renamed: true, summary: {} }),
  };

  beforeEach(async () => {
    begun = [];
    go = Promise.withResolvers();
    gateway = await testGateway({ handlers, clock });
  });
  afterEach(() => gateway.close());

  const read = (client: WsClient, at: number, nodeId = "n"): string =>
    client.request("node.fs.read", { nodeId, path: `/${at}` }, String(at));

  it("are begun eleven at once, in the order they came; nothing else waits for them", async () => {
    const client = await WsClient.connect(gateway.url);
    for (let at = 0; at < 256; at += 1) read(client, at);
    assert.equal(
      (await client.call("node.rename", { nodeId: "n", name: "x" })).error?.code,
      "RATE_LIMITED",
    );
    assert.equal((await client.call("health")).ok, true);
    assert.deepEqual(
      begun,
      Array.from({ length: 11 }, (_, at) => `/${at}`),
    );
    go.resolve();
    const answers = await client.take(256);
    assert.deepEqual(
      answers.map(({ id, ok }) => [id, ok]),
      answers.map((_, at) => [String(at), true]),
    );
    assert.equal(begun.length, 256);
  });

  it("of a client that takes its answers are all given, and it is no slow reader", async () => {
    go.resolve();
    const client = await WsClient.connect(gateway.url);
    for (let at = 0; at < 48; at += 1) read(client, at, "full");
    const answers = await client.take(48);
    assert.isTrue(answers.every(({ ok }) => ok === true));
    assert.equal(client.socket.readyState, client.socket.OPEN);
  });

  it("are begun as others fail, and all of them are answered", async () => {
    const client = await WsClient.connect(gateway.url);
    for (let at = 0; at < 40; at += 1) read(client, at, "broken");
    go.resolve();
    const answers: Frame[] = await client.take(40);
    assert.isTrue(answers.every(({ error }) => error?.code === "INTERNAL_ERROR"));
  });

  it("have ids in flight while they wait, and their time from when they begin", async () => {
    const client = await WsClient.connect(gateway.url);
    for (let at = 0; at < 12; at += 1) read(client, at);
    client.request("health", {}, "11");
    assert.equal((await client.next()).error?.details?.["code"], "duplicate_request_id");
    await clock.advance(35_000);
    const late = await client.take(11);
    assert.isTrue(late.every(({ error }) => error?.code === "TIMEOUT"));
    await client.call("health");
    assert.equal(begun.at(-1), "/11");
    go.resolve();
    const last = await client.next();
    assert.deepEqual([last.id, last.ok], ["11", true]);
  });

  it("are not begun for a client that takes nothing, until it does", async () => {
    go.resolve();
    const raw = await RawClient.upgrade(gateway.port);
    const frame = (id: string | number, method: string, params: object) =>
      wsFrame(OPCODE.text, JSON.stringify({ type: "req", id: String(id), method, params }));
    raw.socket.write(frame("c", "connect", operator()));
    await raw.until("hello-ok");
    raw.socket.pause();
    const requests = Array.from({ length: 100 }, (_, at) =>
      frame(at, "node.fs.read", { nodeId: "full", path: "/f" }),
    );
    raw.socket.write(Buffer.concat(requests));
    const other = await WsClient.connect(gateway.url);
    // What it asked has been handled by now, since it came before; a full answer later nothing has moved.
    for (let round = 0; round < 50; round += 1) await other.call("health");
    assert.isBelow(begun.length, 32);
    raw.socket.resume();
    await raw.until('"id":"99"');
    assert.equal(begun.length, 100);
    raw.socket.destroy();
  });

  it("that wait when the control plane stops are answered before it closes, like all that is in flight", async () => {
    const client = await WsClient.connect(gateway.url);
    for (let at = 0; at < 20; at += 1) read(client, at);
    await client.call("health");
    const stopped = gateway.system.shutdown({ withinMs: 10_000 });
    await settle();
    go.resolve();
    const answers = await client.take(20);
    assert.isTrue(answers.every(({ ok }) => ok === true));
    assert.equal((await client.closed()).code, 1001);
    await stopped;
  });

  it("that wait are forgotten with their connection", async () => {
    const client = await WsClient.connect(gateway.url);
    for (let at = 0; at < 20; at += 1) read(client, at);
    await client.call("health");
    client.socket.terminate();
    const other = await WsClient.connect(gateway.url);
    while (gateway.roster.counts().active > 1) await other.call("health");
    go.resolve();
    await other.call("health");
    assert.equal(begun.length, 11);
  });
});
