import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { assert } from "chai";
import { recordKey } from "../../../transport/records/record-store.ts";
import { type RecordBench, recordBench } from "../../support/record-bench.ts";

const A = recordKey("a");
const B = recordKey("b");

describe("a store of records", () => {
  let bench: RecordBench;
  beforeEach(async () => {
    bench = await recordBench();
  });
  afterEach(() => bench[Symbol.asyncDispose]());

  it("holds what was put last under a key, also over its own end and the server's", async () => {
    const store = await bench.open();
    assert.isTrue(await store.put(A, Buffer.from("one")));
    assert.isTrue(await store.put(A, Buffer.from("two")));
    await store.put(B, Buffer.from("other"));
    assert.equal(Buffer.from(await store.get(A)).toString(), "two");
    await store.close();
    await bench.crashServer();
    const again = await bench.open();
    assert.equal(Buffer.from(await again.get(A)).toString(), "two");
    assert.deepEqual([...bench.told.keys()].sort(), [A, B].sort());
    await again.remove(A);
    await again.verify();
    assert.deepEqual([...bench.told.keys()], [B]);
  });

  it("begins a new witness when the old one speaks mostly of what is forgotten", async () => {
    const store = await bench.open({ witnessedAtMost: 40 });
    const witnesses = () =>
      readdirSync(join(bench.directory, "test")).filter((name) => name.startsWith("witness"));
    for (let round = 0; round < 20; round += 1) await store.put(A, Buffer.from(`round ${round}`));
    assert.deepEqual(witnesses(), ["witness-test-a"]);
    for (let round = 20; round < 26; round += 1) await store.put(A, Buffer.from(`round ${round}`));
    assert.deepEqual(witnesses(), ["witness-test-b"]);
    assert.equal(Buffer.from(await store.get(A)).toString(), "round 25");
    assert.deepEqual([...bench.told.keys()], [A]);
    await store.close();
    const again = await bench.open({ witnessedAtMost: 1 });
    assert.equal(Buffer.from(await again.get(A)).toString(), "round 25");
    assert.deepEqual(witnesses(), ["witness-test-a"]);
  });

  for (const sizeBytes of [64, 4_096, 1_048_576]) {
    it(`leaves nothing on the disk of ${sizeBytes} bytes that were replaced or removed`, async () => {
      const store = await bench.open();
      const values = Array.from({ length: 4 }, () => randomBytes(sizeBytes));
      for (const value of values) await store.put(A, value);
      const parts = (value: Buffer) => [value.subarray(0, 32), value.subarray(-32)];
      const left = (value: Buffer) => parts(value).map((part) => bench.filesWith(part));
      assert.deepEqual(values.map(left), [
        [0, 0],
        [0, 0],
        [0, 0],
        [1, 1],
      ]);
      await store.remove(A);
      assert.deepEqual(
        values.map(left),
        values.map(() => [0, 0]),
      );
      assert.equal(store.unerased, 0);
    });
  }
});
