import { type Duplex, duplexPair } from "node:stream";
import { expect } from "chai";
import { pipe } from "../../../transport/link/pipe.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";

const BUFFER_BYTES = 16_384;
const CHUNK = Buffer.alloc(1_024, 7);
const CHUNKS = 1_024;

describe("the pipe between a node and the hub", () => {
  /** Both far ends of a pipe, and what it has counted. */
  function joined() {
    const [node, nodeEnd] = duplexPair({ highWaterMark: BUFFER_BYTES });
    const [hub, hubEnd] = duplexPair({ highWaterMark: BUFFER_BYTES });
    const clock = new FakeClock();
    const counted = { taken: 0, given: 0, closed: 0 };
    for (const end of [nodeEnd, hubEnd]) end.on("error", () => undefined);
    pipe({
      node: nodeEnd,
      hub: hubEnd,
      clock,
      ration: {
        join: () => ({
          took: (bytes) => {
            counted.taken += bytes;
          },
          gave: (bytes) => {
            counted.given += bytes;
          },
          leave: () => undefined,
        }),
      },
      onGiven: () => undefined,
      onClosed: () => {
        counted.closed += 1;
      },
    });
    return { node, hub, nodeEnd, hubEnd, clock, counted };
  }

  function receivedBy(end: Duplex): () => number {
    let bytes = 0;
    end.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
    });
    return () => bytes;
  }

  for (const slow of ["hub", "node"] as const) {
    it(`reads no faster than a ${slow} that stands still takes it, and loses nothing`, async () => {
      const { node, hub, counted } = joined();
      const [source, target] = slow === "hub" ? [node, hub] : [hub, node];
      for (let chunk = 0; chunk < CHUNKS; chunk++) source.write(CHUNK);
      await settle();
      const read = slow === "hub" ? counted.taken : counted.given;
      expect(read).to.be.within(BUFFER_BYTES, 4 * BUFFER_BYTES);

      const received = receivedBy(target);
      source.end();
      for (let round = 0; round < CHUNKS && received() < CHUNKS * CHUNK.length; round++) {
        await settle();
      }
      expect(received()).to.equal(CHUNKS * CHUNK.length);
    });
  }

  for (const slow of ["hub", "node"] as const) {
    it(`cuts both when a ${slow} has taken nothing for 30 s, though the other is gone, and not while it takes some`, async () => {
      const { node, hub, clock, counted } = joined();
      const [source, target] = slow === "hub" ? [node, hub] : [hub, node];
      for (let chunk = 0; chunk < CHUNKS; chunk++) source.write(CHUNK);
      source.end();
      await clock.advance(29_999);
      expect(target.read()).to.be.an.instanceOf(Buffer);
      await clock.advance(29_999);
      expect(counted.closed).to.equal(0);
      await clock.advance(1);
      expect(counted.closed).to.equal(1);
      expect(clock.pending).to.equal(0);
    });
  }

  it("sets no timer while both take what comes", async () => {
    const { node, hub, clock } = joined();
    for (const end of [node, hub]) end.resume();
    for (let chunk = 0; chunk < CHUNKS; chunk++) node.write(CHUNK);
    for (let round = 0; round < CHUNKS && node.writableLength > 0; round++) await settle();
    expect(clock.pending).to.equal(0);
  });

  it("tells once that it is over, however it ends", async () => {
    const broken = joined();
    broken.nodeEnd.destroy(new Error("reset"));
    await settle();
    expect(broken.counted.closed).to.equal(1);

    const ended = joined();
    for (const end of [ended.node, ended.hub]) end.resume();
    ended.node.end();
    ended.hub.end();
    await settle();
    expect(ended.counted.closed).to.equal(1);
  });
});
