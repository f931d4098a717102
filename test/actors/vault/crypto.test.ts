import { randomBytes } from "node:crypto";
import { assert } from "chai";
import fc from "fast-check";
import {
  type Binding,
  fingerprintOf,
  keyIdOf,
  sameFingerprint,
  seal,
  unseal,
} from "../../../actors/vault/crypto.ts";
import { Secret } from "../../../protocol/secret.ts";

const range = (from: number, length: number): Buffer =>
  Buffer.from(Array.from({ length }, (_, at) => from + at));
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const textOf = (secret: Secret | null): string | null =>
  secret === null ? null : secret.use((bytes) => Buffer.from(bytes).toString());

/** 00 01 … 1f */
const MASTER = Secret.take(range(0, 32));
const BINDING: Binding = { owner: "default", name: "integration/token", revision: 1 };
/** The salt 40 41 … 5f, then the nonce a0 a1 … ab. */
const fixed = (size: number): Buffer => (size === 32 ? range(0x40, 32) : range(0xa0, 12));

/** Made with another implementation (HKDF of RFC 5869, GCM of SP 800-38D), from the construction as it is written. */
const KNOWN: readonly (readonly [Partial<Binding>, string, string])[] = [
  [
    {},
    "correct horse battery staple",
    "92a5b6abfff0afa4cd073fab5ae51697437ec9a2e3d47f24e899d41edd292e8329dbb9ca67a8ced76d22585f",
  ],
  [{ name: "Schlüssel", revision: 1_800_000_000_000 }, "", "618cef89cd50386a975f3ed3e51ded76"],
  [
    { revision: 2 },
    "ä".repeat(20),
    "326e077d5937182066cc8e7cfc61b752f4ae6f745950cff44a4d7bdfffd0f714003f79b2f60e901971d2fc010473b7b02c02dbbcf1a336f2",
  ],
];

describe("how a vault seals", () => {
  it("is the construction as it is written down, to the byte", () => {
    for (const [changes, text, ciphertext] of KNOWN) {
      const binding = { ...BINDING, ...changes };
      const sealed = seal(MASTER, binding, Secret.ofText(text), fixed);
      assert.equal(hex(sealed.ciphertext), ciphertext);
      assert.equal(textOf(unseal(MASTER, binding, sealed)), text);
    }
    assert.equal(keyIdOf(MASTER), "571e519c376202cf201d71db3f2cb37d");
    const intent = {
      owner: "default",
      scope: "node-1",
      operationId: "install:token-1",
      name: "integration/token",
      provider: "manual",
      expiresAtMs: null,
      value: Secret.ofText("VALUE"),
    };
    assert.equal(
      hex(fingerprintOf(MASTER, intent)),
      "0f05bdc1f52101fc3d599155eb244e6d6d7597c859b9eb43cf776799d2e5af56",
    );
  });

  it("gives back what was sealed, whatever it is", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 300 }),
        fc.string(),
        fc.nat(),
        (value, name, revision) => {
          const binding = { ...BINDING, name, revision };
          const sealed = seal(MASTER, binding, Secret.take(Buffer.from(value)), randomBytes);
          const opened = unseal(MASTER, binding, sealed);
          assert.equal(opened?.use(hex), hex(value));
        },
      ),
      { numRuns: 50 },
    );
  });

  it("takes a salt and a nonce of their own each time", () => {
    const sealed = Array.from({ length: 50 }, () =>
      seal(MASTER, BINDING, Secret.ofText("same"), randomBytes),
    );
    for (const part of ["salt", "nonce", "ciphertext"] as const) {
      assert.lengthOf(new Set(sealed.map((one) => hex(one[part]))), 50);
    }
    assert.deepEqual([sealed[0]?.salt.length, sealed[0]?.nonce.length], [32, 12]);
  });

  it("does not open under another owner, name, revision or key", () => {
    const sealed = seal(MASTER, BINDING, Secret.ofText("value"), randomBytes);
    const others: Partial<Binding>[] = [
      { owner: "other" },
      { name: "integration/other" },
      { revision: 2 },
      { revision: 0 },
      // The same bytes in another division.
      { owner: "defaulti", name: "ntegration/token" },
      { owner: "", name: "defaultintegration/token" },
    ];
    for (const other of others) assert.isNull(unseal(MASTER, { ...BINDING, ...other }, sealed));
    assert.isNull(unseal(Secret.take(range(1, 32)), BINDING, sealed));
    assert.equal(textOf(unseal(MASTER, BINDING, sealed)), "value");
  });

  it("does not open with a bit changed or a byte cut, anywhere", () => {
    const sealed = seal(MASTER, BINDING, Secret.ofText("value"), randomBytes);
    for (const part of ["salt", "nonce", "ciphertext"] as const) {
      for (let bit = 0; bit < sealed[part].length * 8; bit += 1) {
        const bytes = Buffer.from(sealed[part]);
        bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        assert.isNull(unseal(MASTER, BINDING, { ...sealed, [part]: bytes }));
      }
      for (let length = 0; length < sealed[part].length; length += 1) {
        const cut = sealed[part].subarray(0, length);
        assert.isNull(unseal(MASTER, BINDING, { ...sealed, [part]: cut }));
      }
    }
  });

  it("knows an intent again by all of it, and equal values of two operations not at all", () => {
    const intent = {
      owner: "default",
      scope: "node-1",
      operationId: "a",
      name: "n",
      provider: "p",
      expiresAtMs: null,
      value: Secret.ofText("v"),
    };
    const print = fingerprintOf(MASTER, intent);
    const same = (changes: Partial<typeof intent> | { expiresAtMs: number }): boolean =>
      sameFingerprint(print, fingerprintOf(MASTER, { ...intent, ...changes }));
    assert.isTrue(same({ value: Secret.ofText("v") }));
    for (const changes of [
      { owner: "o" },
      { scope: "node-2" },
      { operationId: "b" },
      { name: "m" },
      { provider: "q" },
      { expiresAtMs: 0 },
      { value: Secret.ofText("w") },
      { provider: "", name: "np" },
    ]) {
      assert.isFalse(same(changes));
    }
    assert.isFalse(sameFingerprint(print, fingerprintOf(Secret.take(range(1, 32)), intent)));
    assert.isFalse(sameFingerprint(print, print.subarray(1)));
  });
});
