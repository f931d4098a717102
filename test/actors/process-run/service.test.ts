import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { OUTCOME_UNKNOWN, TOMBSTONE } from "../../../actors/process-run/state.ts";
import type { SystemSpawner } from "../../../host/spawner.ts";
import { type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import type { ProcessReceipt } from "../../../protocol/process.ts";
import type { TreeNode } from "../../../supervision/actor.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { identityOf, MODES, PATH, shell, spawnerOf } from "../../support/native-run.ts";
import { NODE_ID, type ProcessRoom, processRoom, request } from "../../support/process-room.ts";
import { refusalOf } from "../../support/refusal.ts";

const text = (bytes: Uint8Array | null) => (bytes === null ? null : String(Buffer.from(bytes)));

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** A receipt with its bytes as text. */
function legible(receipt: ProcessReceipt) {
  return { ...receipt, stdout: text(receipt.stdout), stderr: text(receipt.stderr) };
}

describe("the process service of a node", () => {
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

  const gate = () => join(room.folder, "gate");
  /** Runs until the file appears, then exits with 5. */
  const gated = () => shell('echo up; while [ ! -e "$1" ]; do sleep 0.005; done; exit 5', gate());
  const openGate = () => writeFileSync(gate(), "");
  const absent = (processId: string) => ({
    processId,
    nodeId: NODE_ID,
    state: "not_found",
    exitCode: null,
    stdout: null,
    stderr: null,
    outputTruncated: true,
  });
  async function until(state: ProcessReceipt["state"], processId: string): Promise<void> {
    while ((await room.service.get({ processId })).state !== state) {
      await nextTurn();
    }
  }

  it("answers a run with exactly the seven fields of its receipt", async () => {
    const run = request(["cat"], { stdin: Buffer.from("Hello\n") });
    expect(legible(await room.service.run(run))).to.deep.equal({
      processId: run.processId,
      nodeId: NODE_ID,
      state: "completed",
      exitCode: 0,
      stdout: "Hello\n",
      stderr: "",
      outputTruncated: false,
    });
  });

  it("has the fence in the store before the program is started", async () => {
    room.receipts.hold((operation) => operation === "admit");
    const run = room.service.run(request(["true"]));
    while (room.receipts.held.length === 0) await nextTurn();
    expect(room.starts()).to.equal(0);
    room.receipts.letGo();
    expect((await run).state).to.equal("completed");
    expect(room.starts()).to.equal(1);
  });

  it("starts nothing when the fence can not be written", async () => {
    room.receipts.goAway();
    const run = request(["true"]);
    const refusal = await refusalOf(() => room.service.run(run));
    expect(refusal.code).to.equal("receipt_store_unavailable");
    expect((await refusalOf(() => room.service.get(run))).code).to.equal("invalid_params");
    const { processId } = run;
    expect((await refusalOf(() => room.service.get({ processId }))).code).to.equal(
      "receipt_store_unavailable",
    );
    expect((await refusalOf(() => room.service.cancel({ processId }))).code).to.equal(
      "receipt_store_unavailable",
    );
    expect(room.starts()).to.equal(0);
    room.receipts.comeBack();
    expect(await room.service.get({ processId })).to.deep.equal(absent(processId));
    expect((await room.service.run(run)).state).to.equal("completed");
  });

  it("tells no absence unless a strict read found nothing", async () => {
    expect(await room.service.get({ processId: "never:used" })).to.deep.equal(absent("never:used"));
    expect(room.receipts.done).to.deep.equal([{ operation: "read", id: "never:used" }]);
    room.receipts.fail(() => new LemonError("receipt_store_damaged"));
    const refusal = await refusalOf(() => room.service.get({ processId: "never:used" }));
    expect(refusal.code).to.equal("receipt_store_damaged");
  });

  describe("validates again", () => {
    const invalid: readonly (readonly [string, Readonly<Record<string, unknown>>, ErrorCode])[] = [
      ["an id with a slash", { processId: "a/b" }, "invalid_params"],
      ["an empty id", { processId: "" }, "invalid_params"],
      ["an id of 129 characters", { processId: "x".repeat(129) }, "invalid_params"],
      ["no arguments", { argv: [] }, "invalid_params"],
      ["129 arguments", { argv: Array.from({ length: 129 }, () => "x") }, "invalid_params"],
      ["an empty program", { argv: ["", "x"] }, "invalid_params"],
      ["a relative program", { argv: ["./script"] }, "invalid_params"],
      ["NUL in an argument", { argv: ["true", "a\0b"] }, "invalid_params"],
      ["an argument that is no UTF-8", { argv: ["true", "\ud800"] }, "invalid_params"],
      [
        "an argument of 131,073 bytes",
        { argv: ["true", "x".repeat(131_069), "xxxx"] },
        "invalid_params",
      ],
      ["a climbing cwd", { cwd: "a/../b" }, "invalid_path"],
      ["an empty cwd", { cwd: "" }, "invalid_path"],
      ["a cwd of 4,097 bytes", { cwd: "x".repeat(4_097) }, "invalid_path"],
      ["a cwd with NUL", { cwd: "a\0" }, "invalid_path"],
      ["too much input", { stdin: new Uint8Array(1_048_577) }, "invalid_params"],
      ["input that is no bytes", { stdin: "SGVsbG8K" }, "invalid_params"],
      ["too little time", { timeoutMs: 999 }, "invalid_params"],
      ["too much time", { timeoutMs: 1_800_001 }, "invalid_params"],
      ["part of a millisecond", { timeoutMs: 1_000.5 }, "invalid_params"],
      ["no output at all", { maxOutputBytes: 0 }, "invalid_params"],
      ["too much output", { maxOutputBytes: 1_048_577 }, "invalid_params"],
      ["a field of no run", { env: { X: "1" } }, "invalid_params"],
      ["a missing field", { timeoutMs: undefined }, "invalid_params"],
    ];
    for (const [what, changes, code] of invalid) {
      it(`and refuses ${what}, before anything else`, async () => {
        const run = request(["true"], changes);
        const refusal = await refusalOf(() => room.service.run(run));
        expect(refusal.code).to.equal(code);
        expect(refusal.wire).to.equal("INVALID_REQUEST");
        expect(room.receipts.done).to.deep.equal([]);
      });
    }

    it("what asks for a receipt, too", async () => {
      for (const bad of [
        null,
        {},
        { processId: 5 },
        { processId: "a b" },
        { processId: "a", x: 1 },
      ]) {
        expect((await refusalOf(() => room.service.get(bad))).code).to.equal("invalid_params");
        expect((await refusalOf(() => room.service.cancel(bad))).code).to.equal("invalid_params");
      }
    });

    it("and takes what is just within the bounds", async () => {
      const id = `A_:-${"z".repeat(124)}`;
      const argv = ["true", ...Array.from({ length: 127 }, () => "x")];
      const run = request(argv, {
        processId: id,
        stdin: new Uint8Array(1_048_576),
        timeoutMs: 1_800_000,
        maxOutputBytes: 1,
      });
      expect((await room.service.run(run)).state).to.equal("completed");
      const shortest = request(["true"], {
        processId: "x",
        timeoutMs: 1_000,
        maxOutputBytes: 1_048_576,
      });
      expect((await room.service.run(shortest)).state).to.equal("completed");
      // 131,072 bytes together, none of them alone: the system takes that.
      const together = request(["printf", "%s", "x".repeat(65_532), "x".repeat(65_532)]);
      expect((await room.service.run(together)).stdout?.length).to.equal(131_064);
    });
  });

  describe("of a run that can not be started", () => {
    const failures: readonly (readonly [
      string,
      () => Readonly<Record<string, unknown>>,
      ErrorCode,
    ])[] = [
      [
        "the program is missing",
        () => ({ argv: ["no-such-program-anywhere"] }),
        "executable_not_found",
      ],
      [
        "the program's path is missing",
        () => ({ argv: ["/no/such/program"] }),
        "executable_not_found",
      ],
      [
        "the program may not be executed",
        () => ({ argv: [join(room.folder, "plain")] }),
        "permission_denied",
      ],
      [
        "the program is nonsense",
        () => ({ argv: [join(room.folder, "nonsense")] }),
        "spawn_failed",
      ],
      ["the directory is missing", () => ({ cwd: "missing" }), "not_found"],
      ["the directory is a file", () => ({ cwd: "plain" }), "not_directory"],
      ["the directory is outside", () => ({ cwd: "/" }), "path_not_allowed"],
      ["the directory leads outside", () => ({ cwd: "outside" }), "path_not_allowed"],
      [
        "the directory is lemon's own",
        () => ({ cwd: join(room.folder, "../state") }),
        "path_not_allowed",
      ],
    ];
    beforeEach(() => {
      writeFileSync(join(room.folder, "plain"), "#!/bin/sh\n");
      writeFileSync(join(room.folder, "nonsense"), "\0nonsense");
      chmodSync(join(room.folder, "nonsense"), 0o755);
      symlinkSync("/", join(room.folder, "outside"));
    });

    for (const [what, changes, code] of failures) {
      it(`tells so when ${what}; the id is spent and reads cancelled`, async () => {
        const run = request(["true"], changes());
        const refusal = await refusalOf(() => room.service.run(run));
        expect(refusal).to.include({ code, retrySafe: false, mutationMayHaveApplied: false });
        expect(refusal.message).to.match(
          what.startsWith("the directory")
            ? /^The working directory .*; the id is spent$|access to the working directory; the id is spent$/
            : /(?:executable|program|process)[^;]*; the id is spent$/,
        );
        const cancelled = { ...absent(run.processId), state: "cancelled" };
        expect(await room.service.get({ processId: run.processId })).to.deep.equal(cancelled);
        expect(await room.service.run(run)).to.deep.equal(cancelled);
        expect(await room.service.cancel({ processId: run.processId })).to.deep.equal(cancelled);
        const other = { ...run, timeoutMs: 2_000 };
        expect((await refusalOf(() => room.service.run(other))).code).to.equal(
          "process_id_conflict",
        );
      });
    }

    it("tells so when the system finds arguments and environment too long", async () => {
      const environment = { PATH, LARGE: "x".repeat(131_072) };
      await using crammed = await processRoom({ spawner, environment });
      const run = request(["true"]);
      expect((await refusalOf(() => crammed.service.run(run))).code).to.equal(
        "argument_list_too_long",
      );
      expect(await crammed.service.run(run)).to.include({ state: "cancelled", exitCode: null });
    });

    it("takes the longest argument that the system takes", async () => {
      const run = request(["/usr/bin/true", "x".repeat(131_072 - "/usr/bin/true".length)]);
      expect((await room.service.run(run)).state).to.equal("completed");
    });
  });

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
      const run = request(gated());
      const first = room.service.run(run);
      await until("running", run.processId);
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
      openGate();
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
      await until("running", run.processId);
      const receipt = await room.service.cancel({ processId: run.processId });
      expect(receipt).to.include({ state: "cancelled", outputTruncated: false });
      expect(receipt.exitCode).to.be.oneOf([137, null]);
      expect(await first).to.deep.equal(receipt);
      expect(await room.service.get({ processId: run.processId })).to.deep.equal(receipt);
      const pid = text(receipt.stdout)?.split("\n")[1];
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

  it("stops what takes too long, and keeps what it wrote until then", async () => {
    const clock = new FakeClock();
    await using timed = await processRoom({ spawner, clock });
    const run = request(shell("echo early; exec sleep 600"), { timeoutMs: 1_000 });
    const first = timed.service.run(run);
    let receipt: ProcessReceipt | undefined;
    void first.then((told) => {
      receipt = told;
    });
    await timed.firstOutput;
    await clock.advance(1_000);
    while (receipt === undefined) await nextTurn();
    expect(legible(receipt)).to.include({
      state: "cancelled",
      exitCode: 137,
      stdout: "early\n",
      outputTruncated: false,
    });
  });

  it("stops what writes too much, and keeps the head", async () => {
    const run = request(["yes"], { maxOutputBytes: 7 });
    expect(legible(await room.service.run(run))).to.include({
      state: "cancelled",
      exitCode: 137,
      stdout: "y\ny\ny\ny",
      stderr: "",
      outputTruncated: true,
    });
  });

  it("tells a death by signal as 128 and its number", async () => {
    const run = request(shell("kill -9 $$"));
    expect(await room.service.run(run)).to.include({ state: "completed", exitCode: 137 });
  });

  it("starts the program in the directory asked for, with what every run is given", async () => {
    mkdirSync(join(room.folder, "sub"));
    symlinkSync("sub", join(room.folder, "link"));
    const run = request(shell('pwd; echo "$PWD $HOME"'), { cwd: "link" });
    const sub = join(room.folder, "sub");
    expect(text((await room.service.run(run)).stdout)).to.equal(`${sub}\n${sub} ${room.folder}\n`);
  });

  describe("at its capacity", () => {
    it("runs 16 at a time, refuses the next without spending its id, and then takes it", async () => {
      const ids = Array.from({ length: 16 }, (_, n) => `slot:${n}`);
      const running = ids.map((processId) => room.service.run(request(gated(), { processId })));
      const next = request(["true"], { processId: "slot:next" });
      const refusal = await refusalOf(() => room.service.run(next));
      expect(refusal).to.include({ code: "too_many_processes", retrySafe: true });
      expect(await room.service.get({ processId: "slot:next" })).to.deep.equal(absent("slot:next"));
      // What is known can be asked for all the same.
      const known = request(gated(), { processId: "slot:0" });
      const again = room.service.run(known);
      await room.service.cancel({ processId: "slot:unused" });
      expect(
        (await room.service.run(request(["true"], { processId: "slot:unused" }))).state,
      ).to.equal("cancelled");
      openGate();
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
      expect(text((await timed.service.get({ processId })).stdout)).to.equal("kept\n");
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
    const run = request(gated());
    void room.service.run(run).catch(() => {});
    await until("running", run.processId);
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
    openGate();
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
      const run = room.service.run(request(gated(), { processId: "last" }));
      await until("running", "last");
      let drained = false;
      const drain = room.service.drain({ graceMs: 60_000 }).then(() => {
        drained = true;
      });
      const refusal = await refusalOf(() => room.service.run(request(["true"])));
      expect(refusal).to.include({ code: "unavailable", retrySafe: true });
      expect((await room.service.get({ processId: "last" })).state).to.equal("running");
      expect(drained).to.equal(false);
      openGate();
      expect((await run).exitCode).to.equal(5);
      await drain;
    });

    it("cancels what has not finished by then, and has that stored", async () => {
      const run = room.service.run(request(["sleep", "600"], { processId: "last" }));
      await until("running", "last");
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
      await until("running", "last");
      await room.system.shutdown();
      const receipt = await run;
      expect(receipt.state).to.equal("cancelled");
      expect(room.receipts.disk.get("last")?.receipt.state.state).to.equal("cancelled");
      const pid = text(receipt.stdout)?.trim();
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

  describe("in the tree", () => {
    const find = (node: TreeNode, kind: string): TreeNode[] => [
      ...(node.kind === kind ? [node] : []),
      ...node.children.flatMap((child) => find(child, kind)),
    ];

    it("has one actor for each id in work, under a name that is no caller's, and none afterwards", async () => {
      const runs = ["secret-a", "secret-b"].map((processId) =>
        room.service.run(request(gated(), { processId })),
      );
      await until("running", "secret-a");
      await until("running", "secret-b");
      const actors = find(room.system.snapshot(), "process-run");
      expect(actors.map(({ restart }) => restart)).to.deep.equal(["temporary", "temporary"]);
      expect(JSON.stringify(room.system.snapshot())).not.to.contain("secret-");
      openGate();
      await Promise.all(runs);
      while (find(room.system.snapshot(), "process-run").length > 0) {
        await nextTurn();
      }
      expect(find(room.system.snapshot(), "process-service").length).to.equal(1);
    });
  });

  it("never lets a word of a run into its logs or its receipts", async () => {
    const canary = "CANARY-5b2f";
    const runs = [
      request(shell(`cat; echo ${canary}-out; echo ${canary}-err >&2; exit 1`), {
        stdin: Buffer.from(`${canary}-in`),
      }),
      request([`/no/${canary}/program`]),
      request([`${canary}-program`]),
      request(["true"], { cwd: `${canary}-folder` }),
      request(["true", `${canary}\0`]),
      request(["yes", canary], { maxOutputBytes: 100 }),
    ];
    const refusals: unknown[] = [];
    for (const run of runs) {
      await room.service.run(run).catch((failure: unknown) => refusals.push(failure));
    }
    expect(refusals.length).to.equal(4);
    for (const refusal of refusals) {
      const told = refusal instanceof LemonError ? [refusal.message, refusal.details] : refusal;
      expect(JSON.stringify(told)).not.to.contain(canary);
    }
    expect(room.logged.lines.length).to.be.greaterThan(0);
    expect(room.logged.text()).not.to.contain(canary);
    const receipts = [...room.receipts.disk.values()].map(({ receipt }) => receipt);
    expect(receipts.length).to.equal(5);
    expect(JSON.stringify(receipts)).not.to.contain(canary);
  });
});
