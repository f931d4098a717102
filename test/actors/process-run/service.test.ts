import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { SystemSpawner } from "../../../host/spawner.ts";
import { type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import type { ProcessReceipt } from "../../../protocol/process.ts";
import type { TreeNode } from "../../../supervision/actor.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { MODES, PATH, shell, spawnerOf } from "../../support/native-run.ts";
import {
  absent,
  gated,
  legible,
  NODE_ID,
  nextTurn,
  openGate,
  type ProcessRoom,
  processRoom,
  request,
  textOf,
  untilState,
} from "../../support/process-room.ts";
import { refusalOf } from "../../support/refusal.ts";

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
    expect(textOf((await room.service.run(run)).stdout)).to.equal(
      `${sub}\n${sub} ${room.folder}\n`,
    );
  });

  describe("in the tree", () => {
    const find = (node: TreeNode, kind: string): TreeNode[] => [
      ...(node.kind === kind ? [node] : []),
      ...node.children.flatMap((child) => find(child, kind)),
    ];

    it("has one actor for each id in work, under a name that is no caller's, and none afterwards", async () => {
      const runs = ["secret-a", "secret-b"].map((processId) =>
        room.service.run(request(gated(room), { processId })),
      );
      await untilState(room, "running", "secret-a");
      await untilState(room, "running", "secret-b");
      const actors = find(room.system.snapshot(), "process-run");
      expect(actors.map(({ restart }) => restart)).to.deep.equal(["temporary", "temporary"]);
      expect(JSON.stringify(room.system.snapshot())).not.to.contain("secret-");
      openGate(room);
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
