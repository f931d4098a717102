import { expect } from "chai";
import fc from "fast-check";
import { Lines } from "../../../actors/job/lines.ts";

function linesOf(chunks: readonly Uint8Array[]): string[] {
  const heard: string[] = [];
  const lines = new Lines((line) => void heard.push(line));
  for (const chunk of chunks) {
    const borrowed = Uint8Array.from(chunk);
    lines.chunk(borrowed);
    borrowed.fill(0x21);
  }
  lines.end();
  return heard;
}

const bytes = (text: string): Buffer => Buffer.from(text);
const MIB = 1_048_576;

describe("The lines of a program's output", () => {
  it("end with LF or CRLF; a CR elsewhere, a NUL and an empty line are kept", () => {
    const text = "one\r\n\ntwo\rthree\u0000\r\r\nrest";
    expect(linesOf([bytes(text)])).to.deep.equal(["one", "", "two\rthree\u0000\r", "rest"]);
  });

  it("are none without output, and have no empty one behind the last line end", () => {
    expect(linesOf([])).to.deep.equal([]);
    expect(linesOf([bytes("a\n")])).to.deep.equal(["a"]);
  });

  it("are the same however the bytes come", () => {
    const character = fc.constantFrom("a", "é", "€", "\u{1f600}", "\n", "\r", "\u0000");
    fc.assert(
      fc.property(
        fc.string({ unit: character, maxLength: 60 }),
        fc.array(fc.nat(200), { maxLength: 12 }),
        (text, cuts) => {
          const whole = bytes(text);
          const places = [0, ...cuts.map((cut) => cut % (whole.length + 1)), whole.length];
          places.sort((a, b) => a - b);
          const chunks = places.slice(1).map((end, at) => whole.subarray(places[at], end));
          expect(linesOf(chunks)).to.deep.equal(linesOf([whole]));
        },
      ),
    );
  });

  it("show what is no UTF-8 as U+FFFD, and go on", () => {
    expect(linesOf([Buffer.from([0x61, 0xff, 0x0a, 0xe2, 0x82, 0x0a, 0x62])])).to.deep.equal([
      "a\ufffd",
      "\ufffd",
      "b",
    ]);
  });

  it("are whole up to 1 MiB, and go on in the next beyond that", () => {
    const most = Buffer.alloc(MIB, "x");
    expect(linesOf([most, bytes("\n")]).map(({ length }) => length)).to.deep.equal([MIB]);
    expect(linesOf([most, bytes("y\n")])).to.deep.equal([String(most), "y"]);
    expect(linesOf([Buffer.alloc(2.5 * MIB, "x")]).map(({ length }) => length)).to.deep.equal([
      MIB,
      MIB,
      MIB / 2,
    ]);
  });

  it("are parted between characters", () => {
    for (const character of ["é", "€", "\u{1f600}"]) {
      for (let shift = 0; shift < 4; shift += 1) {
        const text = "x".repeat(shift) + character.repeat(600_000);
        const lines = linesOf([bytes(text)]);
        expect(lines.length).to.be.greaterThan(1);
        expect(lines.join("") === text, `${character} ${shift}`).to.equal(true);
      }
    }
  });

  it("are bounded also where bytes that only go on are no character", () => {
    const lines = linesOf([Buffer.alloc(2 * MIB + 5, 0x80)]);
    expect(lines.map(({ length }) => length)).to.deep.equal([MIB, MIB, 5]);
  });
});
