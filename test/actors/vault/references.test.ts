/** Proves references to secrets in texts: what is replaced, what stays, and how little a failure says. */
import { inspect } from "node:util";
import { expect } from "chai";
import { resolveReferences } from "../../../actors/vault/references.ts";
import { type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import { Secret } from "../../../protocol/secret.ts";
import { FakeVault } from "../../support/fake-vault.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a reference to a secret", () => {
  let vault: FakeVault;

  beforeEach(async () => {
    vault = new FakeVault();
    for (const [name, text] of [
      ["api-token", "canary-value-a03f"],
      ["a/b c", `\${LEMON_SECRET:api-token}`],
    ] as const) {
      using value = Secret.ofText(text);
      const set = { name, value, operationId: null, provider: "manual", expiresAtMs: null };
      await vault.ask("set", set, { deadlineMs: 1_000 });
    }
  });

  const resolved = async (text: string): Promise<string> => {
    using secret = await resolveReferences(vault, text);
    return secret.use((bytes) => Buffer.from(bytes).toString("utf8"));
  };

  it("is replaced wherever it stands; a value is never read again for references", async () => {
    expect(await resolved(`\${LEMON_SECRET:api-token}`)).to.equal("canary-value-a03f");
    expect(await resolved(`Bearer \${LEMON_SECRET: api-token }€`)).to.equal(
      "Bearer canary-value-a03f€",
    );
    expect(await resolved(`\${LEMON_SECRET:api-token}:\${LEMON_SECRET:a/b c}`)).to.equal(
      `canary-value-a03f:\${LEMON_SECRET:api-token}`,
    );
  });

  it("is alone in being replaced: no variable, no other form", async () => {
    for (const text of ["", "plain", `\${HOME}`, "$LEMON_SECRET:x", `\${lemon_secret:x}`, "{x}"]) {
      expect(await resolved(text)).to.equal(text);
    }
  });

  it("is asked of the vault alone, also when a variable has its name", async () => {
    expect((await refusalOf(() => resolved(`\${LEMON_SECRET:PATH}`))).code).to.equal(
      "secret_resolution_failed",
    );
  });

  it("fails in one way alone, which names neither the reference nor the reason", async () => {
    const texts = [
      `\${LEMON_SECRET:canary-missing}`,
      `x \${LEMON_SECRET:api-token} \${LEMON_SECRET:canary-missing}`,
      `\${LEMON_SECRET:}`,
      `\${LEMON_SECRET: }`,
      `\${LEMON_SECRET}`,
      `\${LEMON_SECRET:api-token`,
      `\${LEMON_SECRET:a\${HOME}}`,
      `\${LEMON_SECRET:${"n".repeat(257)}}`,
      `\${LEMON_SECRET:a\0b}`,
    ];
    const told = new Set<string>();
    for (const text of texts) {
      told.add(inspect({ ...(await refusalOf(() => resolved(text))), stack: undefined }));
    }
    const codes: readonly ErrorCode[] = ["secret_store_damaged", "timeout", "secret_key_mismatch"];
    for (const code of codes) {
      vault.failure = new LemonError(code);
      const refusal = await refusalOf(() => resolved(`\${LEMON_SECRET:api-token}`));
      expect(refusal.mutationMayHaveApplied).to.equal(false);
      told.add(inspect({ ...refusal, stack: undefined }));
    }
    expect([...told], "one failure for all").to.have.length(1);
    expect([...told].join()).to.include("secret_resolution_failed");
    expect([...told].join()).to.not.include("canary");
  });
});
