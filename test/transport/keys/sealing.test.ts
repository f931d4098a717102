/** Proves that what is sealed to one key is opened by that key alone, whole or not at all. */
import { createCurve } from "@nats-io/nkeys";
import { expect } from "chai";
import fc from "fast-check";
import { openSealed, sealFor } from "../../../transport/keys/sealing.ts";

describe("a sealed secret", () => {
  const key = createCurve();
  const recipient = key.getPublicKey();

  it("is opened by its own key: what is said about it, and its bytes", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), fc.uint8Array(), (about, value) => {
        const opened = openSealed(key, sealFor(recipient, about, value));
        expect(JSON.stringify(opened?.about)).to.equal(JSON.stringify(about));
        expect(opened?.value).to.deep.equal(value);
      }),
    );
  });

  it("takes a megabyte, and leaves the given bytes as they are", () => {
    const value = new Uint8Array(1_048_576).fill(7);
    const opened = openSealed(key, sealFor(recipient, { name: "n" }, value));
    expect(Buffer.from(opened?.value ?? []).equals(value)).to.equal(true);
    expect(value.every((byte) => byte === 7)).to.equal(true);
  });

  it("shows nothing of either, and never the same bytes or the same sender twice", () => {
    const value = Buffer.from("canary-value");
    const [one, other] = [0, 1].map(() => sealFor(recipient, { name: "canary-name" }, value));
    for (const { sealed } of [one, other].filter((made) => made !== undefined)) {
      expect(Buffer.from(sealed).includes("canary")).to.equal(false);
    }
    expect(one?.sender).to.not.equal(other?.sender);
    expect(one?.sealed).to.not.deep.equal(other?.sealed);
  });

  it("is not opened by another key, nor in the name of another sender", () => {
    const made = sealFor(recipient, {}, Buffer.from("value"));
    expect(openSealed(createCurve(), made)).to.equal(null);
    expect(openSealed(key, { ...made, sender: createCurve().getPublicKey() })).to.equal(null);
  });

  it("is not opened once a single bit of it is another", () => {
    const { sealed, sender } = sealFor(recipient, { name: "n" }, Buffer.from("value"));
    for (let bit = 0; bit < sealed.length * 8; bit += 1) {
      const changed = Uint8Array.from(sealed);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(openSealed(key, { sealed: changed, sender }), `bit ${bit}`).to.equal(null);
    }
    expect(openSealed(key, { sealed, sender })).to.not.equal(null);
  });

  it("is nothing at all when it was never sealed", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.string(), (sealed, sender) => {
        expect(openSealed(key, { sealed, sender })).to.equal(null);
      }),
    );
  });

  it("is not opened when the length of what is said about it points beyond its end", () => {
    const sender = createCurve();
    for (const plain of [
      Buffer.alloc(3),
      Buffer.from([0, 0, 0, 1]),
      Buffer.from([255, 255, 255, 255, 1]),
    ]) {
      const sealed = sender.seal(plain, recipient);
      expect(openSealed(key, { sealed, sender: sender.getPublicKey() })).to.equal(null);
    }
  });

  it("is refused to a key that is none", () => {
    expect(() => sealFor("XNONE", {}, Buffer.from("value"))).to.throw();
  });
});
