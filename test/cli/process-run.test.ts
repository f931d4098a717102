import { writeFileSync } from "node:fs";
import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { FakeControlPlane } from "../support/fake-control-plane.ts";
import { ManualTimers } from "../support/manual-timers.ts";
import { bare, base64, completed, NODE_ID, nodeList, nodeRow } from "../support/node-rows.ts";
import { tempFolder } from "../support/temp-folder.ts";
import { TestShell } from "../support/test-shell.ts";

const GET = `lemon process get ${NODE_ID} t:1`;

describe("lemon process run", () => {
  let peer: FakeControlPlane;
  let shell: TestShell;

  beforeEach(async () => {
    peer = await FakeControlPlane.start({ token: "secret" });
    peer.on("node.list", () => nodeList(nodeRow(), nodeRow({ nodeId: "other", name: "other" })));
    shell = newShell();
  });

  afterEach(async () => {
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
    expect(shell.listeners("SIGINT")).to.equal(0);
  });

  function newShell(options: ConstructorParameters<typeof TestShell>[0] = {}): TestShell {
    return new TestShell({
      ...options,
      environment: { LEMON_CONTROLLER: peer.url, LEMON_WS_TOKEN: "secret", ...options.environment },
    });
  }

  const run = (...words: readonly string[]) => shell.run("process", "run", ...words);

  it("sends the literal argv with the documented defaults, to the node's durable id", async () => {
    peer.on("node.process.run", ({ processId }) => completed(processId));
    const exitCode = await run(
      "worker-1",
      "--id",
      "t:1",
      "--",
      "echo",
      "",
      "a b",
      "--json",
      "--",
      "ü",
    );
    expect(exitCode).to.equal(0);
    expect(peer.requests.at(-1)?.params).to.deep.equal({
      nodeId: NODE_ID,
      processId: "t:1",
      cwd: ".",
      argv: ["echo", "", "a b", "--json", "--", "ü"],
      stdinBase64: "",
      timeoutMs: 60_000,
      maxOutputBytes: 1_048_576,
    });
    expect(shell.stdout.text).to.equal("out\n");
    expect(shell.stderr.text).to.equal("");
  });

  it("sends what the flags say", async () => {
    shell = newShell({ stdin: "hello" });
    peer.on("node.process.run", ({ processId }) => completed(processId));
    await run(
      ...["--id", "t:1", "--cwd", "sub/dir", "--timeout", "2m", "--max-output", "64KiB"],
      ...["--stdin", "-", NODE_ID, "--", "cat"],
    );
    expect(peer.requests.at(-1)?.params).to.deep.include({
      nodeId: NODE_ID,
      cwd: "sub/dir",
      timeoutMs: 120_000,
      maxOutputBytes: 65_536,
      stdinBase64: base64("hello"),
    });
  });

  it("reads standard input from a file of the user's directory", async () => {
    using folder = tempFolder();
    writeFileSync(`${folder.path}/in`, Buffer.from([0, 255, 10]));
    shell = newShell({ cwd: folder.path });
    peer.on("node.process.run", ({ processId }) => completed(processId));
    expect(await run("worker-1", "--stdin", "in", "--", "cat")).to.equal(0);
    expect(peer.requests.at(-1)?.params).to.deep.include({
      stdinBase64: base64(new Uint8Array([0, 255, 10])),
    });
  });

  it("makes an id when none is given and prints it before anything is sent", async () => {
    let saidBefore = "";
    peer.on("node.process.run", ({ processId }) => {
      saidBefore = shell.stderr.text;
      return completed(processId);
    });
    expect(await run("worker-1", "--", "true")).to.equal(0);
    const [, id] = /^lemon: process id (run:[0-9a-f-]{36})\n$/.exec(saidBefore) ?? [];
    expect(peer.requests.at(-1)?.params).to.deep.include({ processId: id });
  });

  const endings: readonly {
    readonly name: string;
    readonly receipt: Partial<ResultOf<"node.process.run">>;
    readonly exitCode: number;
    readonly stderr: RegExp;
  }[] = [
    {
      name: "an exit code of 0",
      receipt: { stderrBase64: base64("warning\n") },
      exitCode: 0,
      stderr: /^warning\n$/,
    },
    { name: "another exit code", receipt: { exitCode: 7 }, exitCode: 7, stderr: /^$/ },
    { name: "the greatest exit code", receipt: { exitCode: 255 }, exitCode: 255, stderr: /^$/ },
    {
      name: "an exit code beyond a byte, which must not read as success",
      receipt: { exitCode: 256 },
      exitCode: 1,
      stderr: /^$/,
    },
    {
      name: "an exit code that is also one of ours",
      receipt: { exitCode: 125 },
      exitCode: 125,
      stderr: /^$/,
    },
    {
      name: "a cut-off output",
      receipt: { outputTruncated: true },
      exitCode: 0,
      stderr: /^lemon: the output was cut off at its bound\n$/,
    },
    {
      name: "an output that is gone",
      receipt: { stdoutBase64: null, stderrBase64: null, outputTruncated: true, exitCode: 3 },
      exitCode: 3,
      stderr: /^lemon: the output is no longer available\n$/,
    },
    {
      name: "a cancellation with an observed end",
      receipt: { state: "cancelled", exitCode: 137 },
      exitCode: 137,
      stderr: /^lemon: the process was cancelled; it ended with 137\n$/,
    },
    {
      name: "a cancellation without an exit",
      receipt: bare("t:1", "cancelled"),
      exitCode: 126,
      stderr: /^lemon: the process was cancelled; no exit was observed\n$/,
    },
    {
      name: "an unknown outcome",
      receipt: bare("t:1", "outcome_unknown"),
      exitCode: 125,
      stderr: /^lemon: nobody saw its end, and this receipt stays so; .* look at its machine\n$/,
    },
    {
      name: "a run that another worker life still has",
      receipt: bare("t:1", "running"),
      exitCode: 125,
      stderr: new RegExp(`still runs\nlemon: ask again with: ${GET}\n$`),
    },
  ];
  const stopped = { state: "cancelled", exitCode: 137 } as const;
  const stops: readonly {
    readonly what: string;
    readonly receipt: Partial<ResultOf<"node.process.run">>;
    readonly afterMs: number;
    readonly exitCode: number;
    readonly stderr: RegExp;
  }[] = [
    {
      what: "too much output",
      receipt: { ...stopped, stdoutBase64: base64("ab"), outputTruncated: true },
      afterMs: 0,
      exitCode: 137,
      stderr:
        /^lemon: the process was stopped: its output reached its bound of 2 B \(--max-output\); it ended with 137$/m,
    },
    {
      what: "too much output, and an exit that is not told",
      receipt: {
        ...stopped,
        exitCode: null,
        stdoutBase64: base64("ab"),
        outputTruncated: true,
      },
      afterMs: 0,
      exitCode: 126,
      stderr: /--max-output\); no exit was observed\nlemon: the output was cut off at its bound\n$/,
    },
    {
      what: "its timeout",
      receipt: stopped,
      afterMs: 1_500,
      exitCode: 137,
      stderr:
        /^lemon: the process was stopped: its time of 1.5 s \(--timeout\) was over; it ended with 137\n$/,
    },
    {
      what: "somebody else, before its time",
      receipt: { ...stopped, outputTruncated: true },
      afterMs: 1_499,
      exitCode: 137,
      stderr: /^lemon: the process was cancelled; it ended with 137$/m,
    },
  ];
  for (const { what, receipt, afterMs, exitCode, stderr } of stops) {
    it(`says what is certain of a stop by ${what}`, async () => {
      const timers = new ManualTimers();
      shell = newShell({ timers });
      peer.on("node.process.run", ({ processId }) => {
        timers.oversleep(afterMs);
        return completed(processId, { stdoutBase64: "", stderrBase64: "", ...receipt });
      });
      const flags = ["--timeout", "1500ms", "--max-output", "2", "--id", "t:1"];
      expect(await run("worker-1", ...flags, "--", "x")).to.equal(exitCode);
      expect(shell.stderr.text).to.match(stderr);
    });
  }

  for (const { name, receipt, exitCode, stderr } of endings) {
    it(`ends with ${exitCode} after ${name}`, async () => {
      peer.on("node.process.run", ({ processId }) => completed(processId, receipt));
      expect(await run("worker-1", "--id", "t:1", "--", "x")).to.equal(exitCode);
      expect(shell.stderr.text).to.match(stderr);
    });

    it(`prints exactly the receipt with --json after ${name}`, async () => {
      peer.on("node.process.run", ({ processId }) => completed(processId, receipt));
      expect(await run("worker-1", "--json", "--id", "t:1", "--", "x")).to.equal(exitCode);
      expect(shell.document).to.deep.equal(completed("t:1", receipt));
    });
  }

  const refusals: readonly {
    readonly error: LemonError;
    readonly exitCode: number;
  }[] = [
    { error: new LemonError("path_not_allowed"), exitCode: 121 },
    { error: new LemonError("executable_not_found"), exitCode: 121 },
    { error: new LemonError("process_receipt_limit"), exitCode: 121 },
    { error: new LemonError("node_offline"), exitCode: 121 },
    { error: new LemonError("invalid_params"), exitCode: 121 },
    { error: new LemonError("durability_unproven"), exitCode: 121 },
    { error: new LemonError("node_not_found"), exitCode: 122 },
    { error: new LemonError("process_id_conflict"), exitCode: 123 },
    { error: new LemonError("timeout", { mutationMayHaveApplied: false }), exitCode: 1 },
  ];
  for (const { error, exitCode } of refusals) {
    it(`ends with ${exitCode} when the answer is ${error.code}, and never sends the run again`, async () => {
      peer.on("node.process.run", () => {
        throw error;
      });
      expect(await run("worker-1", "--json", "--id", "t:1", "--", "x")).to.equal(exitCode);
      expect(shell.stderr.text).to.equal(`lemon: ${error.message}\n`);
      expect(shell.document).to.deep.include({
        error: {
          code: error.code,
          message: error.message,
          wireCode: error.wire,
          retrySafe: error.retrySafe,
          mutationMayHaveApplied: false,
          details: {
            code: error.code,
            retrySafe: error.retrySafe,
            mutationMayHaveApplied: false,
          },
          exitCode,
          nodeId: NODE_ID,
          processId: "t:1",
        },
      });
      expect(peer.count("node.process.run")).to.equal(1);
    });
  }

  it("ends with 122 when no node is called so, and names it without its control characters", async () => {
    expect(await run("no\u001b[31mbody\u202e", "--", "x")).to.equal(122);
    expect(shell.stderr.text).to.equal(
      "lemon: No enrolled node has the id or name no\\u{1b}[31mbody\\u{202e}\n",
    );
  });

  it("takes the durable id before a name that reads the same", async () => {
    peer.on("node.list", () =>
      nodeList(nodeRow({ nodeId: "imposter", name: NODE_ID }), nodeRow({ name: "worker-1" })),
    );
    peer.on("node.process.run", ({ processId }) => completed(processId));
    expect(await run(NODE_ID, "--", "x")).to.equal(0);
    expect(peer.requests.at(-1)?.params).to.deep.include({ nodeId: NODE_ID });
  });

  it("ends with 121 when the token is wrong", async () => {
    shell = newShell({ environment: { LEMON_WS_TOKEN: "guess" } });
    expect(await run("worker-1", "--", "x")).to.equal(121);
    expect(shell.stderr.text).to.equal(
      "lemon: Operator token is invalid; give the operator's token with LEMON_WS_TOKEN or --operator-token-file\n",
    );
  });

  it("ends with 1 when nobody listens", async () => {
    await peer.stop();
    expect(await run("worker-1", "--", "x")).to.equal(1);
    expect(shell.stderr.text).to.include("ECONNREFUSED");
  });

  const mistakes: readonly {
    readonly name: string;
    readonly words: readonly string[];
    readonly stderr: RegExp;
  }[] = [
    { name: "no command", words: ["worker-1", "--"], stderr: /nothing to run/ },
    {
      name: "no -- before the command",
      words: ["worker-1", "uname", "-a"],
      stderr: /stands after --/,
    },
    { name: "no node", words: ["--", "true"], stderr: /missing required argument 'node'/ },
    {
      name: "an empty executable",
      words: ["w", "--", ""],
      stderr: /the command must name an executable/,
    },
    {
      name: "an id outside its alphabet",
      words: ["w", "--id", "a b", "--", "x"],
      stderr: /--id must be 1 to 128/,
    },
    {
      name: "a timeout without unit",
      words: ["w", "--timeout", "60", "--", "x"],
      stderr: /--timeout wants a duration/,
    },
    {
      name: "a timeout too short",
      words: ["w", "--timeout", "999ms", "--", "x"],
      stderr: /--timeout must be 1s to 30m/,
    },
    {
      name: "a timeout too long",
      words: ["w", "--timeout", "1800001ms", "--", "x"],
      stderr: /--timeout must be 1s to 30m/,
    },
    {
      name: "an output bound of nothing",
      words: ["w", "--max-output", "0", "--", "x"],
      stderr: /--max-output must be 1 to 1MiB/,
    },
    {
      name: "an output bound too great",
      words: ["w", "--max-output", "1048577", "--", "x"],
      stderr: /--max-output must be 1 to 1MiB/,
    },
    {
      name: "a cwd with ..",
      words: ["w", "--cwd", "a/../b", "--", "x"],
      stderr: /--cwd must not contain \.\./,
    },
    {
      name: "an empty cwd",
      words: ["w", "--cwd", "", "--", "x"],
      stderr: /--cwd must not be empty/,
    },
    {
      name: "too many arguments",
      words: ["w", "--", ...Array.from({ length: 129 }, () => "x")],
      stderr: /at most 128 entries/,
    },
    {
      name: "arguments too long together",
      words: ["w", "--", "a".repeat(65_536), "b".repeat(65_537)],
      stderr: /131072 bytes in total/,
    },
    {
      name: "an argument that was not UTF-8",
      words: ["w", "--", "caf\ufffd"],
      stderr: /not valid UTF-8/,
    },
    {
      name: "a standard input that is not there",
      words: ["w", "--stdin", "gone", "--", "x"],
      stderr: /--stdin can not be read \(ENOENT\)/,
    },
    {
      name: "an unknown flag",
      words: ["w", "--timout", "1s", "--", "x"],
      stderr: /Did you mean --timeout/,
    },
    {
      name: "an unknown interrupt policy",
      words: ["w", "--on-interrupt", "panic", "--", "x"],
      stderr: /Allowed choices are ask, cancel, detach/,
    },
  ];
  for (const { name, words, stderr } of mistakes) {
    it(`ends with 2 for ${name}, before anything is sent`, async () => {
      expect(await run(...words)).to.equal(2);
      expect(shell.stderr.text).to.match(stderr);
      expect(shell.stdout.text).to.equal("");
      shell = newShell();
      expect(await run("--json", ...words)).to.equal(2);
      expect(shell.document).to.have.nested.property("error.exitCode", 2);
      expect(peer.connections).to.deep.equal([]);
    });
  }

  for (const [bytes, exitCode] of [
    [1_048_576, 0],
    [1_048_577, 2],
  ] as const) {
    it(`ends with ${exitCode} for ${bytes} bytes of standard input`, async () => {
      shell = newShell({ stdin: Buffer.alloc(bytes, 1) });
      peer.on("node.process.run", ({ processId }) => completed(processId));
      expect(await run("worker-1", "--stdin", "-", "--", "cat")).to.equal(exitCode);
      expect(peer.count("node.process.run")).to.equal(exitCode === 0 ? 1 : 0);
    });
  }

  for (const [timeout, ms] of [
    ["1s", 1_000],
    ["30m", 1_800_000],
    ["1.5s", 1_500],
  ] as const) {
    it(`accepts --timeout ${timeout}`, async () => {
      peer.on("node.process.run", ({ processId }) => completed(processId));
      expect(await run("worker-1", "--timeout", timeout, "--", "x")).to.equal(0);
      expect(peer.requests.at(-1)?.params).to.deep.include({ timeoutMs: ms });
    });
  }

  it("ends with 1 when the result could not be written, and says so", async () => {
    peer.on("node.process.run", ({ processId }) => completed(processId));
    shell.stdout.failure = "ENOSPC";
    expect(await run("worker-1", "--id", "t:1", "--", "x")).to.equal(1);
    expect(shell.stderr.text).to.equal("lemon: the result could not be written (ENOSPC)\n");
    peer.on("node.process.run", ({ processId }) => completed(processId, { exitCode: 7 }));
    expect(await run("worker-1", "--id", "t:1", "--", "x")).to.equal(7);
  });

  it("prints a get command that works for an id with a leading dash, on the controller that was named", async () => {
    shell = new TestShell({ environment: { LEMON_WS_TOKEN: "secret" } });
    peer.on("node.process.run", ({ processId }) => completed(processId, bare("-x", "running")));
    const exitCode = await run("worker-1", "--controller", peer.url, "--id", "-x", "--", "true");
    expect(exitCode).to.equal(125);
    const [, command = ""] = /ask again with: lemon (.*)\n$/.exec(shell.stderr.text) ?? [];
    expect(command).to.equal(`process get --controller ${peer.url} -- ${NODE_ID} -x`);
    peer.on("node.process.get", ({ processId }) => bare(processId, "cancelled"));
    const again = new TestShell({ environment: { LEMON_WS_TOKEN: "secret" } });
    expect(await again.run(...command.split(" "))).to.equal(126);
  });

  it("warns when the token would cross a network readable, and only then", async () => {
    const abroad = new TestShell({ environment: { LEMON_WS_TOKEN: "secret" } });
    // No loopback address by its looks, and yet nothing leaves the machine.
    const unreachable = "ws://0.0.0.0:1/ws";
    expect(
      await abroad.run("process", "run", "w", "--controller", unreachable, "--", "x"),
    ).to.equal(1);
    expect(abroad.stderr.text).to.include("the operator token crosses the network readable");
    expect(abroad.stderr.text).to.not.include("secret");
  });
});
