/**
 * Proves the host-agent's client and the reconciler against the real role, whose process is killed, ended and
 * started again under them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "chai";
import { HostAgent } from "../../../client/host-agent/index.ts";
import { Reconciler } from "../../../client/reconciler/index.ts";
import type { RoleProcess } from "../../support/role-process.ts";
import { RoleStage } from "../../support/role-stage.ts";

const READER = join(import.meta.dirname, "../../support/log-reader-program.ts");

describe("a brain on the real host-agent", () => {
  let stage: RoleStage;
  let path: string;
  let host: HostAgent;
  const readers: ChildProcess[] = [];

  beforeEach(() => {
    stage = new RoleStage();
    path = join(stage.path, "run", "agent.sock");
    host = new HostAgent({ socketPath: path });
  });
  afterEach(async () => {
    host.close();
    for (const reader of readers.splice(0)) reader.kill("SIGKILL");
    await stage[Symbol.asyncDispose]();
  });

  async function agent(jobMs: number): Promise<RoleProcess> {
    const state = join(stage.path, "state.json");
    const words = ["--fake-job-ms", String(jobMs), "--state", state];
    const role = stage.role(
      ["host-agent", "--fake", "--socket", path, ...words],
      join(stage.path, "home"),
    );
    await role.said("ready");
    return role;
  }

  /** Follows in a process of its own, until it has the frame `last` and is killed, or the log ends. */
  async function read(id: string, after: string | undefined, last?: string): Promise<string[]> {
    const words = [READER, path, id, ...(after === undefined ? [] : [after])];
    const reader = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
    readers.push(reader);
    const closed = once(reader, "close");
    const ids: string[] = [];
    for await (const frame of createInterface(reader.stdout)) {
      ids.push(frame);
      if (frame === last) reader.kill("SIGKILL");
    }
    await closed;
    expect(reader.signalCode).to.equal(last === undefined ? null : "SIGKILL");
    return ids;
  }

  it("goes on with a job's log where a brain before it was killed", async () => {
    await agent(3_000);
    const job = await host.start("systemUpdate", {});
    const before = await read(job.id, undefined, "2");
    const after = await read(job.id, before.at(-1));
    expect([...before, ...after]).to.deep.equal(["1", "2", "3", "4", "5", "6", "7"]);
    expect((await job.ended()).status).to.equal("completed");
  });

  it("sees the progress of a job, and its end when it cancels it", async () => {
    await agent(60_000);
    const job = await host.start("systemUpdate", {}, { idempotencyKey: "update:1" });
    const seen: string[] = [];
    const ended = job.ended({
      onProgress: ({ status }) => {
        seen.push(status);
        if (seen.length === 1) void job.cancel();
      },
    });
    expect((await ended).status).to.equal("cancelled");
    expect(seen[0]).to.equal("running");
    const again = await host.start("systemUpdate", {}, { idempotencyKey: "update:1" });
    expect(again.view).to.include({ job_id: job.id, status: "cancelled" });
  });

  it("waits over a killed host-agent for what became of a job, and follows a container on", async () => {
    const first = await agent(600_000);
    const job = await host.start("systemUpdate", {});
    const ended = job.ended();
    const lines = host.stream("journalFollow", { query: { container: "malmo-photos-main" } });
    expect((await lines.next()).value?.data).to.have.property("line");
    await first.end("SIGKILL");
    await agent(600_000);
    const { status, error } = await ended;
    expect(status).to.equal("outcome_unknown");
    expect(error).to.include({ code: "outcome-unknown" });
    // What was read before the kill is still given out; then the gap, then what is new.
    let data = (await lines.next()).value?.data;
    while (data !== undefined && "line" in data) data = (await lines.next()).value?.data;
    expect(data).to.deep.equal({ lost: true });
    expect((await lines.next()).value?.data).to.have.property("line");
    await lines.return(undefined);
  });

  it("waits over a host-agent that ends in order, which lets the job end before", async () => {
    const first = await agent(1_500);
    const job = await host.start("systemUpdate", {});
    const ended = job.ended();
    const lines = host.stream("journalFollow", { query: { container: "malmo-photos-main" } });
    await lines.next();
    expect(await first.end("SIGTERM")).to.equal(0);
    await agent(1_500);
    expect((await ended).status).to.equal("completed");
    let data = (await lines.next()).value?.data;
    while (data !== undefined && "line" in data) data = (await lines.next()).value?.data;
    expect(data).to.deep.equal({ lost: true });
    await lines.return(undefined);
  });

  it("keeps the host to what it wants over a host-agent that is killed in between", async () => {
    const first = await agent(1_000);
    const reconciler = new Reconciler({ path: join(stage.path, "brain.db"), host });
    try {
      const address = { mode: "static" as const, address: "192.0.2.8/24", dns: ["192.0.2.53"] };
      for (const set of [
        await reconciler.set("services/samba", { enabled: true }),
        await reconciler.set("network/connections/ethernet-1", address),
        await reconciler.set("time/zone", "Europe/Stockholm"),
      ]) {
        expect(set.state, set.key).to.equal("in_effect");
      }
      // In the very moment of a change; then while nobody is there.
      const cut = reconciler.set("host/hostname", "attic");
      const gone = first.end("SIGKILL");
      expect((await cut).state).to.be.oneOf(["in_effect", "pending"]);
      await gone;
      expect((await reconciler.set("services/ssh", { enabled: false })).state).to.equal("pending");
      const refused = await reconciler.begin("reboot", {}).catch((failure: unknown) => failure);
      expect(refused).to.include({ code: "unreachable", mutationMayHaveApplied: false });
      const away = await reconciler.pass();
      expect(away.reachable).to.equal(false);
      // Nothing was sent of it, so there is nothing that could have been interrupted.
      expect(away.operations).to.deep.equal([]);

      await agent(1_000);
      const back = await reconciler.pass();
      expect(back.settings.map(({ state }) => state)).to.deep.equal(Array(5).fill("in_effect"));
      expect(back.refused).to.deep.equal([]);
      await host.call("serviceDisable", { params: { name: "samba" }, body: {} });
      const drift = (await reconciler.pass()).settings.filter(({ state }) => state === "drift");
      expect(drift.map(({ key }) => key)).to.deep.equal(["services/samba"]);
      expect((await host.call("jobList")).jobs).to.deep.equal([]);
    } finally {
      await reconciler.close();
    }
  });
});
