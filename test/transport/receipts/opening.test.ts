/** Proves the opening of a receipt store: after a crash in its making, beside the registry, without a proof. */
import { chmodSync, existsSync, readFileSync, rmSync } from "node:fs";
import { expect } from "chai";
import { quote } from "../../../transport/nats-server/config.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { startServer } from "../../support/nats.ts";
import { expectServing, intent, OpenedReceipts } from "../../support/opened-receipts.ts";
import { bench, done, running, work } from "../../support/receipts.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("the opening of a receipt store", () => {
  let opened: OpenedReceipts;

  before(async () => {
    opened = await OpenedReceipts.begin();
  });
  afterEach(() => opened.ground.clear());
  after(() => opened[Symbol.asyncDispose]());

  describe("after a crash in its making", () => {
    const undo: Readonly<Record<string, () => unknown>> = {
      "the note": async () => {
        rmSync(opened.witness);
        rmSync(opened.key);
        await opened.manager.streams.delete("KV_work");
      },
      "the witness": () => opened.manager.streams.delete("KV_work"),
      "the stream": async () => {
        const { config } = await opened.manager.streams.info("KV_work");
        await opened.manager.streams.delete("KV_work");
        await opened.manager.streams.add({ ...config, name: "KV_work" });
      },
      "the stream's own record": () => {},
    };
    for (const [step, undoRest] of Object.entries(undo)) {
      it(`goes on behind ${step}`, async () => {
        await opened.made([]);
        const { storeId } = JSON.parse(readFileSync(opened.note, "utf8"));
        await undoRest();
        opened.editNote((ready) => ({ ...ready, phase: "creating" }));
        const store = await opened.ground.open();
        expect(store.storeId).to.equal(storeId);
        await expectServing(store);
        await store.close();
        expect((await (await opened.ground.open()).read("new"))?.state).to.deep.equal(running);
      });
    }

    it("goes on after the server was killed in the midst of it, at any moment", async () => {
      let failures = 0;
      for (let round = 0; round < 6; round += 1) {
        rmSync(opened.ground.files, { recursive: true, force: true });
        await opened.manager.streams.delete("KV_work").catch(() => {});
        const opening = opened.ground.open({ timeouts: { putMs: 300, readMs: 300 } });
        const over = opening.then(
          (store) => store.close(),
          () => {
            failures += 1;
          },
        );
        for (let turn = 0; turn < round * 14; turn += 1) {
          await new Promise((resolve) => setImmediate(resolve));
        }
        await opened.ground.server.kill();
        await over;
        const reconnected = (async () => {
          for await (const status of opened.ground.connection.status()) {
            if (status.type === "reconnect") return;
          }
        })();
        await opened.ground.server.restart();
        await reconnected;
        const store = await opened.ground.open();
        expect(await store.read("new")).to.equal(null);
        await store.close();
      }
      expect(failures).to.be.greaterThan(0);
    });

    it("refuses a note that claims so although ids were admitted", async () => {
      await opened.made(["run:1"]);
      opened.editNote((ready) => ({ ...ready, phase: "creating" }));
      expect(await opened.damage()).to.equal("identity_damaged");
    });

    it("refuses a stream that holds more than the store's own record", async () => {
      await opened.made(["run:1"]);
      opened.editNote((ready) => ({ ...ready, phase: "creating" }));
      rmSync(opened.witness);
      expect(await opened.damage()).to.equal("stream_not_empty");
    });
  });

  describe("beside what the registry knows", () => {
    it("refuses to make a store where one is expected", async () => {
      const expected = { storeId: crypto.randomUUID() };
      expect(await opened.damage({ expected })).to.equal("not_the_expected_store");
      expect(existsSync(opened.note)).to.equal(false);
    });

    it("refuses another store than the expected one", async () => {
      await opened.made(["run:1"]);
      const expected = { storeId: crypto.randomUUID() };
      expect(await opened.damage({ expected })).to.equal("not_the_expected_store");
    });

    it("refuses an older copy of everything, and nothing that is as far as was told", async () => {
      const store = await opened.ground.open();
      const { storeId } = store;
      await store.admit("run:1", intent, running);
      await store.admit("run:2", intent, running);
      const { lastWitnessedSequence } = store;
      await store.close();
      const told = (witnessedSequence: number) => ({ expected: { storeId, witnessedSequence } });
      expect(await opened.damage(told(lastWitnessedSequence + 1))).to.equal("older_copy");
      await expectServing(await opened.ground.open(told(lastWitnessedSequence)));
    });
  });

  describe("without a proof that the server syncs", () => {
    it("admits nothing, reads, and lets what runs come to its end", async () => {
      const proven = await opened.ground.open();
      const { receipt } = await proven.admit("run:1", intent, running);
      await proven.close();
      const store = await opened.ground.open({ sys: null });
      expect(store.condition).to.equal("unproven");
      const refusal = await refusalOf(() => store.admit("run:2", intent, running));
      expect(refusal).to.include({ code: "durability_unproven", mutationMayHaveApplied: false });
      expect(await store.read("run:2")).to.equal(null);
      expect(await store.read("run:1")).to.deep.equal(receipt);
      expect((await store.advance(receipt, done)).state).to.deep.equal(done);
    });

    it("takes no end for lost that was stored while it compared the stream", async () => {
      const ids = Array.from({ length: 200 }, (_, n) => `run:${n}`);
      const proven = await opened.ground.open();
      const receipts = await Promise.all(
        ids.map(async (id) => (await proven.admit(id, intent, running)).receipt),
      );
      await proven.close();
      const clock = new FakeClock();
      const store = await opened.ground.open({ sys: null, clock });
      expect(store.condition).to.equal("unproven");
      // Without a proof it compares again and again; ends are taken all the while.
      const compared = new Promise<void>((resolve) => {
        const unwatch = store.watch(() => {
          unwatch();
          resolve();
        });
      });
      await clock.advance(100);
      for (const [n, receipt] of receipts.entries()) {
        if (n % 20 === 0) await opened.ground.connection.flush();
        void store.advance(receipt, done);
      }
      await compared;
      for (const id of ids) expect((await store.read(id))?.state, id).to.deep.equal(done);
    });

    it("is not convinced by another server that syncs", async () => {
      await using other = await bench();
      const store = await opened.ground.open({ sys: other.sys });
      expect(store.condition).to.equal("unproven");
    });

    it("is not convinced by a connection that may not ask", async () => {
      const store = await opened.ground.open({ sys: opened.ground.connection });
      expect(store.condition).to.equal("unproven");
    });

    it("is not convinced by a server that syncs now and then", async () => {
      await using lazy = await startServer(
        ({ ports, portsDirectory, logFile, storeDirectory }) =>
          `listen: "127.0.0.1:${ports.client}"
           ports_file_dir: ${quote(portsDirectory)}
           log_file: ${quote(logFile)}
           accounts {
             STORE: { jetstream: enabled, users: [ { user: store, password: s } ] }
             SYS: { users: [ { user: sys, password: s } ] }
           }
           system_account: SYS
           jetstream { store_dir: ${quote(storeDirectory)}, sync_interval: "2m" }`,
      );
      const connection = await lazy.connect({ user: "store", pass: "s" });
      const sys = await lazy.connect({ user: "sys", pass: "s" });
      const store = await opened.ground.open({ connection, sys });
      expect(store.condition).to.equal("unproven");
      await store.close();
    });
  });

  it("is refused while a private file has become readable by others", async () => {
    await opened.made(["run:1"]);
    for (const file of [opened.note, opened.key]) {
      chmodSync(file, 0o644);
      const refusal = await refusalOf(() => opened.ground.open());
      expect(refusal).to.deep.include({ code: "permission_denied", details: { reason: "mode" } });
      chmodSync(file, 0o600);
    }
    expect((await (await opened.ground.open()).read("run:1"))?.state).to.deep.equal(running);
  });

  it("refuses a kind whose name is no bucket's", async () => {
    for (const bucket of ["", "a.b", "a/b", "..", "A", "x".repeat(65)]) {
      const refusal = await refusalOf(() => opened.ground.open({ kind: work(bucket) }));
      expect(refusal.code).to.equal("internal_error");
    }
    await opened.ground.open({ kind: work("x".repeat(64)) });
  });

  it("refuses a kind for which what is lost could still go on", async () => {
    const kind = { ...work(), lost: running };
    expect((await refusalOf(() => opened.ground.open({ kind }))).code).to.equal("internal_error");
  });

  it("fails clearly while no server answers, and lets go of the folder", async () => {
    await opened.made(["run:1"]);
    await opened.ground.server.freeze();
    const refusal = await refusalOf(() => opened.ground.open({ timeouts: { readMs: 50 } }));
    expect(refusal.code).to.equal("receipt_store_unavailable");
    opened.ground.server.thaw();
    await expectServing(await opened.ground.open());
  });
});
