/** Proves what a worker makes of requests for its secrets: what is opened, checked again, handed over and forgotten. */
import { createCurve } from "@nats-io/nkeys";
import { expect } from "chai";
import { type NodeSecrets, nodeSecrets } from "../../../actors/vault/node-secrets.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { openSealed, type Sealed, sealFor } from "../../../transport/keys/sealing.ts";
import { FakeVault } from "../../support/fake-vault.ts";
import { refusalOf } from "../../support/refusal.ts";

const NAME = "integration/token";
const VALUE = "canary-value-a03f";

describe("the secrets of a worker", () => {
  const seal = createCurve();
  let vault: FakeVault;
  let secrets: NodeSecrets;
  /** What the worker's key opened last. */
  let opened: Uint8Array | undefined;

  beforeEach(() => {
    vault = new FakeVault();
    opened = undefined;
    secrets = nodeSecrets({
      vault,
      open(sealed) {
        const found = openSealed(seal, sealed);
        opened = found?.value;
        return found;
      },
      rotate: async () => ({ count: 2, behind: [] }),
    });
  });

  const sealed = (about: object, value: string | Uint8Array = VALUE): Sealed =>
    sealFor(seal.getPublicKey(), about, Buffer.from(value));
  const set = (about: object, value?: string | Uint8Array) => secrets.set(sealed(about, value));
  /** Neither what was opened nor what was handed on can be read any more. */
  const expectForgotten = (): void => {
    expect(opened?.every((byte) => byte === 0)).to.equal(true);
    expect(vault.handed.map(({ isDestroyed }) => isDestroyed)).to.deep.equal(
      vault.handed.map(() => true),
    );
  };

  it("are set as they were sealed, and answered with the proof that was asked for", async () => {
    expect(await set({ name: ` ${NAME}\n`, operationId: "install:1" })).to.deep.equal({
      name: NAME,
      set: true,
      operationId: "install:1",
      status: "applied",
      currentBindingMatches: true,
    });
    expect(vault.text(NAME)).to.equal(VALUE);
    expect(vault.kept.get(NAME)?.metadata).to.include({ provider: "manual", expiresAtMs: null });
    expectForgotten();
  });

  it("are answered in the plain shape when no operation was named", async () => {
    const answer = await set({ name: NAME, operationId: null });
    expect(answer).to.deep.equal({ name: NAME, set: true });
  });

  it("are forgotten also when the vault refuses them, or says nothing", async () => {
    for (const code of ["secret_receipt_capacity", "deadline_exceeded"] as const) {
      vault.failure = new LemonError(code);
      const refusal = await refusalOf(() => set({ name: NAME, operationId: null }));
      expect(refusal.code).to.equal(code);
      expect(vault.handed).to.not.deep.equal([]);
      expectForgotten();
    }
  });

  it("leave the vault time to answer before the broker gives up", async () => {
    await set({ name: NAME, operationId: null });
    await secrets.list({});
    await secrets.delete({ name: NAME });
    await secrets.receipt({ operationId: "o" });
    expect(vault.deadlines).to.deep.equal([25_000, 25_000, 25_000, 25_000]);
  });

  it("are not taken when they were sealed to another life", async () => {
    const other = sealFor(createCurve().getPublicKey(), { name: NAME }, Buffer.from(VALUE));
    expect(await refusalOf(() => secrets.set(other))).to.include({
      code: "node_superseded",
      mutationMayHaveApplied: false,
    });
    expect(vault.handed).to.deep.equal([]);
  });

  it("are checked again, whoever checked them before", async () => {
    const wrong: readonly (readonly [object, string])[] = [
      [{ name: "", operationId: null }, "invalid_params"],
      [{ name: " \t", operationId: null }, "invalid_params"],
      [{ name: "€".repeat(86), operationId: null }, "invalid_params"],
      [{ name: "a\0b", operationId: null }, "invalid_params"],
      [{ name: NAME }, "invalid_params"],
      [{ name: NAME, operationId: "a b" }, "invalid_params"],
      [{ name: NAME, operationId: null, more: 1 }, "invalid_params"],
      [[], "invalid_params"],
      [{ name: " lemon_bot/invocations/r-1", operationId: "r-1" }, "secret_name_reserved"],
    ];
    for (const [about, code] of wrong) {
      expect((await refusalOf(() => set(about))).code, JSON.stringify(about)).to.equal(code);
      expectForgotten();
    }
    const about = { name: NAME, operationId: null };
    expect((await refusalOf(() => set(about, Buffer.alloc(1_048_577)))).code).to.equal("too_large");
    for (const request of [null, {}, { sealed: "x", sender: "y" }, { ...sealed(about), more: 1 }]) {
      expect((await refusalOf(() => secrets.set(request))).code).to.equal("invalid_params");
    }
    const reserved = { name: "lemon_bot/invocations/r-1 " };
    expect((await refusalOf(() => secrets.delete(reserved))).code).to.equal("secret_name_reserved");
    for (const request of [null, { name: "" }, { name: NAME, nodeId: "n" }]) {
      expect((await refusalOf(() => secrets.delete(request))).code).to.equal("invalid_params");
    }
    expect((await refusalOf(() => secrets.receipt({ operationId: "" }))).code).to.equal(
      "invalid_params",
    );
    expect((await refusalOf(() => secrets.list({ owner: "x" }))).code).to.equal("invalid_params");
    expect(vault.handed).to.deep.equal([]);
  });

  it("take a megabyte, and nothing at all", async () => {
    await set({ name: NAME, operationId: null }, Buffer.alloc(1_048_576, 7));
    expect(vault.kept.get(NAME)?.bytes).to.have.length(1_048_576);
    await set({ name: NAME, operationId: null }, "");
    expect(vault.text(NAME)).to.equal("");
  });

  it("are put under a new key with whatever else is under this machine's", async () => {
    expect(await secrets.rotate({})).to.deep.equal({ count: 2, behind: [] });
    expect((await refusalOf(() => secrets.rotate({ newKey: "x" }))).code).to.equal(
      "invalid_params",
    );
  });

  it("are listed, deleted and proven by the vault's own word", async () => {
    await set({ name: NAME, operationId: "install:1" });
    expect(await secrets.list({})).to.deep.equal({ names: [NAME], limit: 500, truncated: false });
    expect(await secrets.receipt({ operationId: "install:1" })).to.deep.equal({
      operationId: "install:1",
      status: "applied",
      name: NAME,
      currentBindingMatches: true,
    });
    expect(await secrets.delete({ name: NAME })).to.deep.equal({ name: NAME, deleted: true });
    expect((await secrets.receipt({ operationId: "install:1" })).status).to.equal("not_found");
  });
});
