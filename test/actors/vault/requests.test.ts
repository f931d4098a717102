import { assert } from "chai";
import { type SetSecret, VAULT_BOUNDS } from "../../../actors/vault/messages.ts";
import { readName, readOperationId, readSet } from "../../../actors/vault/requests.ts";
import { Secret } from "../../../protocol/secret.ts";
import { codeOfThrow } from "../../support/supervision.ts";

const NOW_MS = 1_800_000_000_000;

function request(changes: Partial<SetSecret> = {}): SetSecret {
  const value = Secret.ofText("v");
  return { name: "n", value, operationId: null, provider: "manual", expiresAtMs: null, ...changes };
}

function codeOfSet(changes: Partial<SetSecret>): string {
  return codeOfThrow(() => readSet(request(changes), NOW_MS));
}

describe("what a vault accepts", () => {
  it("is a name of 1 to 256 bytes after trimming, counted in UTF-8", () => {
    assert.equal(readName("  integration/token\n"), "integration/token");
    assert.equal(readName("a".repeat(256)), "a".repeat(256));
    assert.equal(readName(` ${"ä".repeat(128)} `), "ä".repeat(128));
    for (const name of ["", " \t", "a".repeat(257), `${"ä".repeat(128)}a`, "a\0b", "\ud800"]) {
      assert.equal(
        codeOfThrow(() => readName(name)),
        "invalid_params",
      );
    }
  });

  it("says which field is wrong and nothing of what stood there", () => {
    assert.throws(
      () => readName("hidden\0name"),
      /^Invalid params: name: must be text without NUL$/,
    );
  });

  it("is an operation id of 1 to 128 letters, digits, _, : and -", () => {
    assert.equal(readOperationId("install:token-1_A"), "install:token-1_A");
    assert.equal(readOperationId("a".repeat(128)), "a".repeat(128));
    for (const id of ["", "a".repeat(129), "a b", "a/b", "ä", "a\n"]) {
      assert.equal(
        codeOfThrow(() => readOperationId(id)),
        "invalid_params",
      );
      assert.equal(codeOfSet({ operationId: id }), "invalid_params");
    }
  });

  it("is a value of at most 1 MiB, also an empty one", () => {
    const sized = (bytes: number) => Secret.take(new Uint8Array(bytes));
    assert.equal(codeOfSet({ value: sized(0) }), "returned");
    assert.equal(codeOfSet({ value: sized(VAULT_BOUNDS.valueBytes) }), "returned");
    assert.equal(codeOfSet({ value: sized(VAULT_BOUNDS.valueBytes + 1) }), "too_large");
    const gone = sized(1);
    gone.destroy();
    assert.equal(codeOfSet({ value: gone }), "secret_destroyed");
  });

  it("is a provider of at most 256 bytes and an expiry in the future", () => {
    assert.equal(codeOfSet({ provider: "p".repeat(256) }), "returned");
    assert.equal(codeOfSet({ provider: "p".repeat(257) }), "invalid_params");
    assert.equal(codeOfSet({ expiresAtMs: NOW_MS + 1 }), "returned");
    for (const expiresAtMs of [NOW_MS, 0, NOW_MS + 0.5, Number.POSITIVE_INFINITY, Number.NaN]) {
      assert.equal(codeOfSet({ expiresAtMs }), "invalid_params");
    }
  });
});
