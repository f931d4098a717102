import { randomBytes } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { assert } from "chai";
import { secretKey } from "../../../actors/vault/names.ts";
import { systemClock } from "../../../host/clock.ts";
import { MASTER_KEY_FILE } from "../../../host/master-key/key-file.ts";
import { Secret } from "../../../protocol/secret.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type RecordBench, recordBench } from "../../support/record-bench.ts";
import { refusalOf } from "../../support/refusal.ts";
import { newKey, type OpenVault, openVault } from "../../support/vault-bench.ts";

/** Asks again until it is so; mocha's deadline is the only one. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo()));
}

describe("a vault whose master key is replaced", () => {
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

  async function storedUnder(bucket: string, name: string): Promise<Uint8Array> {
    const manager = await jetstreamManager(bench.connection);
    const subject = `$KV.${bucket}-a.${secretKey("default", name)}`;
    const message = await manager.streams.getMessage(`KV_${bucket}-a`, { last_by_subj: subject });
    return message?.data ?? new Uint8Array();
  }
  const tailOf = (record: Uint8Array): Uint8Array => record.subarray(-32);

  it("puts every secret under the new one, answers with how many, and forgets what was under the old one", async () => {
    await vault.set("a", "one", { operationId: "op" });
    await vault.set("b", "two");
    await vault.set("c", "three");
    await vault.ask("delete", { name: "c" });
    const before = tailOf(await storedUnder("vault", "a"));
    using key = newKey();
    assert.deepEqual(await vault.ask("rotate", { newKey: key }), { count: 2 });
    assert.deepEqual([await vault.resolve("a"), await vault.resolve("b")], ["one", "two"]);
    assert.equal(bench.filesWith(before), 0);
    assert.equal(bench.filesWith(tailOf(await storedUnder("vault", "a"))), 1);
    assert.deepEqual(await vault.ask("rotate", { newKey: key }), { count: 0 });
  });

  it("keeps the receipts of before, whose values are not the current ones any more", async () => {
    await vault.set("a", "one", { operationId: "op" });
    const before = await vault.ask("entries", null);
    await vault.ask("rotate", { newKey: newKey() });
    assert.deepEqual(await vault.ask("receipt", { operationId: "op" }), {
      operationId: "op",
      status: "applied",
      name: "a",
      currentBindingMatches: false,
    });
    const { code } = await refusalOf(() => vault.set("a", "one", { operationId: "op" }));
    assert.equal(code, "secret_operation_conflict");
    assert.deepEqual(await vault.ask("entries", null), before);
    await vault.set("a", "one", { operationId: "op:2" });
    assert.isTrue((await vault.ask("receipt", { operationId: "op:2" })).currentBindingMatches);
  });

  it("follows by itself when it is opened after another vault of the machine was asked", async () => {
    await vault.set("a", "one");
    const other = await openVault(bench, { clock, store: { bucket: "other" } });
    await other.set("a", "another");
    await other[Symbol.asyncDispose]();
    const before = tailOf(await storedUnder("other", "a"));
    await vault.ask("rotate", { newKey: newKey() });
    const opened = await openVault(bench, { clock, store: { bucket: "other" } });
    assert.equal((await opened.ask("status", null)).cleanup.unrotated, 1);
    assert.equal(await opened.resolve("a"), "another");
    await clock.advance(0);
    // Through the mailbox, so after what it does by itself.
    assert.equal((await opened.ask("status", null)).cleanup.unrotated, 0);
    assert.equal(await opened.resolve("a"), "another");
    assert.equal(bench.filesWith(before), 0);
    await opened[Symbol.asyncDispose]();
  });

  it("is followed at once by a vault that runs, in whatever process, and by one whose key an operator exchanges", async () => {
    const other = await openVault(bench, { clock: systemClock, store: { bucket: "other" } });
    await using _ending = other;
    const unrotated = async () => (await other.ask("status", null)).cleanup.unrotated;
    const matches = async (operationId: string) =>
      (await other.ask("receipt", { operationId })).currentBindingMatches;
    await other.set("a", "one", { operationId: "op:1" });
    const before = tailOf(await storedUnder("other", "a"));
    await vault.ask("rotate", { newKey: newKey() });
    await until(async () => !(await matches("op:1")) && (await unrotated()) === 0);
    assert.equal(await other.resolve("a"), "one");
    assert.equal(bench.filesWith(before), 0);
    await other.set("a", "two", { operationId: "op:2" });
    assert.isTrue(await matches("op:2"));
    const file = join(bench.directory, "home", MASTER_KEY_FILE);
    renameSync(file, `${file}.previous`);
    writeFileSync(file, randomBytes(32).toString("base64"), { mode: 0o600 });
    await until(async () => !(await matches("op:2")) && (await unrotated()) === 0);
    assert.equal(await other.resolve("a"), "two");
  });

  it("has receipts that say so from the first moment, before the values follow", async () => {
    await vault.set("a", "one", { operationId: "op" });
    await vault[Symbol.asyncDispose]();
    const file = join(bench.directory, "home", MASTER_KEY_FILE);
    renameSync(file, `${file}.previous`);
    writeFileSync(file, randomBytes(32).toString("base64"), { mode: 0o600 });
    // Its clock does not run: it does nothing by itself.
    vault = await openVault(bench, { clock });
    const receipt = await vault.ask("receipt", { operationId: "op" });
    assert.deepEqual([receipt.status, receipt.currentBindingMatches], ["applied", false]);
    const repeated = await refusalOf(() => vault.set("a", "one", { operationId: "op" }));
    assert.equal(repeated.code, "secret_operation_conflict");
    assert.equal(await vault.resolve("a"), "one");
  });

  it("opens whatever another vault put under a key that was replaced many times since, running on or opened anew", async () => {
    const other = await openVault(bench, { clock, store: { bucket: "other" } });
    await other.set("a", "before");
    for (let round = 0; round < 12; round += 1) await vault.ask("rotate", { newKey: newKey() });
    await other.set("b", "after");
    assert.deepEqual([await other.resolve("a"), await other.resolve("b")], ["before", "after"]);
    await other[Symbol.asyncDispose]();
    const opened = await openVault(bench, { clock, store: { bucket: "other" } });
    assert.deepEqual([await opened.resolve("a"), await opened.resolve("b")], ["before", "after"]);
    await clock.advance(0);
    assert.equal((await opened.ask("status", null)).cleanup.unrotated, 0);
    await opened[Symbol.asyncDispose]();
  });

  it("is refused a weak key, and keeps the one it has", async () => {
    await vault.set("a", "one");
    const weak = Secret.take(new Uint8Array(31));
    assert.equal(
      (await refusalOf(() => vault.ask("rotate", { newKey: weak }))).code,
      "weak_master_key",
    );
    await vault[Symbol.asyncDispose]();
    vault = await openVault(bench, { clock });
    assert.equal(await vault.resolve("a"), "one");
  });
});
