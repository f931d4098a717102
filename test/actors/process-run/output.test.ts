import { expect } from "chai";
import fc from "fast-check";
import { Output } from "../../../actors/process-run/output.ts";
import { systemClock } from "../../../host/clock.ts";
import { FakeClock } from "../../support/fake-clock.ts";

const arrivals = fc.array(
  fc.tuple(
    fc.constantFrom("stdout" as const, "stderr" as const),
    fc.uint8Array({ minLength: 1, maxLength: 9 }),
  ),
  { maxLength: 12 },
);

describe("the captured output", () => {
  it("is the head of what arrived, in its order, on both streams together", () => {
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 60 }), (pieces, maxBytes) => {
        const output = new Output(maxBytes, systemClock);
        const expected = { stdout: [] as number[], stderr: [] as number[] };
        let left = maxBytes;
        let arrived = 0;
        for (const [stream, bytes] of pieces) {
          output.chunk(stream, bytes);
          arrived += bytes.length;
          for (const byte of bytes) {
            if (left === 0) break;
            expected[stream].push(byte);
            left -= 1;
          }
          // What was handed over is the caller's again.
          bytes.fill(0);
        }
        output.end("stdout");
        expect(output.complete).to.equal(false);
        output.end("stderr");
        expect([...output.take("stdout")]).to.deep.equal(expected.stdout);
        expect([...output.take("stderr")]).to.deep.equal(expected.stderr);
        expect(output.hasOverflowed).to.equal(arrived > maxBytes);
        expect(output.complete).to.equal(arrived <= maxBytes);
      }),
    );
  });

  it("fits its bound exactly, and overflows with one byte more", () => {
    const output = new Output(1_048_576, systemClock);
    output.chunk("stdout", Buffer.alloc(1_048_575));
    output.chunk("stderr", Buffer.alloc(1));
    expect(output.hasOverflowed).to.equal(false);
    output.chunk("stdout", Buffer.alloc(1));
    expect(output.hasOverflowed).to.equal(true);
    expect(output.take("stdout").length + output.take("stderr").length).to.equal(1_048_576);
  });

  it("takes no more memory than the bytes when a program writes one at a time", () => {
    const output = new Output(1_048_576, systemClock);
    for (let n = 0; n < 100_000; n += 1) output.chunk("stdout", Buffer.of(n & 0xff));
    const taken = output.take("stdout");
    expect(taken.length).to.equal(100_000);
    expect(taken.buffer.byteLength).to.equal(100_000);
  });

  it("is quiet when nothing came for a while, and at once when it has ended", async () => {
    const clock = new FakeClock();
    const output = new Output(10, clock);
    let quiet = false;
    void output.quiet(250).then(() => {
      quiet = true;
    });
    await clock.advance(200);
    output.chunk("stdout", Buffer.of(1));
    await clock.advance(249);
    expect(quiet).to.equal(false);
    await clock.advance(1);
    expect(quiet).to.equal(true);

    output.end("stdout");
    output.end("stderr");
    await output.quiet(250);
    await output.endedWithin(250);
    await output.ended;
    expect(clock.pending).to.equal(0);
  });
});
