import { randomBytes } from "node:crypto";
import { assert } from "chai";
import { recordKey } from "../../../transport/records/record-store.ts";
import { recordBench } from "../../support/record-bench.ts";
import { refusalOf } from "../../support/refusal.ts";
import { smallDisk } from "../../support/small-disk.ts";

const A = recordKey("a");
const timeouts = { putMs: 1_000, returnMs: 15_000 };

// Accounts that may not have a file system of their own go without.
const probe = await smallDisk(1_000_000);
await probe?.[Symbol.asyncDispose]();
if (probe !== null) describe("a store of records on a full disk", onFullDisk);

function onFullDisk(): void {
  it("says that there is no space and changes nothing, reads all the same, and writes again once there is", async () => {
    const disk = await smallDisk(8 * 1024 * 1024);
    if (disk === null) throw new Error("a second small disk was refused");
    await using _ = disk;
    await using bench = await recordBench({ path: disk.path, [Symbol.dispose]: () => {} });
    const restarted: string[] = [];
    async function restartServer(serverId: string): Promise<void> {
      restarted.push(serverId);
      await bench.server.stop();
      await bench.server.restart();
    }
    const store = await bench.open({ timeouts, restartServer });
    const first = randomBytes(40);
    await store.put(A, first);
    disk.fill();
    const large = randomBytes(64 * 1024);
    for (let round = 0; round < 2; round += 1) {
      assert.equal((await refusalOf(() => store.put(A, large))).code, "no_space");
    }
    if (!store.isVerified) await store.verify();
    assert.deepEqual(Buffer.from(await store.get(A)), first);
    const before = bench.server.child.serverId;
    disk.free();
    await store.put(A, large);
    assert.deepEqual(restarted, [before]);
    assert.deepEqual(Buffer.from(await store.get(A)), large);
    assert.equal(bench.filesWith(first), 0);
  });
}
