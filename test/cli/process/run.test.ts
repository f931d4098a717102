/** Proves what `lemon process run` sends and prints, and how it ends when the run was not sent. */
import { writeFileSync } from "node:fs";
import { expect } from "chai";
import { bare, base64, completed, NODE_ID, nodeList, nodeRow } from "../../support/node-rows.ts";
import { ProcessCommand } from "../../support/process-command.ts";
import { tempFolder } from "../../support/temp-folder.ts";
import { TestShell } from "../../support/test-shell.ts";

describe("lemon process run", () => {
  let command: ProcessCommand;
  beforeEach(async () => {
    command = await ProcessCommand.open();
  });
  afterEach(() => command.close());

  it("sends the literal argv with the documented defaults, to the node's durable id", async () => {
    command.peer.on("node.process.run", ({ processId }) => completed(processId));
    const exitCode = await command.run(
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
    expect(command.peer.requests.at(-1)?.params).to.deep.equal({
      nodeId: NODE_ID,
      processId: "t:1",
      cwd: ".",
      argv: ["echo", "", "a b", "--json", "--", "ü"],
      stdinBase64: "",
      timeoutMs: 60_000,
      maxOutputBytes: 1_048_576,
    });
    expect(command.shell.stdout.text).to.equal("out\n");
    expect(command.shell.stderr.text).to.equal("");
  });

  it("sends what the flags say", async () => {
    command.shell = command.newShell({ stdin: "hello" });
    command.peer.on("node.process.run", ({ processId }) => completed(processId));
    await command.run(
      ...["--id", "t:1", "--cwd", "sub/dir", "--timeout", "2m", "--max-output", "64KiB"],
      ...["--stdin", "-", NODE_ID, "--", "cat"],
    );
    expect(command.peer.requests.at(-1)?.params).to.deep.include({
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
    command.shell = command.newShell({ cwd: folder.path });
    command.peer.on("node.process.run", ({ processId }) => completed(processId));
    expect(await command.run("worker-1", "--stdin", "in", "--", "cat")).to.equal(0);
    expect(command.peer.requests.at(-1)?.params).to.deep.include({
      stdinBase64: base64(new Uint8Array([0, 255, 10])),
    });
  });

  it("makes an id when none is given and prints it before anything is sent", async () => {
    let saidBefore = "";
    command.peer.on("node.process.run", ({ processId }) => {
      saidBefore = command.shell.stderr.text;
      return completed(processId);
    });
    expect(await command.run("worker-1", "--", "true")).to.equal(0);
    const [, id] = /^lemon: process id (run:[0-9a-f-]{36})\n$/.exec(saidBefore) ?? [];
    expect(command.peer.requests.at(-1)?.params).to.deep.include({ processId: id });
  });

  it("ends with 122 when no node is called so, and names it without its control characters", async () => {
    expect(await command.run("no\u001b[31mbody\u202e", "--", "x")).to.equal(122);
    expect(command.shell.stderr.text).to.equal(
      "lemon: No enrolled node has the id or name no\\u{1b}[31mbody\\u{202e}\n",
    );
  });

  it("takes the durable id before a name that reads the same", async () => {
    command.peer.on("node.list", () =>
      nodeList(nodeRow({ nodeId: "imposter", name: NODE_ID }), nodeRow({ name: "worker-1" })),
    );
    command.peer.on("node.process.run", ({ processId }) => completed(processId));
    expect(await command.run(NODE_ID, "--", "x")).to.equal(0);
    expect(command.peer.requests.at(-1)?.params).to.deep.include({ nodeId: NODE_ID });
  });

  it("ends with 121 when the token is wrong", async () => {
    command.shell = command.newShell({ environment: { LEMON_WS_TOKEN: "guess" } });
    expect(await command.run("worker-1", "--", "x")).to.equal(121);
    expect(command.shell.stderr.text).to.equal(
      "lemon: Operator token is invalid; give the operator's token with LEMON_WS_TOKEN or --operator-token-file\n",
    );
  });

  it("ends with 1 when nobody listens", async () => {
    await command.peer.stop();
    expect(await command.run("worker-1", "--", "x")).to.equal(1);
    expect(command.shell.stderr.text).to.include("ECONNREFUSED");
  });

  for (const [bytes, exitCode] of [
    [1_048_576, 0],
    [1_048_577, 2],
  ] as const) {
    it(`ends with ${exitCode} for ${bytes} bytes of standard input`, async () => {
      command.shell = command.newShell({ stdin: Buffer.alloc(bytes, 1) });
      command.peer.on("node.process.run", ({ processId }) => completed(processId));
      expect(await command.run("worker-1", "--stdin", "-", "--", "cat")).to.equal(exitCode);
      expect(command.peer.count("node.process.run")).to.equal(exitCode === 0 ? 1 : 0);
    });
  }

  for (const [timeout, ms] of [
    ["1s", 1_000],
    ["30m", 1_800_000],
    ["1.5s", 1_500],
  ] as const) {
    it(`accepts --timeout ${timeout}`, async () => {
      command.peer.on("node.process.run", ({ processId }) => completed(processId));
      expect(await command.run("worker-1", "--timeout", timeout, "--", "x")).to.equal(0);
      expect(command.peer.requests.at(-1)?.params).to.deep.include({ timeoutMs: ms });
    });
  }

  it("ends with 1 when the result could not be written, and says so", async () => {
    command.peer.on("node.process.run", ({ processId }) => completed(processId));
    command.shell.stdout.failure = "ENOSPC";
    expect(await command.run("worker-1", "--id", "t:1", "--", "x")).to.equal(1);
    expect(command.shell.stderr.text).to.equal("lemon: the result could not be written (ENOSPC)\n");
    command.peer.on("node.process.run", ({ processId }) => completed(processId, { exitCode: 7 }));
    expect(await command.run("worker-1", "--id", "t:1", "--", "x")).to.equal(7);
  });

  it("prints a get command that works for an id with a leading dash, on the controller that was named", async () => {
    command.shell = new TestShell({ environment: { LEMON_WS_TOKEN: "secret" } });
    command.peer.on("node.process.run", ({ processId }) =>
      completed(processId, bare("-x", "running")),
    );
    const exitCode = await command.run(
      "worker-1",
      "--controller",
      command.peer.url,
      "--id",
      "-x",
      "--",
      "true",
    );
    expect(exitCode).to.equal(125);
    const [, named = ""] = /ask again with: lemon (.*)\n$/.exec(command.shell.stderr.text) ?? [];
    expect(named).to.equal(`process get --controller ${command.peer.url} -- ${NODE_ID} -x`);
    command.peer.on("node.process.get", ({ processId }) => bare(processId, "cancelled"));
    const again = new TestShell({ environment: { LEMON_WS_TOKEN: "secret" } });
    expect(await again.run(...named.split(" "))).to.equal(126);
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
