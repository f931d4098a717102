import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { assert } from "chai";
import { recordKey } from "../../../transport/records/record-store.ts";
import { type RecordBench, recordBench } from "../../support/record-bench.ts";
import { refusalOf } from "../../support/refusal.ts";

const A = recordKey("a");
const B = recordKey("b");
const STREAM = "KV_test-a";
const subject = (key: string): string => `$KV.test-a.${key}`;

describe("the damage of a store of records", () => {
  let bench: RecordBench;
  beforeEach(async () => {
    bench = await recordBench();
    const store = await bench.open();
    await store.put(A, Buffer.from("first a"));
    await store.put(B, Buffer.from("b"));
    await store.put(A, Buffer.from("a"));
    await store.close();
  });
  afterEach(() => bench[Symbol.asyncDispose]());

  const code = async (attempt: () => Promise<unknown>) => (await refusalOf(attempt)).code;
  const file = (name: string): string => join(bench.directory, "test", name);
  async function sequenceOf(key: string): Promise<number> {
    const manager = await jetstreamManager(bench.connection);
    return (await manager.streams.getMessage(STREAM, { last_by_subj: subject(key) }))?.seq ?? 0;
  }
  async function erase(key: string): Promise<void> {
    const manager = await jetstreamManager(bench.connection);
    await manager.streams.deleteMessage(STREAM, await sequenceOf(key));
  }
  async function publish(key: string, text: string): Promise<void> {
    await jetstream(bench.connection).publish(subject(key), text);
  }

  it("is a record that the stream lost: the others are read, and nothing is written", async () => {
    await erase(A);
    const store = await bench.open();
    assert.equal(store.damage, "revisions_lost");
    assert.deepEqual([...bench.told.keys()], [B]);
    assert.equal(Buffer.from(await store.get(B)).toString(), "b");
    for (const attempt of [
      () => store.get(A),
      () => store.put(B, Buffer.from("c")),
      () => store.remove(B),
    ]) {
      assert.equal(await code(attempt), "secret_store_damaged");
    }
  });

  it("is a record that was changed while nobody looked, found by whoever reads it", async () => {
    const store = await bench.open();
    await erase(B);
    await publish(B, "changed");
    assert.equal(await code(() => store.get(B)), "secret_store_damaged");
    assert.equal(store.damage, "revisions_lost");
  });

  it("is more than one record that was never witnessed: there is one put at a time", async () => {
    await publish(A, "foreign");
    await publish(B, "foreign");
    assert.equal((await bench.open()).damage, "witness_behind");
  });

  it("is a record under a key that no name has", async () => {
    await publish("no-key-of-ours", "foreign");
    assert.equal((await bench.open()).damage, "foreign_record");
  });

  it("is a stream that is missing, or set to forget by itself", async () => {
    const manager = await jetstreamManager(bench.connection);
    await manager.streams.update(STREAM, { max_msgs_per_subject: 1 });
    assert.equal(await code(() => bench.open()), "secret_store_damaged");
    await manager.streams.delete(STREAM);
    assert.equal(await code(() => bench.open()), "secret_store_damaged");
  });

  it("is a witness or a note that is missing, flipped or another store's", async () => {
    for (const name of ["witness-test-a", "identity.json"]) {
      const kept = readFileSync(file(name));
      rmSync(file(name));
      assert.equal(await code(() => bench.open()), "secret_store_damaged", `${name} missing`);
      const flipped = Buffer.from(kept);
      flipped[70] = (flipped[70] ?? 0) ^ 1;
      writeFileSync(file(name), flipped, { mode: 0o600 });
      assert.equal(await code(() => bench.open()), "secret_store_damaged", `${name} flipped`);
      writeFileSync(file(name), kept, { mode: 0o600 });
    }
    assert.isNull((await bench.open()).damage);
  });

  it("is an older copy of the stream, put back beside our newer account of it", async () => {
    const store = join(bench.server.directory, "store");
    const copy = join(bench.directory, "copy");
    await bench.server.stop();
    cpSync(store, copy, { recursive: true });
    await bench.server.restart();
    await bench.back();
    const newer = await bench.open();
    await newer.put(B, Buffer.from("newer b"));
    await newer.close();
    await bench.server.stop();
    rmSync(store, { recursive: true });
    cpSync(copy, store, { recursive: true });
    await bench.server.restart();
    await bench.back();
    assert.equal((await bench.open()).damage, "revisions_lost");
  });

  it("is found again with every life of the server, while the store is open", async () => {
    const store = await bench.open();
    assert.isTrue(store.isVerified);
    await bench.crashServer();
    assert.isFalse(store.isVerified);
    await erase(B);
    await store.verify();
    assert.equal(store.damage, "revisions_lost");
  });
});
