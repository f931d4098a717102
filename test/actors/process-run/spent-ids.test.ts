/** Proves what becomes of a process id: repeated, cancelled, one too many. */
import { expect } from "chai";
import { OUTCOME_UNKNOWN, TOMBSTONE } from "../../../actors/process-run/state.ts";
import type { SystemSpawner } from "../../../host/spawner.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { identityOf, MODES, shell, spawnerOf } from "../../support/native-run.ts";
import {
  absent,
  gated,
  nextTurn,
  openGate,
  type ProcessRoom,
  processRoom,
  request,
  textOf,
  untilState,
} from "../../support/process-room.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a process id", () => {
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

  describe("asked again with an id that is spent", () => {
    it("answers the same intent with the same receipt, and starts nothing", async () => {
      const run = request(shell("echo once; exit 3"));
      const first = await room.service.run(run);
      expect(await room.service.run({ ...run, argv: [...run.argv] })).to.deep.equal(first);
      expect(await room.service.get({ processId: run.processId })).to.deep.equal(first);
      expect(await room.service.cancel({ processId: run.processId })).to.deep.equal(first);
      expect(first).to.include({ state: "completed", exitCode: 3 });
      expect(room.starts()).to.equal(1);
    });

    it("waits with the same intent for the run under way, and refuses another", async () => {
      const run = request(gated(room));
      const first = room.service.run(run);
      await untilState(room, "running", run.processId);
      const second = room.service.run(run);
      for (const changes of [
        { argv: ["true"] },
        { cwd: room.folder },
        { stdin: Buffer.from("x") },
        { timeoutMs: 59_999 },
        { maxOutputBytes: 1 },
      ]) {
        const refusal = await refusalOf(() => room.service.run({ ...run, ...changes }));
        expect(refusal.code).to.equal("process_id_conflict");
      }
      expect(await room.service.get({ processId: run.processId })).to.deep.equal({
        ...absent(run.processId),
        state: "running",
      });
      openGate(room);
      expect(await second).to.deep.equal(await first);
      expect(await first).to.include({ state: "completed", exitCode: 5 });
      expect(room.starts()).to.equal(1);
    });
  });

  describe("asked to cancel", () => {
    it("an id that was never used, writes a tombstone that no run gets past", async () => {
      const run = request(["true"]);
      const { processId } = run;
      const cancelled = { ...absent(processId), state: "cancelled" };
      expect(await room.service.cancel({ processId })).to.deep.equal(cancelled);
      expect(room.receipts.disk.get(processId)?.receipt.state).to.deep.equal(TOMBSTONE);
      expect(await room.service.run(run)).to.deep.equal(cancelled);
      expect(await room.service.run({ ...run, argv: ["false"] })).to.deep.equal(cancelled);
      expect(await room.service.get({ processId })).to.deep.equal(cancelled);
      expect(await room.service.cancel({ processId })).to.deep.equal(cancelled);
      expect(room.starts()).to.equal(0);
    });

    it("a run, stops it whole and tells what was seen of its end", async () => {
      const run = request(shell("echo up; setsid sleep 600 & echo $!; exec sleep 600"));
      const first = room.service.run(run);
      await untilState(room, "running", run.processId);
      const receipt = await room.service.cancel({ processId: run.processId });
      expect(receipt).to.include({ state: "cancelled", outputTruncated: false });
      expect(receipt.exitCode).to.be.oneOf([137, null]);
      expect(await first).to.deep.equal(receipt);
      expect(await room.service.get({ processId: run.processId })).to.deep.equal(receipt);
      const pid = textOf(receipt.stdout)?.split("\n")[1];
      if (pid) expect(() => identityOf(pid)).to.throw();
    });

    it("a run whose fence is just being written, starts nothing", async () => {
      room.receipts.hold((operation) => operation === "admit");
      const run = request(["true"]);
      const first = room.service.run(run);
      while (room.receipts.held.length === 0) await nextTurn();
      const cancel = room.service.cancel({ processId: run.processId });
      const get = room.service.get({ processId: run.processId });
      room.receipts.letGo();
      // The calls of one id take turns, so the cancel finds the run at its very beginning.
      expect((await cancel).state).to.be.oneOf(["cancelled", "completed"]);
      expect(await first).to.deep.equal(await cancel);
      expect((await get).state).to.be.oneOf(["running", (await first).state]);
    });

    it("a run of an earlier life, tells what became of it", async () => {
      const processId = "from:before";
      room.receipts.disk.set(processId, {
        receipt: {
          id: processId,
          state: OUTCOME_UNKNOWN,
          owner: { generation: 0, invocation: "x" },
          revision: 2,
        },
        intent: "",
      });
      const receipt = await room.service.cancel({ processId });
      expect(receipt).to.deep.equal({ ...absent(processId), state: "outcome_unknown" });
    });

    it("a run that another life still owns, refuses", async () => {
      const processId = "of:another";
      room.receipts.disk.set(processId, {
        receipt: {
          id: processId,
          state: { state: "admitted", exitCode: null, tombstone: false },
          owner: { generation: 2, invocation: "x" },
          revision: 1,
        },
        intent: "",
      });
      const refusal = await refusalOf(() => room.service.cancel({ processId }));
      expect(refusal.code).to.equal("process_generation_mismatch");
      expect((await room.service.get({ processId })).state).to.equal("running");
    });
  });

  describe("at its capacity", () => {
    it("runs 16 at a time, refuses the next without spending its id, and then takes it", async () => {
      const ids = Array.from({ length: 16 }, (_, n) => `slot:${n}`);
      const running = ids.map((processId) => room.service.run(request(gated(room), { processId })));
      const next = request(["true"], { processId: "slot:next" });
      const refusal = await refusalOf(() => room.service.run(next));
      expect(refusal).to.include({ code: "too_many_processes", retrySafe: true });
      expect(await room.service.get({ processId: "slot:next" })).to.deep.equal(absent("slot:next"));
      // What is known can be asked for all the same.
      const known = request(gated(room), { processId: "slot:0" });
      const again = room.service.run(known);
      await room.service.cancel({ processId: "slot:unused" });
      expect(
        (await room.service.run(request(["true"], { processId: "slot:unused" }))).state,
      ).to.equal("cancelled");
      openGate(room);
      expect((await again).exitCode).to.equal(5);
      for (const receipt of await Promise.all(running)) expect(receipt.exitCode).to.equal(5);
      expect((await room.service.run(next)).state).to.equal("completed");
    });

    it("retains 1,000 ids, and refuses any further one to run or cancel", async () => {
      room.receipts.fill(998, TOMBSTONE);
      expect((await room.service.run(request(["true"], { processId: "id:999" }))).state).to.equal(
        "completed",
      );
      const last = await Promise.allSettled([
        room.service.cancel({ processId: "id:1000" }),
        room.service.run(request(["true"], { processId: "id:1001" })),
        room.service.run(request(["true"], { processId: "id:1002" })),
      ]);
      expect(last.map(({ status }) => status)).to.deep.equal(["fulfilled", "rejected", "rejected"]);
      expect(room.receipts.retained).to.equal(1_000);
      for (const call of [
        () => room.service.run(request(["true"], { processId: "id:1001" })),
        () => room.service.cancel({ processId: "id:1001" }),
      ]) {
        const refusal = await refusalOf(call);
        expect(refusal).to.include({ code: "process_receipt_limit", retrySafe: false });
      }
      expect(await room.service.get({ processId: "id:1001" })).to.deep.equal(absent("id:1001"));
      // Spent ids answer as ever.
      expect((await room.service.run(request(["true"], { processId: "id:999" }))).state).to.equal(
        "completed",
      );
      expect((await room.service.cancel({ processId: "id:1000" })).state).to.equal("cancelled");
      expect(room.starts()).to.equal(1);
    });

    it("gives a slot back whatever became of the run", async () => {
      for (let round = 0; round < 17; round += 1) {
        await refusalOf(() => room.service.run(request(["no-such-program-anywhere"])));
      }
      room.receipts.fail((operation) =>
        operation === "admit" ? new LemonError("no_space") : null,
      );
      for (let round = 0; round < 17; round += 1) {
        expect((await refusalOf(() => room.service.run(request(["true"])))).code).to.equal(
          "no_space",
        );
      }
      room.receipts.fail(undefined);
      for (let round = 0; round < 17; round += 1) await room.service.run(request(["true"]));
    });
  });
});
