import { expect } from "chai";
import { type JobRoom, jobRoom, linesOf, refusedWith } from "../../support/job-room.ts";

describe("The stop of a job", () => {
  let room: JobRoom;

  beforeEach(async () => {
    room = await jobRoom({
      kinds: (demo) => [
        demo.kind("free", { maxDurationMs: 60_000 }),
        demo.kind("watched", { maxDurationMs: 60_000, stallPolicy: { noProgressMs: 5_000 } }),
        demo.kind("install", { resourceClass: "apt" }),
        demo.kind("format", { resourceClass: "disk", dangerous: true }),
      ],
    });
  });
  afterEach(() => room[Symbol.asyncDispose]());

  const endedOf = async (id: string): Promise<unknown> => {
    const { status, error, result } = await room.jobs.get(id);
    return { status, code: error?.code, result };
  };

  describe("that was cancelled", () => {
    it("is cancelling until the work has ended, then cancelled", async () => {
      const id = await room.start("free");
      const { tools, fail } = room.demo.run(0);
      expect(tools.signal.aborted).to.equal(false);
      expect((await room.jobs.cancel(id)).status).to.equal("cancelling");
      expect(tools.signal.aborted).to.equal(true);
      expect(await room.statusOf(id)).to.equal("cancelling");
      fail(tools.signal.reason);
      await room.rest();
      expect(await endedOf(id)).to.deep.equal({
        status: "cancelled",
        code: undefined,
        result: undefined,
      });
      expect((await room.jobs.cancel(id)).status).to.equal("cancelled");
    });

    it("is completed when the work comes to its result all the same", async () => {
      const id = await room.start("free");
      await room.jobs.cancel(id);
      room.demo.run(0).finish({ done: true });
      await room.rest();
      expect(await endedOf(id)).to.deep.include({ status: "completed", result: { done: true } });
    });

    it("holds its class until the work has ended, however long that is", async () => {
      const id = await room.start("install");
      const next = await room.start("install");
      await room.jobs.cancel(id);
      await room.system.clock.advance(60_000);
      expect(await room.statusOf(id)).to.equal("cancelling");
      expect(await room.statusOf(next)).to.equal("queued");
      expect(room.system.text()).to.include("does not end though it was told to");
      room.demo.run(0).fail(new Error("stopped"));
      await room.rest();
      expect(await room.statusOf(next)).to.equal("running");
    });

    it("is over at once for one that waits, and lets those behind it on", async () => {
      await room.start("free");
      const danger = await room.start("format");
      const behind = await room.start("free");
      expect((await room.jobs.get(behind)).queue_position).to.equal(2);
      const view = await room.jobs.cancel(danger);
      expect(view.status).to.equal("cancelled");
      expect(view).not.to.have.any.keys("started_at", "queue_position", "error");
      await room.rest();
      expect(await room.statusOf(behind)).to.equal("running");
      expect(await linesOf(await room.jobs.log(danger, null))).to.deep.equal([]);
      expect(room.receipts.disk.get(danger)?.receipt.state).to.include({
        phase: "ended",
        status: "cancelled",
      });
    });

    it("is over with nothing done for one that was just about to begin", async () => {
      room.receipts.hold((operation) => operation === "advance");
      const { job_id: id } = await room.jobs.start("free", {}, null);
      await room.rest();
      expect((await room.jobs.cancel(id)).status).to.equal("cancelling");
      room.receipts.letGo();
      await room.rest();
      expect(await room.statusOf(id)).to.equal("cancelled");
      expect(room.demo.runs).to.have.length(0);
    });
  });

  describe("that stalled", () => {
    it("is stalled once it is over its time, not before, and stays so", async () => {
      const id = await room.start("free");
      await room.system.clock.advance(59_999);
      expect(await room.statusOf(id)).to.equal("running");
      await room.system.clock.advance(1);
      const view = await room.jobs.get(id);
      expect(view.status).to.equal("stalled");
      expect(view).not.to.have.property("finished_at");
      expect(room.demo.run(0).tools.signal.aborted).to.equal(true);
      expect((await room.jobs.cancel(id)).status).to.equal("stalled");
      room.demo.run(0).fail(new Error("stopped"));
      await room.rest();
      expect(await endedOf(id)).to.deep.include({ status: "stalled", code: "stalled" });
      expect(await room.jobs.get(id)).to.have.property("finished_at");
    });

    it("is stalled after its kind's time without progress; progress and lines put that off", async () => {
      const id = await room.start("watched");
      const { tools } = room.demo.run(0);
      await room.system.clock.advance(4_999);
      tools.progress(0.1);
      await room.system.clock.advance(4_999);
      tools.log("stdout", "still here");
      await room.system.clock.advance(4_999);
      expect(await room.statusOf(id)).to.equal("running");
      tools.progress(0.1);
      await room.system.clock.advance(1);
      expect(await room.statusOf(id)).to.equal("stalled");
    });

    it("is no matter for a kind without such a rule", async () => {
      const id = await room.start("free");
      await room.system.clock.advance(59_000);
      expect(await room.statusOf(id)).to.equal("running");
    });

    it("is completed when the work comes to its result all the same", async () => {
      const id = await room.start("free");
      await room.system.clock.advance(60_000);
      room.demo.run(0).finish({ late: true });
      await room.rest();
      expect(await endedOf(id)).to.deep.include({ status: "completed", result: { late: true } });
    });

    it("counts its time from its beginning, not from its admission", async () => {
      const first = await room.start("install");
      const second = await room.start("install");
      await room.system.clock.advance(59_000);
      room.demo.run(0).finish();
      await room.rest();
      await room.system.clock.advance(59_000);
      expect(await room.statusOf(second)).to.equal("running");
      expect(await room.statusOf(first)).to.equal("completed");
    });
  });

  describe("at the end of the agent", () => {
    const never = new AbortController().signal;

    it("lets those that run go on, and has those that wait never begin", async () => {
      const runs = await room.start("install");
      const waits = await room.start("install");
      const drained = room.jobs.drain(never);
      await room.system.clock.advance(5_000);
      expect(await endedOf(waits)).to.deep.include({
        status: "cancelled",
        code: "agent-restarted",
      });
      expect(await room.statusOf(runs)).to.equal("running");
      expect(await refusedWith(room.jobs.start("free", {}, null))).to.equal("shutting-down");
      room.demo.run(0).finish();
      await room.rest();
      await drained;
      expect(await room.statusOf(runs)).to.equal("completed");
    });

    it("stops those that run after 10 s, or when it is hurried", async () => {
      const id = await room.start("free");
      const hurry = new AbortController();
      const drained = room.jobs.drain(hurry.signal);
      await room.system.clock.advance(9_999);
      expect(await room.statusOf(id)).to.equal("running");
      hurry.abort();
      await room.rest();
      expect(await room.statusOf(id)).to.equal("cancelling");
      room.demo.run(0).fail(new Error("stopped"));
      await room.rest();
      await drained;
      expect(await endedOf(id)).to.deep.include({
        status: "cancelled",
        code: "agent-restarted",
      });
    });

    it("does not wait for ever for work that does not stop", async () => {
      await room.start("free");
      const drained = room.jobs.drain(never);
      await room.system.clock.advance(10_000);
      await room.system.clock.advance(15_000);
      await drained;
      expect(room.system.text()).to.include("still under way after the drain");
    });

    it("is over at once when nothing is under way", async () => {
      await room.jobs.drain(never);
    });
  });
});
