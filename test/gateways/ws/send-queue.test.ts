import { randomBytes } from "node:crypto";
import { assert } from "chai";
import fc from "fast-check";
import { LongText } from "../../../actors/session/answer-text.ts";
import { Backlog } from "../../../gateways/ws/backlog.ts";
import { type Outlet, type SendBounds, SendQueue } from "../../../gateways/ws/send-queue.ts";
import { FakeClock } from "../../support/fake-clock.ts";

const KIB = 1_024;
const BOUNDS: SendBounds = {
  maxEventBytes: 1_000 * KIB,
  maxAnswerBytes: 500 * KIB,
  stallMs: 10_000,
};

/** A socket that takes bytes only when it is told to. */
class StuckOutlet implements Outlet {
  bufferedAmount = 0;
  /** The largest amount it was ever asked to hold. */
  mostBuffered = 0;
  readonly texts: string[] = [];
  readonly #frames: { readonly bytes: number; readonly flushed: () => void }[] = [];
  #parts: Buffer[] = [];

  send(data: string | Buffer, fin: boolean, flushed: () => void): void {
    const bytes = Buffer.from(data);
    this.#parts.push(bytes);
    if (fin) {
      this.texts.push(Buffer.concat(this.#parts).toString());
      this.#parts = [];
    }
    this.#frames.push({ bytes: bytes.length, flushed });
    this.bufferedAmount += bytes.length;
    this.mostBuffered = Math.max(this.mostBuffered, this.bufferedAmount);
  }

  get frames(): number {
    return this.#frames.length;
  }

  /** The system takes so many frames of those it holds. */
  take(count = 1): void {
    for (const { bytes, flushed } of this.#frames.splice(0, count)) {
      this.bufferedAmount -= bytes;
      flushed();
    }
  }

  takeAll(): void {
    while (this.#frames.length > 0) this.take();
  }
}

function setUp(bounds: Partial<SendBounds> = {}, backlog = new Backlog(Number.MAX_SAFE_INTEGER)) {
  const outlet = new StuckOutlet();
  const clock = new FakeClock();
  const heard: string[] = [];
  const queue = new SendQueue(outlet, { ...BOUNDS, ...bounds }, backlog, clock, {
    onPressure: (high) => heard.push(high ? "high" : "low"),
    onAnswersSent: () => {},
    onSlow: () => heard.push("slow"),
  });
  return { outlet, clock, heard, queue, backlog };
}

describe("the send queue of a socket", () => {
  it("hands over at once what the socket has room for, and holds the rest in order", () => {
    const { backlog, outlet, queue } = setUp();
    for (let index = 0; index < 40; index += 1) queue.push(`${index}`.padEnd(4 * KIB), "answer");
    assert.equal(outlet.frames, 16);
    assert.equal(backlog.bytes, 24 * 4 * KIB);
    outlet.takeAll();
    assert.deepEqual(
      outlet.texts.map((text) => Number(text)),
      [...Array(40).keys()],
    );
    assert.equal(backlog.bytes, 0);
  });

  it("sends base64 that is made as it leaves in its turn, with no more of it in the socket's hands", () => {
    const { backlog, outlet, queue } = setUp();
    const bytes = randomBytes(1_000 * KIB);
    const long = new LongText('{"data":"', bytes, '"}}');
    for (const text of ["before", long, "after"]) queue.push(text, "answer");
    assert.isBelow(outlet.mostBuffered, 128 * KIB);
    outlet.takeAll();
    assert.deepEqual(outlet.texts, ["before", `{"data":"${bytes.toString("base64")}"}}`, "after"]);
    assert.isBelow(outlet.mostBuffered, 128 * KIB + 64);
    assert.equal(backlog.bytes, 0);
  });

  it("sends a large text in fragments, so that the socket never holds much of it", () => {
    const { outlet, queue } = setUp();
    const text = `${"€".repeat(700 * KIB)}end`;
    queue.push(text, "answer");
    queue.push("next", "answer");
    assert.deepEqual(outlet.texts, []);
    outlet.takeAll();
    assert.deepEqual(outlet.texts, [text, "next"]);
    assert.isAtMost(outlet.mostBuffered, 128 * KIB);
  });

  it("sends a text of up to 64 KiB whole, and one byte more in two fragments", () => {
    const { outlet, queue } = setUp();
    queue.push("x".repeat(64 * KIB), "answer");
    assert.equal(outlet.frames, 1);
    outlet.takeAll();
    queue.push("x".repeat(64 * KIB + 1), "answer");
    assert.equal(outlet.frames, 1);
    outlet.take();
    assert.equal(outlet.frames, 1);
    outlet.takeAll();
    assert.deepEqual(
      outlet.texts.map((text) => text.length),
      [64 * KIB, 64 * KIB + 1],
    );
  });

  it("never mixes or reorders texts, nor overfills the socket, whatever comes when", () => {
    const step = fc.oneof(
      fc.record({
        push: fc.string({ unit: "grapheme", maxLength: 50 }),
        times: fc.nat({ max: 9_000 }),
      }),
      fc.record({ take: fc.nat({ max: 20 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), fc.boolean(), (steps, events) => {
        const { backlog, outlet, queue, heard } = setUp({
          maxEventBytes: Number.MAX_SAFE_INTEGER,
        });
        const pushed: string[] = [];
        for (const each of steps) {
          if ("push" in each) {
            const text = each.push.repeat(each.times);
            pushed.push(text);
            queue.push(text, events && pushed.length % 2 === 0 ? "event" : "answer");
          } else {
            outlet.take(each.take);
          }
        }
        outlet.takeAll();
        assert.deepEqual(outlet.texts, pushed);
        assert.isBelow(outlet.mostBuffered, 128 * KIB);
        assert.notEqual(heard.at(-1), "high");
        assert.equal(backlog.bytes, 0);
      }),
      { numRuns: 200 },
    );
  });

  describe("tells a reader that is too slow", () => {
    it("when nothing moves for 10 s although something waits", async () => {
      const { clock, heard, outlet, queue } = setUp();
      queue.push("x", "answer");
      await clock.advance(9_999);
      assert.deepEqual(heard, []);
      await clock.advance(1);
      assert.deepEqual(heard, ["slow"]);
      queue.push("y", "answer");
      assert.deepEqual(outlet.texts, ["x"]);
    });

    it("and not one that takes a fragment now and then, for as long as that may last", async () => {
      const { clock, heard, outlet, queue } = setUp();
      queue.push("x".repeat(4_096 * KIB), "answer");
      for (let round = 0; round < 63; round += 1) {
        await clock.advance(9_999);
        outlet.take();
      }
      assert.notInclude(heard, "slow");
      await clock.advance(9_999);
      outlet.takeAll();
      assert.equal(outlet.texts.length, 1);
    });

    it("counting from its last progress, not from the last look", async () => {
      const { clock, heard, outlet, queue } = setUp();
      queue.push("x".repeat(200 * KIB), "answer");
      await clock.advance(7_000);
      outlet.take();
      await clock.advance(9_999);
      assert.notInclude(heard, "slow");
      await clock.advance(1);
      assert.include(heard, "slow");
    });

    it("and not one that takes small texts one by one", async () => {
      const { clock, heard, outlet, queue } = setUp();
      for (const text of ["a", "b", "c"]) queue.push(text, "answer");
      for (let round = 0; round < 2; round += 1) {
        await clock.advance(7_000);
        outlet.take();
      }
      await clock.advance(9_999);
      assert.deepEqual(heard, []);
      await clock.advance(1);
      assert.deepEqual(heard, ["slow"]);
    });

    it("and not one that had nothing to take meanwhile", async () => {
      const { clock, heard, outlet, queue } = setUp();
      queue.push("x", "answer");
      outlet.takeAll();
      await clock.advance(60_000);
      queue.push("y", "answer");
      await clock.advance(9_999);
      assert.deepEqual(heard, []);
      outlet.takeAll();
      await clock.advance(10_000);
      assert.deepEqual(heard, []);
      assert.equal(clock.pending, 0);
    });

    it("counting only from when something waited, also while a former look is still due", async () => {
      const { clock, heard, outlet, queue } = setUp();
      queue.push("x", "answer");
      outlet.takeAll();
      await clock.advance(9_000);
      queue.push("y", "answer");
      await clock.advance(9_999);
      assert.deepEqual(heard, []);
      await clock.advance(1);
      assert.deepEqual(heard, ["slow"]);
    });

    it("when more bytes of events wait than may, and not before", () => {
      const { heard, outlet, queue } = setUp();
      queue.push("x".repeat(64 * KIB), "answer");
      for (let index = 0; index < 10; index += 1) queue.push("e".repeat(100 * KIB), "event");
      assert.deepEqual(heard, []);
      queue.push("e", "event");
      assert.deepEqual(heard, ["slow"]);
      outlet.takeAll();
      assert.equal(outlet.texts.length, 1);
    });

    it("by its events alone: answers may wait beyond that", () => {
      const { heard, outlet, queue } = setUp();
      for (let index = 0; index < 10; index += 1) queue.push("a".repeat(1_000 * KIB), "answer");
      queue.push("e", "event");
      assert.deepEqual(heard, ["high"]);
      outlet.takeAll();
      assert.equal(outlet.texts.length, 11);
      assert.deepEqual(heard, ["high", "low"]);
    });
  });

  it("asks for a pause when too many bytes of answers wait, and for more when half of them have left", () => {
    const { backlog, heard, outlet, queue } = setUp();
    queue.push("x".repeat(64 * KIB), "answer");
    for (let index = 0; index < 10; index += 1) queue.push("a".repeat(50 * KIB), "answer");
    assert.deepEqual(heard, []);
    queue.push("a", "answer");
    assert.deepEqual(heard, ["high"]);
    while (backlog.bytes > 251 * KIB) outlet.take();
    assert.deepEqual(heard, ["high"]);
    while (backlog.bytes > 250 * KIB) outlet.take();
    assert.deepEqual(heard, ["high", "low"]);
  });

  it("says when everything has been taken, and at once when it ends", async () => {
    const { outlet, queue } = setUp();
    await queue.flushed();
    const told: string[] = [];
    queue.push("x".repeat(100 * KIB), "answer");
    const flushed = queue.flushed().then(() => told.push("flushed"));
    outlet.take();
    await null;
    assert.deepEqual(told, []);
    outlet.takeAll();
    await flushed;
    assert.deepEqual(told, ["flushed"]);
    queue.push("y", "answer");
    const ended = queue.flushed();
    queue.end();
    await ended;
    await queue.flushed();
  });

  it("drops what waits when it ends, and leaves no timer", () => {
    const { backlog, clock, heard, outlet, queue } = setUp();
    queue.push("x".repeat(200 * KIB), "answer");
    queue.push("y", "event");
    queue.push("z", "answer");
    queue.end();
    queue.end();
    assert.equal(clock.pending, 0);
    assert.equal(backlog.bytes, 0);
    outlet.takeAll();
    assert.deepEqual(outlet.texts, []);
    assert.deepEqual(heard, []);
  });
});

describe("what waits for all readers together", () => {
  it("counts a text that is leaving for as long as any of it waits", () => {
    const { backlog, outlet, queue } = setUp();
    queue.push("x".repeat(300 * KIB), "answer");
    const waiting = [backlog.bytes];
    while (outlet.frames > 0) {
      outlet.take();
      waiting.push(backlog.bytes);
    }
    assert.deepEqual(
      waiting.map((bytes) => bytes / KIB),
      [236, 172, 108, 44, 0, 0],
    );
  });

  it("is bounded: the reader whose bytes have waited longest is given up before one with more that just came", async () => {
    const backlog = new Backlog(1_000 * KIB);
    const slow = setUp({}, backlog);
    const fast = setUp({}, backlog);
    for (const { queue } of [slow, fast]) queue.push("x".repeat(64 * KIB), "answer");
    slow.queue.push("s".repeat(200 * KIB), "answer");
    await slow.clock.advance(1_000);
    fast.queue.push("f".repeat(800 * KIB), "answer");
    assert.notInclude(slow.heard, "slow");
    fast.queue.push("f", "answer");
    assert.include(slow.heard, "slow");
    assert.notInclude(fast.heard, "slow");
    fast.outlet.takeAll();
    assert.deepEqual(fast.outlet.texts.length, 3);
    assert.equal(backlog.bytes, 0);
  });

  it("counts as waiting only since its first text did, also one that leaves in parts", async () => {
    const { clock, outlet, queue } = setUp();
    assert.equal(queue.waitedMs, 0);
    queue.push("x".repeat(300 * KIB), "answer");
    await clock.advance(7);
    queue.push("y".repeat(200 * KIB), "answer");
    assert.equal(queue.waitedMs, 7);
    outlet.take();
    assert.equal(queue.waitedMs, 7);
    while (queue.answerBytes > 200 * KIB) outlet.take();
    assert.equal(queue.waitedMs, 0);
    await clock.advance(2);
    assert.equal(queue.waitedMs, 2);
    outlet.takeAll();
    assert.equal(queue.waitedMs, 0);
  });

  it("is bounded: of readers that are equally behind the one that holds most is given up, and all it held is free again", () => {
    const backlog = new Backlog(1_000 * KIB);
    const small = setUp({}, backlog);
    const large = setUp({}, backlog);
    for (const { queue } of [small, large]) queue.push("x".repeat(64 * KIB), "answer");
    small.queue.push("s".repeat(300 * KIB), "answer");
    large.queue.push("l".repeat(500 * KIB), "answer");
    assert.equal(backlog.bytes, 800 * KIB);
    assert.deepEqual([small.heard, large.heard], [[], []]);
    small.queue.push("s".repeat(200 * KIB), "answer");
    assert.notInclude(large.heard, "slow");
    small.queue.push("s", "event");
    assert.deepEqual(large.heard, []);
    assert.include(small.heard, "slow");
    assert.equal(backlog.bytes, 500 * KIB);
    large.outlet.takeAll();
    assert.equal(large.outlet.texts.length, 2);
    assert.equal(backlog.bytes, 0);
  });
});
