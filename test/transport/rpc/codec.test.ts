import { expect } from "chai";
import fc from "fast-check";
import { Packr } from "msgpackr";
import { decode, encode } from "../../../transport/rpc/codec.ts";

/** A peer that uses every extension there is. */
const { pack } = new Packr({ moreTypes: true, structuredClone: true, useRecords: true });

/** What may cross: JSON and bytes. */
const plain = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    // A negative zero is a zero, as in JSON.
    fc.double({ noNaN: true }).map((number) => number + 0),
    fc.maxSafeInteger(),
    fc.string({ unit: "grapheme" }),
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    fc.array(tie("value")),
    fc.dictionary(
      fc.string({ unit: "grapheme" }).filter((key) => key !== "__proto__"),
      tie("value"),
    ),
  ),
})).value;

describe("the codec of the link", () => {
  it("brings every plain value back as it was, bytes as bytes", () => {
    fc.assert(
      fc.property(plain, (value) => {
        expect(decode(encode(value))).to.deep.equal(value);
      }),
    );
  });

  it("lets an undefined member be absent and keeps an undefined place in an array", () => {
    expect(decode(encode({ here: 1, gone: undefined, list: [undefined, 2] }))).to.deep.equal({
      here: 1,
      list: [null, 2],
    });
  });

  it("hands out bytes as views on the message", () => {
    const message = encode({ bytes: new Uint8Array([1, 2, 3]) });
    const { bytes } = decode(message) as { bytes: Uint8Array };
    expect(bytes.buffer).to.equal(message.buffer);
  });

  const refused: Record<string, Uint8Array> = {
    "a record": pack({ a: 1 }),
    "a date": pack(new Date(0)),
    "a regular expression": pack(/x/),
    "an error": pack(new Error("x")),
    "a set": pack(new Set([1])),
    "a big integer": pack(10n ** 12n),
    "a record definition": new Uint8Array([0xd4, 0x72, 0x40, 0x91, 0xa1, 0x61, 0x01]),
    "an extension without a length": new Uint8Array([0xc7]),
    "the unused code": new Uint8Array([0xc1]),
    "an unsigned 64-bit integer": new Uint8Array([0xcf, 0, 0, 0, 0, 0, 0, 0, 1]),
    "a map with a number for a key": new Uint8Array([0x81, 0x01, 0x02]),
    "a map with a map for a key": new Uint8Array([0x81, 0x80, 0x02]),
    "a map with a key of 32-bit length": new Uint8Array([0x81, 0xdb, 0, 0, 0, 1, 0x61, 0x02]),
    "two values": new Uint8Array([0x01, 0x02]),
    nothing: new Uint8Array([]),
    "text cut short": new Uint8Array([0xa5, 0x61]),
    "bytes longer than the message": new Uint8Array([0xc6, 0xff, 0xff, 0xff, 0xff, 0x00]),
    "an array that promises four thousand million values": new Uint8Array([
      0xdd, 255, 255, 255, 255,
    ]),
    "a map that promises four thousand million members": new Uint8Array([0xdf, 255, 255, 255, 255]),
  };
  for (const [name, bytes] of Object.entries(refused)) {
    it(`refuses ${name}`, () => {
      expect(() => decode(bytes)).to.throw("not a plain message");
    });
  }

  it("takes 32 levels of nesting and refuses the 33rd", () => {
    const nested = (levels: number): Uint8Array =>
      new Uint8Array([...new Array<number>(levels).fill(0x91), 0xc0]);
    expect(() => decode(nested(32))).not.to.throw();
    expect(() => decode(nested(33))).to.throw("not a plain message");
  });

  it("takes 250,000 values and refuses one more", () => {
    const values = (count: number): Uint8Array => {
      const bytes = new Uint8Array(5 + count).fill(0x80);
      bytes[0] = 0xdd;
      new DataView(bytes.buffer).setUint32(1, count);
      return bytes;
    };
    expect(decode(values(249_999))).to.have.length(249_999);
    expect(() => decode(values(250_000))).to.throw("not a plain message");
  });

  it("never crashes, hangs or builds anything odd on bytes that mean nothing", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        let value: unknown;
        try {
          value = decode(bytes);
        } catch (refusal) {
          expect(refusal).to.be.an("error");
          return;
        }
        // What was taken is plain: it survives the way there and back.
        expect(decode(encode(value))).to.deep.equal(value);
      }),
      { numRuns: 2_000 },
    );
  });
});
