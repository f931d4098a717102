import { assert } from "chai";
import fc from "fast-check";
import { FrameScan } from "../../../gateways/ws/frame-scan.ts";
import { OPCODE, wsFrame } from "../../support/ws-client.ts";

describe("the counting of data frames", () => {
  const frame = fc.record({
    opcode: fc.constantFrom(...Object.values(OPCODE)),
    bytes: fc.oneof(fc.nat(200), fc.constantFrom(125, 126, 127, 65_535, 65_536, 70_000)),
  });

  it("is exact however the bytes come in", () => {
    fc.assert(
      fc.property(
        fc.array(frame, { maxLength: 8 }),
        fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 20 }),
        (frames, cuts) => {
          const bytes = Buffer.concat(
            frames.map((one) => wsFrame(one.opcode, Buffer.alloc(one.bytes))),
          );
          const scan = new FrameScan();
          let counted = 0;
          for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
            // Past the cuts that were drawn, in larger pieces.
            const size = cuts[turn] ?? 10_000;
            counted += scan.dataFrames(bytes.subarray(at, at + size));
            at += size;
          }
          assert.isFalse(scan.isWithinMessage);
          assert.equal(counted, frames.filter(({ opcode }) => opcode < OPCODE.close).length);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("takes the largest length there is for what it is, and counts nothing in it", () => {
    const head = Buffer.from([
      0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    const scan = new FrameScan();
    assert.equal(scan.dataFrames(head), 1);
    assert.equal(scan.dataFrames(Buffer.alloc(100_000, 0x80)), 0);
  });
});
