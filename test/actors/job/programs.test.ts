import { expect } from "chai";
import type { JobTools } from "../../../actors/job/kind.ts";
import type { JobResult } from "../../../actors/job/messages.ts";
import type { SystemSpawner } from "../../../host/spawner.ts";
import { HostAgentError } from "../../../protocol/host-agent/errors.ts";
import { type JobRoom, jobRoom, linesOf } from "../../support/job-room.ts";
import { spawnerOf } from "../../support/native-run.ts";
import { testSystem } from "../../support/supervision.ts";

const run = async (tools: JobTools, script: string): Promise<JobResult> => {
  const { exitCode } = await tools.spawn({ argv: ["sh", "-c", script] });
  if (exitCode !== 0) throw new HostAgentError("update-failed");
  return { exitCode };
};

describe("A job that runs programs", () => {
  let spawner: SystemSpawner;
  let room: JobRoom;
  let made: number;

  beforeEach(async () => {
    const system = testSystem();
    const { clock } = system;
    made = 0;
    let only: SystemSpawner | null = null;
    room = await jobRoom({
      system,
      kinds: (demo) => [demo.kind("upgrade", { resourceClass: "apt" })],
      ground: {
        spawner: () => {
          made += only === null ? 1 : 0;
          only ??= spawnerOf("subreaper", { clock });
          spawner = only;
          return only;
        },
      },
    });
  });
  afterEach(async () => {
    await room[Symbol.asyncDispose]();
    if (made > 0) await spawner.close();
  });

  /** Starts a job that does this, and follows its log to the end. */
  async function follow(work: (tools: JobTools) => Promise<JobResult>): Promise<{
    readonly id: string;
    readonly lines: Promise<(string | null)[]>;
    readonly first: Promise<unknown>;
  }> {
    room.demo.work = work;
    const id = await room.start("upgrade");
    const reader = await room.jobs.log(id, null);
    const follower = await room.jobs.log(id, null);
    return { id, lines: linesOf(reader), first: follower.next() };
  }

  it("has their output in its log, line by line, before its end", async () => {
    const { id, lines } = await follow((tools) => run(tools, "echo one; echo two >&2"));
    expect([...(await lines)].sort()).to.deep.equal(["one", "two"]);
    expect(await room.jobs.get(id)).to.deep.include({
      status: "completed",
      result: { exitCode: 0 },
    });
  });

  it("fails with what its kind makes of a bad exit", async () => {
    const { id, lines } = await follow((tools) => run(tools, "exit 100"));
    await lines;
    expect((await room.jobs.get(id)).error?.code).to.equal("update-failed");
  });

  it("needs nothing of the machine before its first program", async () => {
    const { lines } = await follow(async () => ({}));
    await lines;
    expect(made).to.equal(0);
  });

  it("is completed when its program ends well on SIGTERM, and cancelled when it does not", async () => {
    for (const [exit, status] of [
      [0, "completed"],
      [9, "cancelled"],
    ] as const) {
      const script = `trap 'exit ${exit}' TERM; echo up; while :; do sleep 0.01; done`;
      const { id, lines, first } = await follow((tools) => run(tools, script));
      await first;
      await room.jobs.cancel(id);
      await lines;
      expect((await room.jobs.get(id)).status).to.equal(status);
    }
  });

  it("is cancelled when its program had to be killed, whatever its kind makes of that", async () => {
    const { id, lines, first } = await follow(async (tools) => {
      await tools.spawn({ argv: ["sh", "-c", "trap '' TERM; echo up; sleep 1000; sleep 1000"] });
      return { done: true };
    });
    await first;
    await room.jobs.cancel(id);
    await room.system.clock.advance(10_000);
    await lines;
    expect(await room.jobs.get(id)).to.include({ status: "cancelled" });
  });

  it("runs none any more once it was told to stop", async () => {
    const refused: unknown[] = [];
    const { id, lines, first } = await follow(async (tools) => {
      await tools.spawn({ argv: ["sh", "-c", "echo up; exec sleep 1000"] });
      await tools.spawn({ argv: ["echo", "more"] }).catch((failure) => refused.push(failure));
      throw new Error("stopped");
    });
    await first;
    await room.jobs.cancel(id);
    expect(await lines).to.deep.equal(["up"]);
    expect(refused).to.have.length(1);
    expect((await room.jobs.get(id)).status).to.equal("cancelled");
  });

  it("has ended only when a program has that its kind did not wait for", async () => {
    const isUp = Promise.withResolvers<void>();
    const { id, lines, first } = await follow(async (tools) => {
      void tools.spawn({
        argv: ["sh", "-c", "trap 'echo last; exit' TERM; echo up; while :; do sleep 0.01; done"],
      });
      await isUp.promise;
      return {};
    });
    await first;
    isUp.resolve();
    expect(await lines).to.include.members(["up", "last"]);
    expect((await room.jobs.get(id)).status).to.equal("completed");
  });

  it("leaves no failure of a program unhandled that its kind did not wait for", async () => {
    const { id, lines } = await follow(async (tools) => {
      void tools.spawn({ argv: ["lemon-no-such-program"] });
      return {};
    });
    await lines;
    expect((await room.jobs.get(id)).status).to.equal("completed");
  });
});
