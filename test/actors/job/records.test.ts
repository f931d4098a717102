import { expect } from "chai";
import type { JobState } from "../../../actors/job/state.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { HostAgentError } from "../../../protocol/host-agent/errors.ts";
import {
  type JobRoom,
  type JobRoomOptions,
  jobRoom,
  linesOf,
  refusedWith,
} from "../../support/job-room.ts";
import type { Disk } from "../../support/memory-receipts.ts";

describe("The record of a job", () => {
  const rooms: JobRoom[] = [];
  let disk: Disk<JobState>;

  /** A life of the agent over the same disk. */
  async function life(options: Partial<JobRoomOptions> = {}): Promise<JobRoom> {
    const room = await jobRoom({
      disk,
      generation: rooms.length + 1,
      kinds: (demo) => [
        demo.kind("free"),
        demo.kind("install", { resourceClass: "apt" }),
        demo.kind("upgrade", { resourceClass: "apt", whenBusy: "reject" }),
        demo.kind("format", { resourceClass: "disk", dangerous: true }),
      ],
      ...options,
    });
    rooms.push(room);
    return room;
  }

  beforeEach(() => {
    disk = new Map();
  });
  afterEach(async () => {
    for (const room of rooms.splice(0)) await room[Symbol.asyncDispose]();
  });

  it("is on disk before the first step, as admitted and then as started", async () => {
    const room = await life();
    const phases: unknown[] = [];
    room.demo.work = async () => {
      phases.push([...disk.values()].map(({ receipt }) => receipt.state.phase));
      return {};
    };
    room.receipts.hold((operation) => operation === "admit");
    const started = room.jobs.start("free", {}, null);
    await room.rest();
    expect(phases).to.deep.equal([]);
    room.receipts.hold((operation) => operation === "advance");
    for (const held of room.receipts.held.splice(0)) held.go();
    const { job_id } = await started;
    await room.rest();
    expect(phases).to.deep.equal([]);
    expect(disk.get(job_id)?.receipt.state.phase).to.equal("queued");
    room.receipts.letGo();
    await room.rest();
    expect(phases).to.deep.equal([["started"]]);
    expect(disk.get(job_id)?.receipt.state.phase).to.equal("ended");
  });

  it("shows no end before that is on disk", async () => {
    const room = await life();
    const id = await room.start("free");
    room.receipts.hold((operation) => operation === "advance");
    room.demo.run(0).finish();
    await room.rest();
    expect(await room.statusOf(id)).to.equal("running");
    room.receipts.letGo();
    await room.rest();
    expect(await room.statusOf(id)).to.equal("completed");
  });

  it("survives a restart: what had ended, what had started, and what had not", async () => {
    const before = await life();
    const completed = await before.start("free", { n: 1 });
    before.demo.run(0).finish({ n: 1 });
    await before.rest();
    await before.system.clock.advance(1_000);
    const failed = await before.start("free");
    before.demo.run(1).fail(new HostAgentError("auth-failed"));
    await before.rest();
    await before.system.clock.advance(1_000);
    const cut = await before.start("install");
    await before.system.clock.advance(1_000);
    const waiting = await before.start("install");
    const ended = await before.jobs.get(completed);

    const after = await life();
    expect(await after.jobs.get(completed)).to.deep.equal(ended);
    expect((await after.jobs.get(failed)).error?.code).to.equal("auth-failed");
    const unknown = await after.jobs.get(cut);
    expect(unknown.status).to.equal("outcome_unknown");
    expect(unknown.error?.code).to.equal("outcome-unknown");
    expect(unknown).to.have.property("started_at");
    const never = await after.jobs.get(waiting);
    expect(never.status).to.equal("cancelled");
    expect(never.error?.code).to.equal("agent-restarted");
    expect(never).not.to.have.property("started_at");
    expect(after.demo.runs).to.have.length(0);
    expect((await after.jobs.list()).map(({ job_id }) => job_id)).to.deep.equal([
      waiting,
      cut,
      failed,
      completed,
    ]);
    expect((await after.jobs.cancel(cut)).status).to.equal("outcome_unknown");
  });

  it("tells after a restart that the log of what had started is lost", async () => {
    const before = await life();
    const cut = await before.start("install");
    const waiting = await before.start("install");
    const after = await life();
    expect(await linesOf(await after.jobs.log(cut, 3))).to.deep.equal([null]);
    expect(await linesOf(await after.jobs.log(waiting, null))).to.deep.equal([]);
  });

  it("lists new jobs before those of earlier lives, each once", async () => {
    const before = await life();
    const old = await before.start("free");
    const after = await life();
    await after.system.clock.advance(5_000);
    const fresh = await after.start("free");
    after.demo.run(0).finish();
    await after.rest();
    const list = await after.jobs.list();
    expect(list.map(({ job_id }) => job_id)).to.deep.equal([fresh, old]);
    expect(list.map(({ status }) => status)).to.deep.equal(["completed", "outcome_unknown"]);
  });

  describe("with an idempotency key", () => {
    it("is one for the same key and body, however the body's names are ordered", async () => {
      const room = await life();
      const first = await room.jobs.start("free", { a: 1, b: [{ c: 2, d: 3 }] }, "key-1");
      const again = await room.jobs.start("free", { b: [{ d: 3, c: 2 }], a: 1 }, "key-1");
      expect(again.job_id).to.equal(first.job_id);
      await room.rest();
      expect(room.demo.runs).to.have.length(1);
      room.demo.run(0).finish({ n: 1 });
      await room.rest();
      const ended = await room.jobs.start("free", { a: 1, b: [{ c: 2, d: 3 }] }, "key-1");
      expect(ended.status).to.equal("completed");
      expect(ended.result).to.deep.equal({ n: 1 });
    });

    it("is refused to another body or another kind, and nothing is started", async () => {
      const room = await life();
      await room.jobs.start("free", { a: 1 }, "key-1");
      await room.rest();
      for (const [kind, body] of [
        ["free", { a: 2 }],
        ["free", { a: "1" }],
        ["install", { a: 1 }],
      ] as const) {
        const refusal = await refusedWith(room.jobs.start(kind, body, "key-1"));
        expect(refusal).to.equal("idempotency-conflict");
      }
      await room.rest();
      expect(room.demo.runs).to.have.length(1);
      expect((await room.jobs.start("install", {}, null)).status).to.equal("running");
    });

    it("is one of all that ask at once, also of a kind that does not wait", async () => {
      const room = await life();
      for (const kind of ["free", "upgrade"]) {
        const views = await Promise.all(
          Array.from({ length: 20 }, () => room.jobs.start(kind, {}, `at-once-${kind}`)),
        );
        expect(new Set(views.map(({ job_id }) => job_id)).size).to.equal(1);
      }
      await room.rest();
      expect(room.demo.runs).to.have.length(2);
    });

    it("is the same job after a restart, and is not run again", async () => {
      const before = await life();
      const { job_id } = await before.jobs.start("upgrade", { a: 1 }, "key-1");
      await before.rest();
      const after = await life();
      const again = await after.jobs.start("upgrade", { a: 1 }, "key-1");
      expect(again).to.include({ job_id, status: "outcome_unknown" });
      expect(await refusedWith(after.jobs.start("upgrade", { a: 2 }, "key-1"))).to.equal(
        "idempotency-conflict",
      );
      await after.rest();
      expect(after.demo.runs).to.have.length(0);
    });

    it("is another with another key, and with none", async () => {
      const room = await life();
      const ids = [
        await room.jobs.start("free", {}, "a"),
        await room.jobs.start("free", {}, "b"),
        await room.jobs.start("free", {}, null),
        await room.jobs.start("free", {}, null),
      ].map(({ job_id }) => job_id);
      expect(new Set(ids).size).to.equal(4);
    });

    it("can be used again when its admission was refused", async () => {
      const room = await life();
      room.receipts.fail((operation) =>
        operation === "admit" ? new LemonError("no_space") : null,
      );
      const refusal = await room.jobs.start("install", {}, "key-1").catch((e: unknown) => e);
      expect(refusal).to.include({ code: "unavailable", status: 503 });
      expect(String(refusal)).to.include("no_space");
      room.receipts.fail(undefined);
      expect((await room.jobs.start("install", {}, "key-1")).status).to.equal("running");
    });
  });

  describe("in a store that does not answer", () => {
    it("is an error to read, to list and to start, and never an unknown job", async () => {
      const room = await life();
      room.receipts.goAway();
      const id = "j_0123456789abcdef";
      expect(await refusedWith(room.jobs.get(id))).to.equal("unavailable");
      expect(await refusedWith(room.jobs.list())).to.equal("unavailable");
      expect(await refusedWith(room.jobs.start("free", {}, null))).to.equal("unavailable");
      expect(await refusedWith(room.jobs.start("free", {}, "key"))).to.equal("unavailable");
      room.receipts.comeBack();
      expect(await refusedWith(room.jobs.get(id))).to.equal("unknown-job");
      expect(await room.jobs.list()).to.deep.equal([]);
      expect((await room.jobs.start("free", {}, "key")).status).to.equal("running");
    });

    it("has its end stored when the store is back; until then its class is held", async () => {
      const room = await life();
      const id = await room.start("install");
      room.receipts.goAway();
      room.demo.run(0).finish({ n: 1 });
      await room.rest();
      expect(await room.statusOf(id)).to.equal("running");
      room.receipts.comeBack();
      await room.rest();
      expect(await room.statusOf(id)).to.equal("completed");
    });

    it("fails with nothing done when its start can not be stored", async () => {
      const room = await life();
      let refused = 0;
      room.receipts.fail((operation) => {
        if (operation !== "advance" || refused > 0) return null;
        refused += 1;
        return new LemonError("receipt_store_unavailable");
      });
      const id = await room.start("install");
      const view = await room.jobs.get(id);
      expect(view.status).to.equal("failed");
      expect(view.error?.code).to.equal("unavailable");
      expect(room.demo.runs).to.have.length(0);
      await room.start("install");
      expect(room.demo.runs).to.have.length(1);
    });

    it("reads as unknown when its end can not be stored in this life", async () => {
      const room = await life();
      const id = await room.start("install");
      room.receipts.fail((operation) =>
        operation === "advance" ? new LemonError("receipt_store_damaged") : null,
      );
      room.demo.run(0).finish();
      await room.rest();
      expect(await room.statusOf(id)).to.equal("outcome_unknown");
      expect(disk.get(id)?.receipt.state.phase).to.equal("started");
    });
  });
});
