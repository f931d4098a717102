import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { assert } from "chai";
import {
  encodeGroup,
  parseWitness,
  SLOT_BYTES,
} from "../../../transport/receipts/witness-format.ts";
import { recordKey } from "../../../transport/records/record-store.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type RecordBench, recordBench } from "../../support/record-bench.ts";
import { refusalOf } from "../../support/refusal.ts";

const A = recordKey("a");
const B = recordKey("b");

describe("a store of records that was interrupted", () => {
  let bench: RecordBench;
  beforeEach(async () => {
    bench = await recordBench();
  });
  afterEach(() => bench[Symbol.asyncDispose]());
  const subject = (key: string): string => `$KV.test-a.${key}`;
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");

  it("has the record that was stored and not witnessed, and nothing of the one before", async () => {
    const [one, two] = [randomBytes(40), randomBytes(40)];
    const store = await bench.open();
    await store.put(A, one);
    await store.close();
    await jetstream(bench.connection).publish(subject(A), two);
    const again = await bench.open();
    assert.isNull(again.damage);
    assert.equal(text(await again.get(A)), text(two));
    assert.deepEqual([bench.filesWith(one), bench.filesWith(two)], [0, 1]);
  });

  it("moves away from what the server forgot and did not overwrite", async () => {
    const [one, two, other] = [randomBytes(40), randomBytes(40), randomBytes(40)];
    const store = await bench.open();
    await store.put(A, one);
    await store.put(B, other);
    await store.close();
    await jetstream(bench.connection).publish(subject(A), two);
    const manager = await jetstreamManager(bench.connection);
    await manager.streams.deleteMessage("KV_test-a", 3, false);
    assert.equal(bench.filesWith(one), 1, "a deletion without overwriting leaves the bytes");
    const again = await bench.open();
    assert.equal(text(await again.get(A)), text(two));
    assert.equal(text(await again.get(B)), text(other));
    assert.deepEqual(
      [one, two, other].map((bytes) => bench.filesWith(bytes)),
      [0, 1, 1],
    );
    await again.put(A, other);
    await again.close();
    const third = await bench.open();
    assert.equal(text(await third.get(A)), text(other));
    assert.equal(bench.filesWith(two), 0);
  });

  it("finishes a removal that was witnessed alone", async () => {
    const one = randomBytes(40);
    const store = await bench.open();
    await store.put(A, one);
    await store.remove(A);
    await store.put(A, one);
    await store.close();
    const witness = join(bench.directory, "test", "witness-test-a");
    const bytes = readFileSync(witness);
    writeFileSync(witness, afterRemoval(bytes), { mode: 0o600 });
    const again = await bench.open();
    assert.deepEqual([...bench.told.keys()], []);
    assert.isNull(again.damage);
    assert.equal(bench.filesWith(one), 0);
  });

  /** The witness of a store that has said of its last record that it is removed, and nothing after. */
  function afterRemoval(bytes: Buffer): Buffer {
    const parsed = parseWitness(bytes, "test-a");
    const last = parsed?.entries.at(-1);
    if (parsed === null || last === undefined) throw new Error("no witness");
    const group = encodeGroup(parsed.storeId, parsed.entries.length, [
      { ...last, kind: "removed" },
    ]);
    const changed = Buffer.from(bytes);
    group.copy(changed, (parsed.entries.length + 1) * SLOT_BYTES);
    return changed;
  }

  /** Lets every bound pass of what nobody answers. */
  async function whileTimePasses<T>(clock: FakeClock, refusal: Promise<T>): Promise<T> {
    let isOver = false;
    const end = (): void => {
      isOver = true;
    };
    refusal.then(end, end);
    while (!isOver) await clock.advance(1_000);
    return await refusal;
  }

  it("says that it does not know while the server is silent, and knows when it is back", async () => {
    const clock = new FakeClock();
    const store = await bench.open({ clock });
    await store.put(A, Buffer.from("one"));
    await bench.server.freeze();
    const refusal = refusalOf(() => store.put(A, Buffer.from("two")));
    const { code } = await whileTimePasses(clock, refusal);
    assert.equal(code, "secret_outcome_unknown");
    assert.isFalse(store.isVerified);
    bench.server.thaw();
    await store.verify();
    assert.equal(text(await store.get(A)), "two");
  });

  it("says that nothing was done while the server is away", async () => {
    const clock = new FakeClock();
    const store = await bench.open({ clock });
    await bench.server.kill();
    await bench.down();
    const refusal = refusalOf(() => store.put(A, Buffer.from("two")));
    const { code } = await whileTimePasses(clock, refusal);
    assert.equal(code, "secret_store_unavailable");
    await bench.server.restart();
    await bench.back();
    await store.put(A, Buffer.from("three"));
    assert.equal(text(await store.get(A)), "three");
  });

  it("writes nothing where it cannot prove that it is synced, and reads all the same", async () => {
    const store = await bench.open();
    await store.put(A, Buffer.from("one"));
    await store.close();
    const unproven = await bench.open({ sys: null });
    assert.equal(text(await unproven.get(A)), "one");
    for (const attempt of [() => unproven.put(A, Buffer.from("two")), () => unproven.remove(A)]) {
      assert.equal((await refusalOf(attempt)).code, "durability_unproven");
    }
    assert.equal(text(await unproven.get(A)), "one");
  });

  it("is one process's at a time", async () => {
    const store = await bench.open();
    assert.equal((await refusalOf(() => bench.open())).code, "store_in_use");
    await store.close();
    await bench.open();
    assert.isTrue(existsSync(join(bench.directory, "test", "witness-test-a")));
  });
});
