import { expect } from "chai";
import { pino } from "pino";
import { type RunProtocol, runActor } from "../../../actors/process-run/run-actor.ts";
import { Runs } from "../../../actors/process-run/runs.ts";
import { type ProcessState, processRuns } from "../../../actors/process-run/state.ts";
import { pinRoots } from "../../../host/allowed-roots.ts";
import { readProcessRow } from "../../../host/process-table.ts";
import type { NativeProcess, OutputSink, Spawner, SpawnSpec } from "../../../host/spawner.ts";
import { processRunRequest } from "../../../protocol/process.ts";
import { FakeSpawner } from "../../support/fake-spawner.ts";
import { MemoryReceipts } from "../../support/memory-receipts.ts";
import { identityOf, spawnerOf } from "../../support/native-run.ts";
import { NODE_ID, processRoom, request } from "../../support/process-room.ts";
import { refusalOf } from "../../support/refusal.ts";
import { testSystem } from "../../support/supervision.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Its processes can be started, and then everything about them fails. */
class BrokenSpawner extends FakeSpawner {
  override async start(spec: SpawnSpec, sink: OutputSink): Promise<NativeProcess> {
    const process = await super.start(spec, sink);
    process.clear = () => Promise.reject(new TypeError("a defect"));
    return process;
  }
}

describe("a run that may not be stopped", () => {
  it("is an error for whoever asks, never a receipt of a cancel; what became of it is unknown", async () => {
    let forbidden = true;
    const spawner = spawnerOf("subreaper", {
      killGroup(leader, signal) {
        if (forbidden) throw Object.assign(new Error("no"), { code: "EPERM" });
        process.kill(-leader, signal);
      },
    });
    let pid = 0;
    const watching: Spawner = {
      prepare: () => spawner.prepare(),
      async start(spec, sink) {
        const started = await spawner.start(spec, sink);
        pid = started.pid;
        return started;
      },
      close: () => spawner.close(),
    };
    await using room = await processRoom({ spawner: watching });
    const run = request(["sleep", "600"]);
    const about = { processId: run.processId };
    const first = refusalOf(() => room.service.run(run));
    while (pid === 0) await nextTurn();
    const refusal = await refusalOf(() => room.service.cancel(about));
    expect(refusal).to.include({ code: "process_stop_failed", mutationMayHaveApplied: true });
    expect((await first).code).to.equal("process_stop_failed");
    expect(await room.service.get(about)).to.include({ state: "outcome_unknown", exitCode: null });
    expect(await room.service.cancel(about)).to.include({ state: "outcome_unknown" });
    expect(identityOf(pid).pid).to.equal(pid);
    forbidden = false;
    // It is still known: the end of the worker tries again.
    await spawner.close();
    expect(readProcessRow(pid)).to.equal(null);
  });
});

describe("a run that leaves behind what can not be ended", () => {
  it("is told as it ended; the operator is warned, without a word about the run", async () => {
    const spawner = new (class extends FakeSpawner {
      override async start(spec: SpawnSpec, sink: OutputSink): Promise<NativeProcess> {
        const process = await super.start(spec, sink);
        process.clear = async () => false;
        return process;
      }
    })();
    await using room = await processRoom({ spawner });
    const run = room.service.run(request(["/x"]));
    while (spawner.started.length === 0) await nextTurn();
    spawner.started[0]?.end({ code: 4, signal: null });
    expect(await run).to.include({ state: "completed", exitCode: 4 });
    const warnings = room.logged.lines.filter(({ level }) => Number(level) >= 40);
    expect(warnings.map((line) => Object.keys(line).sort())).to.deep.equal([
      ["level", "msg", "time"],
    ]);
    expect(warnings[0]?.["msg"]).to.match(/could not be ended/);
  });
});

describe("a defect in the middle of a run", () => {
  it("ends the actor, leaves the outcome unknown, and touches no other run", async () => {
    const spawner = new BrokenSpawner();
    await using room = await processRoom({ spawner });
    const run = request(["/x"]);
    const first = refusalOf(() => room.service.run(run));
    while (spawner.started.length === 0) await nextTurn();
    spawner.started[0]?.end({ code: 0, signal: null });
    expect(await first).to.include({ code: "actor_crashed", mutationMayHaveApplied: true });
    const about = { processId: run.processId };
    expect(await room.service.get(about)).to.include({ state: "outcome_unknown", exitCode: null });
    expect(await room.service.run(run)).to.include({ state: "outcome_unknown" });
    expect(spawner.started.length).to.equal(1);
    const refused = request(["true"], { processId: "other" });
    await room.service.cancel({ processId: "other" });
    expect(await room.service.run(refused)).to.include({ state: "cancelled" });
  });

  it("of the actor itself stops the run and leaves its outcome unknown", async () => {
    using folder = tempFolder();
    using state = tempFolder();
    const system = testSystem();
    const spawner = new FakeSpawner();
    const receipts = new MemoryReceipts<ProcessState>(processRuns, 1);
    const runs = new Runs(NODE_ID, receipts, system.clock);
    const roots = pinRoots({
      roots: [folder.path],
      defaultCwd: folder.path,
      stateFolder: state.path,
    });
    const spec = runActor("run-1", "r", {
      generation: 1,
      receipts,
      runs,
      roots,
      spawner,
      clock: system.clock,
      log: pino({ enabled: false }),
      environment: {},
      onRun() {},
    });
    let crash = (_: unknown): void => {};
    const actor = await system.root.startActor<RunProtocol>({
      ...spec,
      start(context) {
        crash = (error) => context.crash(error);
        return spec.start(context);
      },
    });
    const run = processRunRequest.parse(request(["/x"], { processId: "r" }));
    const first = refusalOf(() => actor.ask("run", run, { deadlineMs: 60_000 }));
    while (spawner.started.length === 0) await nextTurn();
    crash(new TypeError("a defect"));
    expect((await first).code).to.equal("actor_crashed");
    await runs.idle();
    expect(spawner.started[0]?.over).to.equal(true);
    expect(receipts.disk.get("r")?.receipt.state.state).to.equal("outcome_unknown");
    roots.close();
    await system.shutdown();
  });
});
