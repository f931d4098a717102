import { expect } from "chai";
import { HostAgentError } from "../../../protocol/host-agent/errors.ts";
import { type JobRoom, jobRoom, linesOf, refusedWith } from "../../support/job-room.ts";

describe("Jobs", () => {
  let room: JobRoom;

  beforeEach(async () => {
    room = await jobRoom({
      kinds: (demo) => [
        demo.kind("free"),
        demo.kind("install", { resourceClass: "apt" }),
        demo.kind("upgrade", { resourceClass: "apt", whenBusy: "reject" }),
        demo.kind("format", { resourceClass: "disk", dangerous: true }),
      ],
    });
  });
  afterEach(() => room[Symbol.asyncDispose]());

  it("are running when their class is free, with an id, a kind and a time", async () => {
    const view = await room.jobs.start("install", {}, null);
    expect(view).to.deep.equal({
      job_id: view.job_id,
      kind: "install",
      status: "running",
      started_at: "2026-01-01T00:00:00.000Z",
    });
    expect(view.job_id).to.match(/^j_[0-9a-f]{16}$/);
    expect(await room.jobs.get(view.job_id)).to.deep.equal(view);
  });

  it("are completed with the result of their work, and stay so", async () => {
    const id = await room.start("free");
    room.demo.run(0).tools.progress(0.25);
    await room.system.clock.advance(1_500);
    room.demo.run(0).finish({ packages: 3 });
    await room.rest();
    const view = await room.jobs.get(id);
    expect(view).to.deep.equal({
      job_id: id,
      kind: "free",
      status: "completed",
      progress: 0.25,
      started_at: "2026-01-01T00:00:00.000Z",
      finished_at: "2026-01-01T00:00:01.500Z",
      result: { packages: 3 },
    });
    expect(await room.jobs.cancel(id)).to.deep.equal(view);
  });

  it("show progress that only grows, from 0 to 1", async () => {
    const id = await room.start("free");
    const shown: (number | undefined)[] = [];
    for (const fraction of [0, 0.5, 0.4, Number.NaN, -1, 2]) {
      room.demo.run(0).tools.progress(fraction);
      shown.push((await room.jobs.get(id)).progress);
    }
    expect(shown).to.deep.equal([0, 0.5, 0.5, 0.5, 0.5, 1]);
  });

  it("fail with what their work says, and with no word of anything else that it threw", async () => {
    const known = await room.start("free");
    room.demo.run(0).fail(new HostAgentError("auth-failed"));
    const unknown = await room.start("free");
    room.demo.run(1).fail(new Error("/etc/malmo/secrets"));
    await room.rest();
    expect((await room.jobs.get(known)).error?.code).to.equal("auth-failed");
    const view = await room.jobs.get(unknown);
    expect(view.status).to.equal("failed");
    expect(view.error).to.deep.equal({ code: "job-failed", message: "the job failed" });
    expect(room.system.text()).not.to.include("secrets");
  });

  it("have their credentials zeroed when they have ended, and in no record", async () => {
    await room.start("free");
    const { password, finish } = room.demo.run(0);
    expect(String(password)).to.equal("sesame");
    finish();
    await room.rest();
    expect([...password]).to.deep.equal([0, 0, 0, 0, 0, 0]);
    expect(JSON.stringify([...room.receipts.disk])).not.to.include("sesame");
    expect(room.system.text()).not.to.include("sesame");
  });

  it("are not made of a kind that there is not, or of a body that the kind refuses", async () => {
    expect(await refusedWith(room.jobs.start("unknown", {}, null))).to.equal("not-found");
    expect(await refusedWith(room.jobs.start("free", "bad", null))).to.equal("bad-request");
    expect(room.receipts.disk.size).to.equal(0);
  });

  it("are unknown under any other id", async () => {
    for (const id of ["j_0123456789abcdef", "system-update", "", "j_ABC", "x".repeat(500)]) {
      expect(await refusedWith(room.jobs.get(id)), id).to.equal("unknown-job");
      expect(await refusedWith(room.jobs.cancel(id)), id).to.equal("unknown-job");
      expect(await refusedWith(room.jobs.log(id, null)), id).to.equal("unknown-job");
    }
  });

  it("wait for one of their class, with a position that only falls", async () => {
    const [, second, third] = [
      await room.start("install"),
      await room.start("install"),
      await room.start("install"),
    ];
    const { started_at, ...waiting } = await room.jobs.get(third);
    expect(waiting).to.deep.equal({
      job_id: third,
      kind: "install",
      status: "queued",
      queue_position: 2,
    });
    expect(started_at).to.equal(undefined);
    expect(room.demo.runs).to.have.length(1);
    room.demo.run(0).finish();
    await room.rest();
    expect(await room.statusOf(second)).to.equal("running");
    expect((await room.jobs.get(third)).queue_position).to.equal(1);
  });

  it("run beside each other when they are of class none", async () => {
    await Promise.all(Array.from({ length: 5 }, () => room.jobs.start("free", {}, null)));
    await room.rest();
    expect(room.demo.runs).to.have.length(5);
  });

  it("wait all for a dangerous one, which waits for all", async () => {
    const before = await room.start("free");
    const danger = await room.start("format");
    const after = await room.start("free");
    expect(await room.statusOf(danger)).to.equal("queued");
    expect((await room.jobs.get(after)).queue_position).to.equal(2);
    room.demo.run(0).finish();
    await room.rest();
    expect(await room.statusOf(before)).to.equal("completed");
    expect(await room.statusOf(danger)).to.equal("running");
    expect(await room.statusOf(after)).to.equal("queued");
    room.demo.run(1).finish();
    await room.rest();
    expect(await room.statusOf(after)).to.equal("running");
  });

  it("are refused while one of a kind that does not wait has not ended", async () => {
    const first = await room.start("upgrade");
    const refusal = await room.jobs.start("upgrade", {}, null).catch((thrown: unknown) => thrown);
    expect(refusal).to.be.instanceOf(HostAgentError);
    expect(refusal).to.include({
      code: "job-running",
      status: 409,
      message: `a job is already running: ${first}`,
    });
    room.demo.run(0).finish();
    await room.rest();
    expect((await room.jobs.start("upgrade", {}, null)).status).to.equal("running");
  });

  it("of a kind that does not wait do wait for other kinds, and are refused while one waits", async () => {
    await room.start("install");
    const waiting = await room.start("upgrade");
    expect(await room.statusOf(waiting)).to.equal("queued");
    expect(await refusedWith(room.jobs.start("upgrade", {}, null))).to.equal("job-running");
  });

  it("are refused when 256 wait or run, and accepted when one has ended", async () => {
    await Promise.all(Array.from({ length: 256 }, () => room.jobs.start("free", {}, null)));
    expect(await refusedWith(room.jobs.start("free", {}, null))).to.equal("too-many-jobs");
    await room.rest();
    room.demo.run(0).finish();
    await room.rest();
    expect((await room.jobs.start("free", {}, null)).status).to.equal("running");
  });

  it("are listed, the latest first, those that have ended too", async () => {
    const ids: string[] = [];
    for (const kind of ["install", "install", "free"]) {
      ids.unshift(await room.start(kind));
      await room.system.clock.advance(1);
    }
    room.demo.run(0).finish();
    await room.rest();
    const list = await room.jobs.list();
    expect(list.map(({ job_id }) => job_id)).to.deep.equal(ids);
    expect(list.map(({ status }) => status)).to.deep.equal(["running", "running", "completed"]);
  });

  it("are listed with no more than the last 256 that have ended", async () => {
    for (let n = 0; n < 260; n += 1) {
      await room.start("free");
      room.demo.run(n).finish();
      await room.system.clock.advance(1);
    }
    const running = await room.start("free");
    const list = await room.jobs.list();
    expect(list).to.have.length(257);
    expect(list[0]?.job_id).to.equal(running);
  });

  describe("that run or have run", () => {
    it("are followed by many readers to their end", async () => {
      const id = await room.start("free");
      const readers = await Promise.all([room.jobs.log(id, null), room.jobs.log(id, null)]);
      const heard = Promise.all(readers.map(linesOf));
      room.demo.run(0).tools.log("stdout", "one");
      room.demo.run(0).tools.log("stderr", "two");
      await room.rest();
      room.demo.run(0).finish();
      expect(await heard).to.deep.equal([
        ["one", "two"],
        ["one", "two"],
      ]);
      expect(await room.statusOf(id)).to.equal("completed");
    });

    it("have their log replayed behind the last event, and ended", async () => {
      const id = await room.start("free");
      for (const line of ["one", "two", "three"]) room.demo.run(0).tools.log("stdout", line);
      room.demo.run(0).finish();
      await room.rest();
      expect(await linesOf(await room.jobs.log(id, 1))).to.deep.equal(["two", "three"]);
    });

    it("have their log kept for the last sixteen, and said to be lost after that", async () => {
      const ids: string[] = [];
      for (let n = 0; n < 17; n += 1) {
        ids.push(await room.start("free"));
        room.demo.run(n).tools.log("stdout", `job ${n}`);
        room.demo.run(n).finish();
        await room.rest();
      }
      expect(await linesOf(await room.jobs.log(ids[0] ?? "", null))).to.deep.equal([null]);
      expect(await linesOf(await room.jobs.log(ids[1] ?? "", null))).to.deep.equal(["job 1"]);
    });

    it("take no line and no progress behind their end", async () => {
      const id = await room.start("free");
      const { tools, finish } = room.demo.run(0);
      finish();
      await room.rest();
      tools.log("stdout", "late");
      tools.progress(1);
      expect(await linesOf(await room.jobs.log(id, null))).to.deep.equal([]);
      expect(await room.jobs.get(id)).not.to.have.property("progress");
      expect(await refusedWith(tools.spawn({ argv: ["true"] }))).to.equal("job-failed");
    });

    it("keep a result that is no longer than 64 KiB as JSON has it", async () => {
      const short = await room.start("free");
      room.demo.run(0).finish({ at: new Date(0), nothing: undefined });
      const long = await room.start("free");
      room.demo.run(1).finish({ text: "x".repeat(65_536) });
      await room.rest();
      expect((await room.jobs.get(short)).result).to.deep.equal({ at: "1970-01-01T00:00:00.000Z" });
      expect((await room.jobs.get(long)).result).to.deep.equal({});
    });
  });

  it("have an actor each while they run, and none afterwards", async () => {
    const actors = (): number => room.system.snapshot().children[0]?.children.length ?? 0;
    expect(actors()).to.equal(1);
    await room.start("free");
    await room.start("free");
    expect(actors()).to.equal(3);
    for (const { finish } of room.demo.runs) finish();
    await room.rest();
    expect(actors()).to.equal(1);
  });
});
