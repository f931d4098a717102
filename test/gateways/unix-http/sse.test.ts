import { expect } from "chai";
import type { Frame, FrameReader } from "../../../actors/job/messages.ts";
import { lastEventIdOf } from "../../../gateways/unix-http/sse.ts";
import { HostAgentError } from "../../../protocol/host-agent/errors.ts";
import { dataOf, idsOf, type StreamDoor, streamDoor } from "../../support/stream-door.ts";

/** A source that a test feeds. */
class Feed implements FrameReader<unknown> {
  closes = 0;
  asked = 0;
  #batches: (readonly Frame<unknown>[] | null | Error)[] = [];
  #tell: () => void = () => {};

  push(...data: readonly unknown[]): void {
    this.#add(data.map((one, at) => ({ id: at + 1, data: one })));
  }

  end(): void {
    this.#add(null);
  }

  fail(failure: Error): void {
    this.#add(failure);
  }

  async next(): Promise<readonly Frame<unknown>[] | null> {
    this.asked += 1;
    while (this.#batches.length === 0) {
      await new Promise<void>((resolve) => {
        this.#tell = resolve;
      });
    }
    const batch = this.#batches.shift() ?? null;
    if (batch instanceof Error) throw batch;
    return batch;
  }

  close(): void {
    this.closes += 1;
    this.end();
  }

  #add(batch: readonly Frame<unknown>[] | null | Error): void {
    this.#batches.push(batch);
    this.#tell();
  }
}

const has =
  (part: string) =>
  (text: string): boolean =>
    text.includes(part);

