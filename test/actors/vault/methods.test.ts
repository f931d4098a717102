/** Proves the control plane's own secrets over a real socket: who may do what, and that no value comes back. */
import { expect } from "chai";
import { secretsMethods } from "../../../actors/vault/methods.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { FakeVault } from "../../support/fake-vault.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { operator, WsClient } from "../../support/ws-client.ts";

const NAME = "providers/api-key";
const VALUE = "canary-value-a03f";

describe("the control plane's own secrets", () => {
  let vault: FakeVault;
  let gateway: TestGateway;
  let client: WsClient;

  beforeEach(async () => {
    vault = new FakeVault();
    const environment = { [NAME]: "x", EMPTY: "", LEMON_SECRETS_MASTER_KEY: "x" };
    gateway = await testGateway({
      handlers: secretsMethods({
        vault,
        environment,
        rotate: async () => ({ count: 3, behind: [] }),
      }),
    });
    client = await WsClient.connect(gateway.url);
  });
  afterEach(() => gateway.close());

  it("are set, told of and deleted, and their values never come back", async () => {
    const set = await client.call("secrets.set", {
      name: ` ${NAME} `,
      value: VALUE,
      provider: "import",
      expiresAt: 1_900_000_000_000,
    });
    const secret = {
      owner: "default",
      name: NAME,
      provider: "import",
      expiresAt: 1_900_000_000_000,
      usageCount: 0,
      lastUsedAt: null,
      createdAt: 1_796_058_000_000,
      updatedAt: 1_796_058_000_000,
      version: "v1",
    };
    expect(set.payload).to.deep.equal({ ok: true, secret, summary: { expires: true } });
    expect(vault.text(NAME)).to.equal(VALUE);
    expect(vault.handed.map(({ isDestroyed }) => isDestroyed)).to.deep.equal([true]);
    const list = await client.call("secrets.list");
    expect(list.payload).to.deep.equal({
      owner: "default",
      secrets: [secret],
      summary: { count: 1 },
    });
    expect(JSON.stringify([set, list])).to.not.include(VALUE);
    expect((await client.call("secrets.delete", { name: NAME })).payload).to.deep.equal({
      ok: true,
      name: NAME,
      summary: { deleted: true },
    });
    expect(vault.kept.size).to.equal(0);
  });

  it("are of one owner; any other has none", async () => {
    await client.call("secrets.set", { name: NAME, value: VALUE });
    const other = await client.call("secrets.list", { owner: "somebody" });
    expect(other.payload).to.deep.equal({
      owner: "somebody",
      secrets: [],
      summary: { count: 0 },
    });
  });

  it("exist when the vault has them; a variable counts when the asker says so, but none of lemon's own", async () => {
    const exists = async (params: object) =>
      Object((await client.call("secrets.exists", params)).payload).exists;
    expect(await exists({ name: NAME })).to.equal(false);
    expect(await exists({ name: NAME, envFallback: true })).to.equal(true);
    expect(await exists({ name: NAME, preferEnv: true })).to.equal(true);
    expect(await exists({ name: "EMPTY", envFallback: true })).to.equal(false);
    expect(await exists({ name: "toString", envFallback: true })).to.equal(false);
    expect(await exists({ name: "LEMON_SECRETS_MASTER_KEY", envFallback: true })).to.equal(false);
    await client.call("secrets.set", { name: NAME, value: VALUE });
    expect(await exists({ name: NAME })).to.equal(true);
  });

  it("have a status that says where the master key comes from", async () => {
    expect((await client.call("secrets.status")).payload).to.deep.equal({
      owner: "default",
      source: "file",
      configured: true,
      keychainAvailable: false,
      keychainErrorKind: null,
      envFallback: false,
      fileFallback: true,
      healthy: true,
      count: 0,
      cleanup: { unerased: 0, unrotated: 0 },
      summary: { source: "file", healthy: true, count: 0, problem: null },
    });
  });

  it("are put under a new master key together with whatever else is under this one", async () => {
    const { payload } = await client.call("secrets.rotate");
    expect(payload).to.deep.equal({ ok: true, count: 3, behind: [], summary: { count: 3 } });
  });

  it("can be read of with read scope, and changed with admin alone", async () => {
    const reader = await WsClient.connect(gateway.url, operator({ scopes: ["read"] }));
    for (const method of ["secrets.status", "secrets.list"]) {
      expect((await reader.call(method)).ok, method).to.equal(true);
    }
    expect((await reader.call("secrets.exists", { name: NAME })).ok).to.equal(true);
    for (const [method, params] of [
      ["secrets.set", { name: NAME, value: VALUE }],
      ["secrets.delete", { name: NAME }],
      ["secrets.rotate", {}],
    ] as const) {
      expect((await reader.call(method, params)).error?.code, method).to.equal("FORBIDDEN");
    }
    expect(vault.handed).to.deep.equal([]);
  });

  it("refuse the names of private proofs", async () => {
    const name = " lemon_bot/invocations/r-1";
    for (const [method, params] of [
      ["secrets.set", { name, value: VALUE }],
      ["secrets.delete", { name }],
    ] as const) {
      const { error } = await client.call(method, params);
      expect([error?.code, error?.details?.["code"]]).to.deep.equal([
        "FORBIDDEN",
        "secret_name_reserved",
      ]);
    }
  });

  it("say of a vault that fell silent what may have happened, and how to find out", async () => {
    vault.failure = new LemonError("deadline_exceeded");
    for (const [method, params, read] of [
      ["secrets.set", { name: NAME, value: VALUE }, "secrets.list"],
      ["secrets.delete", { name: NAME }, "secrets.exists"],
    ] as const) {
      const { error } = await client.call(method, params);
      expect(error?.code).to.equal("TIMEOUT");
      expect(error?.details).to.include({
        code: "secret_outcome_unknown",
        mutationMayHaveApplied: true,
        retrySafe: false,
      });
      expect(error?.message).to.include(read);
      expect(JSON.stringify(error)).to.not.include(NAME).and.not.include(VALUE);
    }
    expect(vault.handed.every(({ isDestroyed }) => isDestroyed)).to.equal(true);
    vault.failure = new LemonError("secret_key_missing");
    const { error } = await client.call("secrets.set", { name: NAME, value: VALUE });
    expect(error?.details).to.include({
      code: "secret_key_missing",
      mutationMayHaveApplied: false,
    });
  });
});
