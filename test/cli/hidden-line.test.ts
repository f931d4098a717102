/** Proves the reading of a line that nobody is to see, key by key. */
import { PassThrough } from "node:stream";
import { expect } from "chai";
import { readHidden } from "../../cli/hidden-line.ts";

class Keyboard extends PassThrough {
  readonly modes: boolean[] = [];

  setRawMode(isRaw: boolean): void {
    this.modes.push(isRaw);
  }
}

describe("a hidden line", () => {
  const typed = async (...keys: readonly (string | Uint8Array)[]): Promise<string | null> => {
    const keyboard = new Keyboard();
    const line = readHidden(keyboard, () => {}, new AbortController().signal);
    for (const key of keys) keyboard.write(key);
    const read = await line;
    expect(keyboard.modes).to.deep.equal([true, false]);
    expect(keyboard.listenerCount("data")).to.equal(0);
    return read;
  };

  it("ends with the Enter key, however it comes in", async () => {
    expect(await typed("secret\r")).to.equal("secret");
    expect(await typed("sec", "ret", "\n", "more\n")).to.equal("secret");
    expect(await typed("\r")).to.equal("");
  });

  it("is asked for when the terminal has stopped to show what is typed, and not before", async () => {
    const keyboard = new Keyboard();
    const asked: (readonly boolean[])[] = [];
    const ask = (): void => void asked.push([...keyboard.modes]);
    const line = readHidden(keyboard, ask, new AbortController().signal);
    expect(asked).to.deep.equal([[true]]);
    keyboard.write("secret\r");
    expect(await line).to.equal("secret");
  });

  it("can be mended: a character, also a wide one, or all of it", async () => {
    expect(await typed("sexx\u007f\u0008cret\r")).to.equal("secret");
    expect(await typed("a😀\u007fb\r")).to.equal("ab");
    expect(await typed("\u007fwrong\u0015right\r")).to.equal("right");
  });

  it("keeps a character whole that comes in two parts", async () => {
    const euro = Buffer.from("€");
    expect(await typed(euro.subarray(0, 1), euro.subarray(1), "\r")).to.equal("€");
  });

  it("can be given up, and leaves the terminal as it was", async () => {
    expect(await typed("half\u0003")).to.equal(null);
    expect(await typed("\u0004")).to.equal(null);
    expect(await typed("ab\u0004c\r")).to.equal("ab\u0004c");
    const keyboard = new Keyboard();
    const line = readHidden(keyboard, () => {}, new AbortController().signal);
    keyboard.end("half");
    expect(await line).to.equal(null);
    const aborted = new Keyboard();
    expect(await readHidden(aborted, () => {}, AbortSignal.abort())).to.equal(null);
    expect(aborted.modes).to.deep.equal([true, false]);
  });

  it("is kept up to 65,536 characters, and not beyond", async () => {
    expect(await typed("x".repeat(65_537), "\r")).to.have.length(65_536);
  });
});
