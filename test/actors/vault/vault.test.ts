import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { assert } from "chai";
import { VAULT_BOUNDS } from "../../../actors/vault/messages.ts";
import { secretKey } from "../../../actors/vault/names.ts";
import { Secret } from "../../../protocol/secret.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type RecordBench, recordBench } from "../../support/record-bench.ts";
import { refusalOf } from "../../support/refusal.ts";
import { newKey, type OpenVault, openVault } from "../../support/vault-bench.ts";

const NOTHING = { status: "not_found", name: null, currentBindingMatches: false } as const;

describe("a vault", () => {
  let bench: RecordBench;
  let clock: FakeClock;
  let vault: OpenVault;
  beforeEach(async () => {
    bench = await recordBench();
    clock = new FakeClock();
    vault = await openVault(bench, { clock });
  });
  afterEach(async () => {
    await vault[Symbol.asyncDispose]();
    await bench[Symbol.asyncDispose]();
  });
  const code = async (attempt: () => Promise<unknown>) => (await refusalOf(attempt)).code;
  async function reopen(scope?: string): Promise<void> {
    await vault[Symbol.asyncDispose]();
    vault = await openVault(bench, scope === undefined ? { clock } : { clock, scope });
  }

  it("keeps a value under its trimmed name, over its own end, until it is replaced or deleted", async () => {
    const set = await vault.set("  integration/token ", "one");
    assert.equal(set.name, "integration/token");
    assert.notProperty(set, "operationId");
    assert.notProperty(set, "currentBindingMatches");
    assert.equal(await vault.resolve("integration/token"), "one");
    await reopen();
    assert.equal(await vault.resolve(" integration/token"), "one");
    const next = await vault.set("integration/token", "two");
    assert.isAbove(next.revision, set.revision);
    assert.equal(await vault.resolve("integration/token"), "two");
    assert.isTrue(await vault.ask("exists", { name: "integration/token " }));
    assert.deepEqual(await vault.ask("delete", { name: " integration/token" }), {
      name: "integration/token",
      deleted: true,
    });
    assert.equal(await code(() => vault.resolve("integration/token")), "secret_not_found");
    assert.isFalse(await vault.ask("exists", { name: "integration/token" }));
    await reopen();
    assert.deepEqual(await vault.names(), []);
    assert.deepEqual(await vault.ask("delete", { name: "integration/token" }), {
      name: "integration/token",
      deleted: true,
    });
  });

  it("lists names in order, at most 500, and says when there are more", async () => {
    const name = (number: number) => `n${String(number).padStart(4, "0")}`;
    for (let number = 500; number > 0; number -= 1) await vault.set(name(number), "v");
    const full = await vault.ask("list", null);
    assert.deepEqual([full.names.length, full.limit, full.truncated], [500, 500, false]);
    assert.deepEqual([...full.names].sort(), [...full.names]);
    await vault.set(name(0), "v");
    const more = await vault.ask("list", null);
    assert.deepEqual([more.names.length, more.truncated], [500, true]);
    assert.deepEqual([more.names[0], more.names.at(-1)], [name(0), name(499)]);
    assert.lengthOf(await vault.ask("entries", null), 501);
  });

  it("tells of each secret what is known beside its value", async () => {
    await vault.set("a", "one", { provider: "openai" });
    const createdAtMs = clock.nowMs();
    await clock.advance(1_000);
    const expiresAtMs = clock.nowMs() + 60_000;
    await vault.set("a", "two", { provider: "other", expiresAtMs });
    const updatedAtMs = clock.nowMs();
    await vault.resolve("a");
    await vault.resolve("a");
    const told = {
      name: "a",
      provider: "other",
      expiresAtMs,
      usageCount: 2,
      lastUsedAtMs: clock.nowMs(),
      createdAtMs,
      updatedAtMs,
      version: "v1",
    };
    assert.deepEqual(await vault.ask("entries", null), [told]);
    await reopen();
    assert.deepEqual(await vault.ask("entries", null), [told]);
    await vault.ask("delete", { name: "a" });
    await vault.set("a", "three");
    assert.equal((await vault.ask("entries", null))[0]?.usageCount, 0);
  });

  it("knows nothing of a value from the moment it expires, and erases it by itself", async () => {
    const canary = "expiring-canary-value";
    const expiresAtMs = clock.nowMs() + 5_000;
    await vault.set("a", canary, { expiresAtMs, operationId: "op" });
    await vault.set("b", "stays");
    const manager = await jetstreamManager(bench.connection);
    const subject = `$KV.vault-a.${secretKey("default", "a")}`;
    const message = await manager.streams.getMessage("KV_vault-a", { last_by_subj: subject });
    const sealed = message?.data.subarray(-32) ?? new Uint8Array();
    assert.equal(bench.filesWith(sealed), 1);
    clock.stall(4_999);
    assert.equal(await vault.resolve("a"), canary);
    clock.stall(1);
    assert.deepEqual(await vault.names(), ["b"]);
    assert.isFalse(await vault.ask("exists", { name: "a" }));
    assert.equal(await code(() => vault.resolve("a")), "secret_not_found");
    const { currentBindingMatches, status } = await vault.ask("receipt", { operationId: "op" });
    assert.deepEqual([status, currentBindingMatches], ["applied", false]);
    await clock.advance(0);
    const { count, cleanup } = await vault.ask("status", null);
    assert.deepEqual([count, cleanup.unerased], [1, 0]);
    assert.equal(bench.filesWith(sealed), 0);
    assert.equal(
      await code(() => vault.set("a", canary, { expiresAtMs: clock.nowMs() })),
      "invalid_params",
    );
  });

  it("answers a set with an operation id with a receipt, and its repeat without a write", async () => {
    const set = await vault.set("a", "one", { operationId: "install:1" });
    assert.deepEqual([set.operationId, set.currentBindingMatches], ["install:1", true]);
    assert.deepEqual(await vault.ask("receipt", { operationId: "install:1" }), {
      operationId: "install:1",
      status: "applied",
      name: "a",
      currentBindingMatches: true,
    });
    assert.deepEqual(await vault.ask("receipt", { operationId: "install:2" }), {
      operationId: "install:2",
      ...NOTHING,
    });
    await clock.advance(10);
    assert.deepEqual(await vault.set(" a", "one", { operationId: "install:1" }), set);
    await reopen();
    assert.deepEqual(await vault.set("a", "one", { operationId: "install:1" }), set);
  });

  it("refuses an operation id for another value, name or time, and once its value is not the current one", async () => {
    const id = { operationId: "op" };
    await vault.set("a", "one", id);
    const conflicts = async (name: string, text: string, more = {}) =>
      assert.equal(
        await code(() => vault.set(name, text, { ...id, ...more })),
        "secret_operation_conflict",
      );
    await conflicts("a", "two");
    await conflicts("b", "one");
    await conflicts("a", "one", { expiresAtMs: clock.nowMs() + 1_000 });
    await conflicts("a", "one", { provider: "other" });
    assert.deepEqual(await vault.names(), ["a"]);
    assert.equal(await vault.resolve("a"), "one");
    await vault.set("a", "one");
    await conflicts("a", "one");
    assert.isFalse((await vault.ask("receipt", id)).currentBindingMatches);
    await vault.ask("delete", { name: "a" });
    await conflicts("a", "one");
    assert.deepEqual(await vault.ask("receipt", id), {
      operationId: "op",
      status: "applied",
      name: "a",
      currentBindingMatches: false,
    });
  });

  it("has the ids of another node for itself", async () => {
    await vault.set("a", "one", { operationId: "op" });
    await reopen("node-2");
    assert.deepEqual(await vault.ask("receipt", { operationId: "op" }), {
      operationId: "op",
      ...NOTHING,
    });
    await vault.set("a", "two", { operationId: "op" });
    await reopen();
    const receipt = await vault.ask("receipt", { operationId: "op" });
    assert.deepEqual([receipt.status, receipt.currentBindingMatches], ["applied", false]);
  });

  it("keeps 128 receipts of a name, also when it was deleted, and refuses the next before it touches the secret", async () => {
    for (let number = 0; number < VAULT_BOUNDS.receiptsOfName; number += 1) {
      await vault.set("a", `value ${number}`, { operationId: `op:${number}` });
    }
    const refused = async () =>
      assert.equal(
        await code(() => vault.set("a", "next", { operationId: "op:next" })),
        "secret_receipt_capacity",
      );
    await refused();
    assert.equal(await vault.resolve("a"), "value 127");
    assert.isTrue(
      (await vault.set("a", "value 127", { operationId: "op:127" })).currentBindingMatches,
    );
    await vault.set("a", "without a receipt");
    await vault.ask("delete", { name: "a" });
    await refused();
    assert.deepEqual(await vault.names(), []);
    assert.equal((await vault.ask("receipt", { operationId: "op:0" })).status, "applied");
    await vault.set("b", "another name", { operationId: "op:next" });
  });

  it("says what it needs a master key for when there is none, and serves as soon as there is one", async () => {
    await vault[Symbol.asyncDispose]();
    let key: Secret | null = null;
    const keys = {
      read: async () => {
        if (key === null) return null;
        return {
          source: "env" as const,
          key: Secret.take(key.use((bytes) => Buffer.from(bytes))),
          previous: [],
        };
      },
      status: async () => ({
        source: null,
        keychainAvailable: false,
        keychainErrorKind: null,
        envFallback: false,
        fileFallback: false,
      }),
      create: () => Promise.reject(new Error("not asked for")),
      replace: () => Promise.reject(new Error("not asked for")),
      watch: () => () => {},
    };
    vault = await openVault(bench, { clock, keys });
    assert.equal(await code(() => vault.set("a", "one")), "secret_key_missing");
    assert.deepEqual(await vault.names(), []);
    const before = await vault.ask("status", null);
    assert.deepEqual(
      [before.healthy, before.problem, before.count],
      [false, "secret_key_missing", 0],
    );
    key = newKey();
    await vault.set("a", "one");
    assert.equal(await vault.resolve("a"), "one");
    await vault[Symbol.asyncDispose]();
    key = newKey();
    vault = await openVault(bench, { clock, keys });
    assert.equal(await code(() => vault.resolve("a")), "secret_key_mismatch");
    assert.equal(await code(() => vault.set("b", "one")), "secret_key_mismatch");
    assert.deepEqual(await vault.names(), ["a"]);
    assert.equal((await vault.ask("status", null)).problem, "secret_key_mismatch");
  });

  it("says that it is damaged when a record is missing, and resolves what is intact", async () => {
    await vault.set("a", "one", { operationId: "op" });
    await vault.set("b", "two");
    await vault[Symbol.asyncDispose]();
    const manager = await jetstreamManager(bench.connection);
    const subject = `$KV.vault-a.${secretKey("default", "a")}`;
    const message = await manager.streams.getMessage("KV_vault-a", { last_by_subj: subject });
    await manager.streams.deleteMessage("KV_vault-a", message?.seq ?? 0);
    vault = await openVault(bench, { clock });
    const refused: (() => Promise<unknown>)[] = [
      () => vault.names(),
      () => vault.ask("entries", null),
      () => vault.ask("receipt", { operationId: "op" }),
      () => vault.ask("exists", { name: "a" }),
      () => vault.resolve("a"),
      () => vault.set("c", "three"),
      () => vault.ask("delete", { name: "a" }),
    ];
    for (const attempt of refused) assert.equal(await code(attempt), "secret_store_damaged");
    assert.equal(await vault.resolve("b"), "two");
    const { healthy, problem, count } = await vault.ask("status", null);
    assert.deepEqual([healthy, problem, count], [false, "secret_store_damaged", null]);
  });

  it("takes no record for another name's: neither a copy of it nor one that was put in its place", async () => {
    await vault.set("a", "one");
    await vault.set("b", "two");
    const manager = await jetstreamManager(bench.connection);
    const at = (name: string) => `$KV.vault-a.${secretKey("default", name)}`;
    const record = await manager.streams.getMessage("KV_vault-a", { last_by_subj: at("a") });
    await vault[Symbol.asyncDispose]();
    await jetstream(bench.connection).publish(at("b"), record?.data ?? "");
    vault = await openVault(bench, { clock });
    assert.equal(await code(() => vault.names()), "secret_store_damaged");
    assert.equal(await code(() => vault.resolve("b")), "secret_store_damaged");
  });

  it("does not encrypt a value that was destroyed meanwhile", async () => {
    const value = Secret.ofText("gone");
    value.destroy();
    const request = { name: "a", value, operationId: null, provider: "p", expiresAtMs: null };
    assert.equal(await code(() => vault.ask("set", request)), "secret_destroyed");
  });
});
