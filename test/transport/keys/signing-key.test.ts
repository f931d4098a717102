import { createAccount, createOperator, createUser, fromPublic, fromSeed } from "@nats-io/nkeys";
import { expect } from "chai";
import fc from "fast-check";
import { newSigningKey, signingKey } from "../../../transport/keys/signing-key.ts";

describe("a signing key", () => {
  for (const create of [createOperator, createAccount, createUser]) {
    it(`signs exactly as the library does (${create.name})`, () => {
      const reference = create();
      const key = signingKey(reference.getSeed());
      expect(key.getPublicKey()).to.equal(reference.getPublicKey());
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 500 }), (bytes) => {
          const signature = key.sign(bytes);
          expect([...signature]).to.deep.equal([...reference.sign(bytes)]);
        }),
        { numRuns: 10 },
      );
    });
  }

  it("is verified by its public key, and gives back its seed", () => {
    const key = newSigningKey(createAccount);
    const bytes = Buffer.from("text");
    expect(fromPublic(key.getPublicKey()).verify(bytes, key.sign(bytes))).to.equal(true);
    expect(fromSeed(key.getSeed()).getPublicKey()).to.equal(key.getPublicKey());
  });

  it("signs nothing any more once it is cleared", () => {
    const key = newSigningKey(createUser);
    key.clear();
    expect(() => key.sign(Buffer.from("text"))).to.throw();
    expect(() => key.getSeed()).to.throw();
  });

  it("refuses what is no seed", () => {
    for (const text of ["", "S", "SUAA", createUser().getPublicKey()]) {
      expect(() => signingKey(Buffer.from(text))).to.throw();
    }
  });
});
