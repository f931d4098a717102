import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import type { StoreState } from "../../../transport/receipts/receipt.ts";
import { logLines } from "../../support/log-lines.ts";
import { startNodeServer, type TestNodeServer } from "../../support/nats.ts";
import { type Bench, bench, done, running, type WorkStore } from "../../support/receipts.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type SmallDisk, smallDisk } from "../../support/small-disk.ts";

const intent = Buffer.from("do it");

function reaches(store: WorkStore, state: StoreState): Promise<void> {
  return new Promise((resolve) => {
    const unwatch = store.watch(look);
    function look(): void {
      if (store.condition !== state) return;
      unwatch();
      resolve();
    }
    look();
  });
}

/** Admits ids of its own until the store refuses, and gives back the ones admitted and the refusal. */
async function admitUntilRefused(store: WorkStore, prefix: string) {
  const admitted: string[] = [];
  const refusal = await refusalOf(async () => {
    for (;;) {
      const id = `${prefix}:${admitted.length}:${"x".repeat(200)}`;
      await store.admit(id, intent, running);
      admitted.push(id);
    }
  });
  return { admitted, refusal };
}

/** Long enough for a busy machine to answer what it can answer. */
const timeouts = { putMs: 1_500 };

/** Admits ids of its own until the store refuses, which it must; the ids admitted stay known. */
async function expectFull(store: WorkStore): Promise<void> {
  const { admitted, refusal } = await admitUntilRefused(store, "run");
  expect(refusal).to.include({ code: "no_space", retrySafe: true, mutationMayHaveApplied: false });
  expect(store.condition).to.equal("full");
  // From then on at once, without a put.
  expect((await refusalOf(() => store.admit("next", intent, running))).code).to.equal("no_space");
  for (const id of admitted) expect((await store.read(id))?.state).to.deep.equal(running);
  expect(await store.read("next")).to.equal(null);
  expect(store.retained).to.equal(admitted.length);
}

describe("a receipt store on a server that may store no more", () => {
  it("admits nothing more, says why, forgets nothing and still reads", async () => {
    await using ground = await bench(await startNodeServer({ maxStoreBytes: 64 * 1024 }));
    await expectFull(await ground.open({ timeouts }));
  });
});

// Accounts that may not have a file system of their own go without; the bound above is proven anyway.
const probe = await smallDisk(1_000_000);
await probe?.[Symbol.asyncDispose]();
if (probe !== null) describe("a receipt store on a full disk", onFullDisk);

function onFullDisk(): void {
  let disk: SmallDisk;
  let server: TestNodeServer;
  let ground: Bench;
  let store: WorkStore;
  let restarts: string[];

  async function restartServer(serverId: string): Promise<void> {
    restarts.push(serverId);
    await server.stop();
    await server.restart();
  }

  beforeEach(async () => {
    const made = await smallDisk(8 * 1024 * 1024);
    if (made === null) throw new Error("a second small disk was refused");
    disk = made;
    server = await startNodeServer({ directory: join(disk.path, "nats") });
    ground = await bench(server, join(disk.path, "receipts"));
    restarts = [];
    store = await ground.open({ timeouts, restartServer });
  });
  afterEach(async () => {
    await ground[Symbol.asyncDispose]();
    await disk[Symbol.asyncDispose]();
  });

  it("admits nothing more, says why, forgets nothing and still reads", async () => {
    disk.fill();
    await expectFull(store);
  });

  it("serves again by itself once there is space, the server restarted, everything known", async () => {
    const first = await store.admit("first", intent, running);
    disk.fill();
    const { admitted } = await admitUntilRefused(store, "run");
    const before = server.child.serverId;
    disk.free();
    await reaches(store, "serving");
    expect(restarts).to.deep.equal([before]);
    expect(await store.read("first")).to.deep.equal(first.receipt);
    for (const id of admitted) {
      expect((await store.read(id))?.state).to.deep.equal(running);
      expect((await store.admit(id, intent, running)).outcome).to.equal("existing");
    }
    expect((await store.admit("next", intent, running)).outcome).to.equal("admitted");
  });

  it("says once that it is full and once that it is over, however many it refuses", async () => {
    await store.close();
    const lines = logLines();
    const other = await ground.open({ generation: 2, timeouts, restartServer, log: lines.log });
    const told = () => lines.lines.map(({ msg }) => msg).filter((msg) => /disk/.test(String(msg)));
    expect(told()).to.deep.equal([]);
    disk.fill();
    await admitUntilRefused(other, "run");
    for (let n = 0; n < 5; n += 1) await refusalOf(() => other.admit(`more:${n}`, intent, running));
    const full = "the disk of the receipts is full; nothing is admitted until there is space";
    expect(told()).to.deep.equal([full]);
    disk.free();
    await reaches(other, "serving");
    expect(told()).to.deep.equal([full, "the disk of the receipts has space again"]);
  });

  it("writes the end of work that came meanwhile once there is space", async () => {
    const { receipt } = await store.admit("first", intent, running);
    disk.fill();
    await admitUntilRefused(store, "run");
    const change = await refusalOf(() => store.advance(receipt, { phase: "running", step: 1 }));
    expect(change.code).to.equal("no_space");
    const end = store.advance(receipt, done);
    disk.free();
    expect((await end).state).to.deep.equal(done);
    expect((await store.read("first"))?.state).to.deep.equal(done);
  });

  it("opens on it, reads, and ends what an earlier life left as soon as it can", async () => {
    const { receipt } = await store.admit("first", intent, running);
    disk.fill();
    const { admitted } = await admitUntilRefused(store, "run");
    await store.close();
    const later = await ground.open({ generation: 2, timeouts, restartServer });
    const unknown = { phase: "unknown", step: 0 };
    expect(await later.read("first")).to.deep.equal({ ...receipt, state: unknown });
    expect((await refusalOf(() => later.admit("next", intent, running))).code).to.equal("no_space");
    disk.free();
    await reaches(later, "serving");
    const settled = await later.read("first");
    expect(settled?.state).to.deep.equal(unknown);
    expect(settled?.revision).to.be.greaterThan(receipt.revision);
    expect((await later.read(admitted[0] ?? ""))?.state).to.deep.equal(unknown);
  });

  it("has a server restarted that stays silent although there is space again", async () => {
    const before = server.child.serverId;
    // The disk is full for a moment only: the stream takes nothing any more, and space is all we see.
    for (let n = 0; ; n += 1) {
      disk.fill();
      const admissions = ["a", "b"].map((name) =>
        store.admit(`run:${n}:${name}:${"x".repeat(200)}`, intent, running).then(
          () => "admitted",
          (failure) => failure.code,
        ),
      );
      const answered = Promise.all(admissions);
      if ((await Promise.race([answered, sleep(100)])) === undefined) disk.free();
      const codes = new Set(await answered);
      codes.delete("admitted");
      if (codes.size === 0) continue;
      expect([...codes]).to.deep.equal(["timeout"]);
      break;
    }
    // What a stalling disk does to those under way is no reason; the next one is.
    expect(store.condition).to.equal("serving");
    expect(restarts).to.deep.equal([]);
    const second = await refusalOf(() => store.admit("second", intent, running));
    expect(second.code).to.equal("timeout");
    await reaches(store, "verifying");
    await reaches(store, "serving");
    expect(restarts).to.deep.equal([before]);
    expect((await store.admit("third", intent, running)).outcome).to.equal("admitted");
  });
}