describe("A stream of server-sent events", () => {
  let door: StreamDoor;
  let feeds: Feed[];
  let source: () => FrameReader<unknown>;

  beforeEach(async () => {
    feeds = [];
    source = () => {
      const feed = new Feed();
      feeds.push(feed);
      return feed;
    };
    door = await streamDoor(() => source());
  });
  afterEach(() => door[Symbol.asyncDispose]());

  const feed = (at = 0): Feed => feeds[at] ?? new Feed();

  it("shows its headers and how long to wait before the next try, though there is no frame yet", async () => {
    const seen = await door.follow();
    expect(seen.status).to.equal(200);
    expect(seen.headers["content-type"]).to.equal("text/event-stream");
    expect(seen.headers["cache-control"]).to.equal("no-cache");
    expect(seen.headers["connection"]).to.equal("keep-alive");
    expect(await seen.until(has("\n\n"))).to.equal("retry: 1000\n\n");
  });

  it("writes a frame as its id, one line of JSON and a blank line, whatever is in it", async () => {
    const seen = await door.follow();
    const line = "a\r\nid: 9\n\ndata: {}\u0000\u2028é\ud83d\ude00";
    feed().push({ line }, { lost: true });
    const text = await seen.until(has("lost"));
    expect(text.slice(text.indexOf("id:")).split("\n")).to.have.length(7);
    expect(dataOf(text)).to.deep.equal([{ line }, { lost: true }]);
    expect(idsOf(text)).to.deep.equal([1, 2]);
  });

  it("ends properly with its source, and lets go of it", async () => {
    const seen = await door.follow();
    feed().push({ n: 1 });
    feed().end();
    expect(await seen.ended).to.equal(true);
    expect(dataOf(seen.text())).to.deep.equal([{ n: 1 }]);
    expect(feed().closes).to.equal(1);
    expect(door.carried()).to.equal(0);
  });

  it("breaks off, without a proper end, when its source fails", async () => {
    const seen = await door.follow();
    feed().push({ n: 1 });
    await seen.until(has("data:"));
    feed().fail(new Error("torn"));
    expect(await seen.ended).to.equal(false);
    expect(feed().closes).to.equal(1);
  });

  it("lets go of its source when the client goes away", async () => {
    const seen = await door.follow();
    expect(door.carried()).to.equal(1);
    const closed = door.closed();
    seen.leave();
    await closed;
    await door.system.clock.advance(0);
    expect(feed().closes).to.equal(1);
    expect(door.carried()).to.equal(0);
  });

  it("answers what its source refuses as a plain error", async () => {
    source = () => {
      throw new HostAgentError("unknown-job");
    };
    const seen = await door.follow();
    await seen.ended;
    expect(seen.status).to.equal(404);
    expect(JSON.parse(seen.text())).to.deep.equal({ code: "unknown-job", message: "no such job" });
  });

  it("shows that it lives after 15 s of silence, and not before", async () => {
    const seen = await door.follow();
    await seen.until(has("\n\n"));
    await door.system.clock.advance(14_999);
    feed().push({ n: 1 });
    await seen.until(has("data:"));
    await door.system.clock.advance(14_999);
    feed().push({ n: 2 });
    await seen.until(has('"n":2'));
    expect(seen.text()).not.to.include("\n:\n");
    await door.system.clock.advance(15_000);
    expect(await seen.until(has("\n:\n"))).to.match(/\n:\n\n$/);
    await door.system.clock.advance(15_000);
    await seen.until(has(":\n\n:\n\n"));
  });

  it("refuses the seventeenth without opening its source, until one of the sixteen has gone", async () => {
    const seen = await Promise.all(Array.from({ length: 16 }, () => door.follow()));
    const refused = await door.follow();
    await refused.ended;
    expect(refused.status).to.equal(503);
    expect(JSON.parse(refused.text())).to.have.property("code", "too-many-streams");
    expect(feeds).to.have.length(16);
    feed(3).end();
    await Promise.race(seen.map(({ ended }) => ended));
    await door.system.clock.advance(0);
    expect((await door.follow()).status).to.equal(200);
  });

  it("gives back the place of a source that was refused", async () => {
    const open = source;
    source = () => {
      throw new HostAgentError("unknown-job");
    };
    for (let n = 0; n < 17; n += 1) expect((await door.follow()).status).to.equal(404);
    source = open;
    expect((await door.follow()).status).to.equal(200);
  });

  it("asks its source for no more while a reader takes nothing, and cuts it after 10 s", async () => {
    const seen = await door.follow();
    await seen.until(has("\n\n"));
    seen.pause();
    const text = "x".repeat(65_536);
    for (let n = 0; n < 100; n += 1) feed().push({ text });
    await door.system.clock.advance(9_000);
    const { asked } = feed();
    expect(asked).to.be.lessThan(50);
    await door.system.clock.advance(999);
    expect(feed().asked).to.equal(asked);
    expect(feed().closes).to.equal(0);
    await door.system.clock.advance(1_001);
    expect(feed().closes).to.equal(1);
    seen.resume();
    expect(await seen.ended).to.equal(false);
    expect(String(door.system.text())).to.include("took nothing for too long");
  });

  it("does not cut a reader that was slow and went on", async () => {
    const seen = await door.follow();
    seen.pause();
    const text = "x".repeat(65_536);
    for (let n = 0; n < 30; n += 1) feed().push({ text });
    await door.system.clock.advance(9_000);
    seen.resume();
    feed().push({ last: true });
    await seen.until(has("last"));
    await door.system.clock.advance(9_000);
    expect(dataOf(seen.text())).to.have.length(31);
    expect(feed().closes).to.equal(0);
  });

  it("is cut, not ended, when the agent ends: its source has more to come", async () => {
    const seen = await door.follow();
    await seen.until(has("\n\n"));
    await door.system.shutdown();
    expect(await seen.ended).to.equal(false);
    expect(feed().closes).to.equal(1);
  });
});

describe("The last event that a request names", () => {
  it("is a number, none, or one of another stream", () => {
    expect(lastEventIdOf(undefined)).to.equal(null);
    expect(lastEventIdOf("")).to.equal(null);
    expect(lastEventIdOf("0")).to.equal(0);
    expect(lastEventIdOf("17")).to.equal(17);
    for (const odd of ["-1", "1.5", "abc", "1e3", "1, 2", " 1"]) {
      expect(lastEventIdOf(odd), odd).to.equal(-1);
    }
    // Beyond what was ever sent, however long it is written.
    for (const huge of ["9007199254740992", "18446744073709551616", "9".repeat(400)]) {
      expect(lastEventIdOf(huge), huge).to.equal(Number.MAX_SAFE_INTEGER);
    }
  });
});
