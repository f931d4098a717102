/** Proves the reading of an event stream, however its bytes are cut into pieces. */
import { expect } from "chai";
import fc from "fast-check";
import { EventReader } from "../../../client/host-agent/sse.ts";

const read = (...pieces: (string | Uint8Array)[]) => {
  const reader = new EventReader();
  return pieces.flatMap((piece) => reader.read(Buffer.from(piece)));
};

describe("an event stream", () => {
  it("gives each event with its id and its data", () => {
    expect(read('id: 1\ndata: {"a":1}\n\nid: 2\ndata: x\ndata: y\n\n')).to.deep.equal([
      { id: "1", data: '{"a":1}' },
      { id: "2", data: "x\ny" },
    ]);
  });

  it("passes over comments, other fields and events without data", () => {
    expect(read(": ping\n\nretry: 1000\n\nevent: x\nid: 7\n\ndata:y\n\nfoo\n\n")).to.deep.equal([
      { id: "7", data: "y" },
    ]);
  });

  it("gives nothing of an event that is not whole", () => {
    expect(read("id: 1\ndata: x\n")).to.deep.equal([]);
  });

  it("reads every kind of line end, and takes off one space only", () => {
    expect(read("data:  x\r\n\r\ndata: y\r\rdata: z\n\n").map(({ data }) => data)).to.deep.equal([
      " x",
      "y",
      "z",
    ]);
  });

  it("refuses a line that never ends", () => {
    const reader = new EventReader();
    const piece = Buffer.alloc(1_048_576, "x");
    for (let mebibyte = 0; mebibyte < 8; mebibyte += 1) reader.read(piece);
    expect(() => reader.read(Buffer.from("x"))).to.throw(RangeError);
  });

  it("reads the same however it is cut into pieces, also inside a character and a line end", () => {
    const text = fc.array(fc.constantFrom("é", "🍋", "a", " ", ":", "\u2028"), { maxLength: 6 });
    fc.assert(
      fc.property(
        fc.array(text, { minLength: 1, maxLength: 5 }),
        fc.constantFrom("\n", "\r\n", "\r"),
        fc.array(fc.nat(80), { maxLength: 8 }),
        (lines, end, cuts) => {
          const whole = lines
            .map((line, n) => `id: ${n}${end}data: ${line.join("")}${end}${end}`)
            .join("");
          const bytes = Buffer.from(whole);
          const at = [...cuts.filter((cut) => cut < bytes.length), 0, bytes.length].sort(
            (a, b) => a - b,
          );
          const pieces = at.slice(1).map((to, n) => bytes.subarray(at[n], to));
          // A line end of CR alone is known for one only when something follows it.
          expect(read(...pieces, ": end\n")).to.deep.equal(
            lines.map((line, n) => ({ id: String(n), data: line.join("") })),
          );
        },
      ),
    );
  });
});
