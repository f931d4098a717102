/** Proves what is kept of runs: their outputs, and their receipts over stores that go away and lives that end. */
import { expect } from "chai";
import type { SystemSpawner } from "../../../host/spawner.ts";
import { LemonError } from "../../../protocol/errors.ts";
import type { ProcessReceipt } from "../../../protocol/process.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { identityOf, MODES, shell, spawnerOf } from "../../support/native-run.ts";
import {
  absent,
  gated,
  legible,
  nextTurn,
  openGate,
  type ProcessRoom,
  processRoom,
  request,
  textOf,
  untilState,
} from "../../support/process-room.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("what a run leaves", () => {
  let spawner: SystemSpawner;
  let room: ProcessRoom;
  before(() => {
    spawner = spawnerOf(MODES[0] ?? "subreaper");
  });
  after(() => spawner.close());
  beforeEach(async () => {
    room = await processRoom({ spawner });
  });
  afterEach(() => room[Symbol.asyncDispose]());

  describe("keeps outputs", () => {
    it("of the last 16 runs, and the receipts of all", async () => {
      const ids = Array.from({ length: 17 }, (_, n) => `out:${n}`);
      for (const processId of ids)
        await room.service.run(request(["echo", processId], { processId }));
      const told = await Promise.all(ids.map((processId) => room.service.get({ processId })));
      expect(told.map(legible).map(({ stdout }) => stdout)).to.deep.equal([
        null,
        ...ids.slice(1).map((id) => `${id}\n`),
      ]);
      expect(told[0]).to.include({
        state: "completed",
        exitCode: 0,
        outputTruncated: true,
        stderr: null,
      });
    });

    it("for 24 hours", async () => {
      const clock = new FakeClock();
      await using timed = await processRoom({ spawner, clock });
      const run = request(["echo", "kept"]);
      let receipt: ProcessReceipt | undefined;
      void timed.service.run(run).then((told) => {
        receipt = told;
      });
      while (receipt === undefined) await nextTurn();
      const { processId } = run;
      await clock.advance(24 * 3_600_000 - 1);
      expect(textOf((await timed.service.get({ processId })).stdout)).to.equal("kept\n");
      await clock.advance(1);
      expect(await timed.service.get({ processId })).to.include({
        state: "completed",
        stdout: null,
        outputTruncated: true,
      });
    });

    it("in memory only: another life knows the exit, and not the bytes", async () => {
      const run = request(shell("echo gone; exit 9"));
      await room.service.run(run);
      await using next = await processRoom({ spawner, generation: 2, disk: room.receipts.disk });
      const { processId } = run;
      const receipt = { ...absent(processId), state: "completed", exitCode: 9 };
      expect(await next.service.get({ processId })).to.deep.equal(receipt);
      expect(await next.service.run(run)).to.deep.equal(receipt);
      expect(next.starts()).to.equal(0);
    });
  });

  it("leaves to the next life what it had not finished: outcome_unknown, never run again", async () => {
    const run = request(gated(room));
    void room.service.run(run).catch(() => {});
    await untilState(room, "running", run.processId);
    await using next = await processRoom({
      spawner,
      generation: 2,
      disk: new Map(room.receipts.disk),
    });
    const { processId } = run;
    const unknown = { ...absent(processId), state: "outcome_unknown" };
    expect(await next.service.get({ processId })).to.deep.equal(unknown);
    expect(await next.service.run(run)).to.deep.equal(unknown);
    expect(await next.service.cancel({ processId })).to.deep.equal(unknown);
    expect(next.starts()).to.equal(0);
    openGate(room);
  });

  describe("with a store that goes away during a run", () => {
    it("tells the caller that the outcome is unknown, and the receipt once the store is back", async () => {
      const clock = new FakeClock();
      await using timed = await processRoom({ spawner, clock });
      const run = request(shell("echo done; exit 4"));
      const { processId } = run;
      timed.receipts.hold((operation) => operation === "advance");
      const first = refusalOf(() => timed.service.run(run));
      while (timed.receipts.held.length === 0) await nextTurn();
      expect(await timed.service.get({ processId })).to.include({ state: "running" });
      await clock.advance(2_500);
      expect(await first).to.include({
        code: "process_outcome_unknown",
        mutationMayHaveApplied: true,
      });
      expect(await timed.service.get({ processId })).to.include({ state: "running" });
      const again = timed.service.run(run);
      const cancel = timed.service.cancel({ processId });
      await nextTurn();
      timed.receipts.letGo();
      expect(legible(await again)).to.include({
        state: "completed",
        exitCode: 4,
        stdout: "done\n",
      });
      expect(await cancel).to.deep.equal(await again);
      expect(await timed.service.get({ processId })).to.deep.equal(await again);
      expect(timed.starts()).to.equal(1);
    });

    it("tells so when the store will never take the end", async () => {
      room.receipts.fail((operation) =>
        operation === "advance" ? new LemonError("receipt_store_damaged") : null,
      );
      const refusal = await refusalOf(() => room.service.run(request(["true"])));
      expect(refusal).to.include({ code: "process_outcome_unknown", mutationMayHaveApplied: true });
    });

    it("frees the slot of what has ended, stored or not", async () => {
      room.receipts.hold((operation) => operation === "advance");
      const runs = Array.from({ length: 16 }, () => room.service.run(request(["true"])));
      while (room.receipts.held.length < 16) await nextTurn();
      const next = room.service.run(request(["true"]));
      while (room.receipts.held.length < 17) await nextTurn();
      room.receipts.letGo();
      for (const receipt of await Promise.all([...runs, next]))
        expect(receipt.state).to.equal("completed");
    });
  });

  describe("at the end of the worker", () => {
    it("lets runs finish within the grace, and takes no new ones", async () => {
      const run = room.service.run(request(gated(room), { processId: "last" }));
      await untilState(room, "running", "last");
      let drained = false;
      const drain = room.service.drain({ graceMs: 60_000 }).then(() => {
        drained = true;
      });
      const refusal = await refusalOf(() => room.service.run(request(["true"])));
      expect(refusal).to.include({ code: "unavailable", retrySafe: true });
      expect((await room.service.get({ processId: "last" })).state).to.equal("running");
      expect(drained).to.equal(false);
      openGate(room);
      expect((await run).exitCode).to.equal(5);
      await drain;
    });

    it("cancels what has not finished by then, and has that stored", async () => {
      const run = room.service.run(request(["sleep", "600"], { processId: "last" }));
      await untilState(room, "running", "last");
      await room.service.drain({ graceMs: 0 });
      expect(await run).to.include({ state: "cancelled" });
      expect(room.receipts.disk.get("last")?.receipt.state.state).to.equal("cancelled");
    });

    it("cancels also what was just being admitted", async () => {
      const clock = new FakeClock();
      await using timed = await processRoom({ spawner, clock });
      timed.receipts.hold((operation) => operation === "admit");
      const run = timed.service.run(request(["sleep", "600"]));
      while (timed.receipts.held.length === 0) await nextTurn();
      const drain = timed.service.drain({ graceMs: 1_000 });
      await clock.advance(1_000);
      timed.receipts.letGo();
      expect((await run).state).to.equal("cancelled");
      expect(timed.starts()).to.equal(0);
      await drain;
    });

    it("ends the runs when the tree is stopped, answers for them, and leaves nothing alive", async () => {
      const run = room.service.run(
        request(shell("echo $$; setsid sleep 600 & exec sleep 600"), { processId: "last" }),
      );
      await untilState(room, "running", "last");
      await room.system.shutdown();
      const receipt = await run;
      expect(receipt.state).to.equal("cancelled");
      expect(room.receipts.disk.get("last")?.receipt.state.state).to.equal("cancelled");
      const pid = textOf(receipt.stdout)?.trim();
      if (pid) expect(() => identityOf(pid)).to.throw();
    });
  });

  describe("with a store that takes too long to admit a run", () => {
    // After the deadline its actor is stopped; when that takes too long as well, it is abandoned.
    for (const [what, afterMs] of [
      ["its caller", 6_000],
      ["its actor", 14_000],
    ] as const) {
      it(`starts nothing once ${what} is gone, and has that stored`, async () => {
        const clock = new FakeClock();
        await using timed = await processRoom({ spawner, clock });
        timed.receipts.hold((operation) => operation === "admit");
        const run = request(["true"], { timeoutMs: 1_000 });
        const refusal = refusalOf(() => timed.service.run(run));
        while (timed.receipts.held.length === 0) await nextTurn();
        await clock.advance(6_000);
        expect(await refusal).to.include({
          code: "deadline_exceeded",
          mutationMayHaveApplied: true,
        });
        await clock.advance(afterMs - 6_000);
        timed.receipts.letGo();
        const about = { processId: run.processId };
        while ((await timed.service.get(about)).state !== "cancelled") await nextTurn();
        expect(timed.starts()).to.equal(0);
        expect(timed.receipts.disk.get(run.processId)?.receipt.state.state).to.equal("cancelled");
        // The slot is free again.
        expect((await timed.service.run(request(["true"]))).exitCode).to.equal(0);
      });
    }
  });
});
