import { expect } from "chai";
import fc from "fast-check";
import { durationMs, port, sizeBytes, switchedOn, variable } from "../../cli/arguments.ts";
import { UsageError } from "../../cli/exit.ts";
import { bytesText, durationText, printable, shellWord, table } from "../../cli/printable.ts";

describe("values on the command line", () => {
  for (const [text, ms] of [
    ["1500ms", 1_500],
    ["60s", 60_000],
    ["2m", 120_000],
    ["0.5s", 500],
    ["0s", 0],
  ] as const) {
    it(`reads ${text} as ${ms} ms`, () => {
      expect(durationMs("--timeout", text)).to.equal(ms);
    });
  }
  for (const text of ["", "60", "s", "1h", "-1s", "1 s", "1.0001s", "1e3s", "0x1s", "1.5ms"]) {
    it(`does not read ${JSON.stringify(text)} as a duration`, () => {
      expect(() => durationMs("--timeout", text)).to.throw(UsageError, /^--timeout wants/);
    });
  }

  for (const [text, bytes] of [
    ["1", 1],
    ["512B", 512],
    ["64KiB", 65_536],
    ["1MiB", 1_048_576],
    ["0.5MiB", 524_288],
  ] as const) {
    it(`reads ${text} as ${bytes} bytes`, () => {
      expect(sizeBytes("--max-output", text)).to.equal(bytes);
    });
  }
  for (const text of ["", "MiB", "1MB", "1mib", "1.5", "-1", "1e3"]) {
    it(`does not read ${JSON.stringify(text)} as a size`, () => {
      expect(() => sizeBytes("--max-output", text)).to.throw(UsageError, /^--max-output wants/);
    });
  }

  it("reads ports from 0 to 65535", () => {
    expect(port("--port", "0")).to.equal(0);
    expect(port("--port", "65535")).to.equal(65_535);
    for (const text of ["", "65536", "-1", "80.5", "http", "123456"])
      expect(() => port("--port", text)).to.throw(UsageError, /^--port wants/);
  });

  it("takes a blank variable for none, and only plain words for a switch", () => {
    expect(variable({ A: "  " }, "A")).to.equal(null);
    expect(variable({ A: " x " }, "A")).to.equal("x");
    expect(variable({}, "A")).to.equal(null);
    expect(switchedOn({ A: "true" }, "A")).to.equal(true);
    expect(switchedOn({ A: "1" }, "A")).to.equal(true);
    expect(switchedOn({ A: "0" }, "A")).to.equal(false);
    expect(switchedOn({ A: "false" }, "A")).to.equal(false);
    expect(switchedOn({}, "A")).to.equal(false);
    expect(() => switchedOn({ A: "yes" }, "A")).to.throw(UsageError, /A wants true or false/);
  });
});

describe("text for a terminal", () => {
  it("holds no control, format or separator character, whatever came in", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 40 }), (text) => {
        expect(printable(text)).to.not.match(/[\p{C}\p{Zl}\p{Zp}]/u);
      }),
    );
  });

  it("leaves ordinary text as it is", () => {
    expect(printable("wörker-1 ✓ 日本")).to.equal("wörker-1 ✓ 日本");
  });

  it("shows what it escaped", () => {
    expect(printable("a\u001b[2J\r\n\u202eb\u0000\ud800")).to.equal(
      "a\\u{1b}[2J\\u{d}\\u{a}\\u{202e}b\\u{0}\\u{d800}",
    );
  });

  it("is cut after its bound", () => {
    expect(printable("x".repeat(256))).to.have.length(256);
    expect(printable("x".repeat(257))).to.equal(`${"x".repeat(255)}…`);
  });

  it("stands in columns", () => {
    expect(
      table([
        ["NAME", "ID"],
        ["a", "1"],
        ["日本語x", ""],
      ]),
    ).to.equal("NAME  ID\na     1\n日本語x\n");
  });

  it("says sizes and lengths of time for a reader", () => {
    expect([0, 1_023, 1_024, 1_536, 1_048_576, 5e12].map(bytesText)).to.deep.equal([
      "0 B",
      "1023 B",
      "1 KiB",
      "1.5 KiB",
      "1 MiB",
      "4.5 TiB",
    ]);
    expect(
      [-5, 999, 1_000, 119_999, 120_000, 7_200_000, 172_800_000].map(durationText),
    ).to.deep.equal(["0 ms", "999 ms", "1 s", "120 s", "2 min", "2 h", "2 d"]);
  });

  it("quotes words for a shell so that they come back as they were", () => {
    expect(shellWord("ws://h:1/ws")).to.equal("ws://h:1/ws");
    expect(shellWord("a b'c$d")).to.equal(`'a b'\\''c$d'`);
    expect(shellWord("")).to.equal("''");
  });
});
