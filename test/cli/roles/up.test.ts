import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import type { InputOf } from "../../../protocol/methods.ts";
import { refusalOf } from "../../support/refusal.ts";
import { managedToken, RoleStage, type StartedController } from "../../support/role-stage.ts";

const CHECKOUT = join(import.meta.dirname, "../../..");
const PROBE = "probe:first-run";

describe("lemon up", () => {
  let stage: RoleStage;
  let user: string;
  let work: string;
  let extra: string;
  let up: StartedController;
  let client: Client;
  let nodeId: string;

  before(async () => {
    stage = new RoleStage();
    user = stage.folder("user");
    work = stage.folder("user/work");
    extra = stage.folder("extra");
    const home = join(user, ".lemon");
    up = await stage.controller("up", {
      home,
      words: ["--cwd", work, "--allowed-root", extra],
    });
    nodeId = String(up.ready["nodeId"]);
    await up.role.said("probe");
    client = await stage.client(up.url, managedToken(up));
  });
  after(() => stage[Symbol.asyncDispose]());

  function run(processId: string, more: Partial<InputOf<"node.process.run">>) {
    return client.call("node.process.run", {
      nodeId,
      processId,
      cwd: ".",
      argv: ["pwd"],
      stdinBase64: "",
      timeoutMs: 10_000,
      maxOutputBytes: 65_536,
      ...more,
    });
  }
  async function folderOf(processId: string, cwd: string): Promise<string> {
    const { stdoutBase64 } = await run(processId, { cwd });
    return Buffer.from(stdoutBase64 ?? "", "base64")
      .toString()
      .trimEnd();
  }

  it("says in two JSON lines where it listens and what the first run did", async () => {
    const { ready } = up;
    expect(Object.keys(ready)).to.deep.equal([
      "event",
      "version",
      "port",
      "url",
      "nodeId",
      "tokenFile",
      "pid",
    ]);
    const { version } = JSON.parse(readFileSync(join(CHECKOUT, "package.json"), "utf8"));
    expect(ready).to.include({
      version,
      url: `ws://127.0.0.1:${up.port}/ws`,
      pid: up.role.child.pid,
      tokenFile: join(up.home, "run", `control-plane-${up.port}.token`),
    });
    const probe = await up.role.said("probe");
    expect(Object.keys(probe)).to.deep.equal(["event", "receipt"]);
    expect(probe["receipt"]).to.deep.equal({
      processId: PROBE,
      nodeId,
      state: "completed",
      exitCode: 0,
      stdoutBase64: execFileSync("uname", ["-a"]).toString("base64"),
      stderrBase64: "",
      outputTruncated: false,
    });
  });

  it("serves where it said", async () => {
    const health = await fetch(`http://127.0.0.1:${up.port}/healthz`);
    expect(health.status).to.equal(200);
    const { nodes } = await client.call("node.list", {});
    expect(nodes.map((node) => [node.name, node.nodeId, node.status])).to.deep.equal([
      ["local", nodeId, "online"],
    ]);
  });

  it("keeps the operator's token in a file of its own: 0600, in a folder of 0700", () => {
    const file = String(up.ready["tokenFile"]);
    expect(statSync(file).mode & 0o777).to.equal(0o600);
    expect(statSync(dirname(file)).mode & 0o777).to.equal(0o700);
    expect(Buffer.from(managedToken(up), "base64url")).to.have.length(32);
  });

  it("starts a run in --cwd, below the home directory and below each --allowed-root", async () => {
    mkdirSync(join(extra, "below"));
    expect(await folderOf("cwd:default", ".")).to.equal(realpathSync(work));
    expect(await folderOf("cwd:home", user)).to.equal(realpathSync(user));
    expect(await folderOf("cwd:extra", join(extra, "below"))).to.equal(join(extra, "below"));
  });

  it("starts no run elsewhere, nor in its own state folder", async () => {
    for (const [index, cwd] of [stage.path, "/", up.home, join(up.home, "run")].entries()) {
      const refused = await refusalOf(() => run(`cwd:refused:${index}`, { cwd }));
      expect(refused.code, cwd).to.equal("path_not_allowed");
      expect(refused.mutationMayHaveApplied).to.equal(false);
    }
  });

  it("shows a person what to do next, and those commands work", async () => {
    const shown = stage.command(["up", "--port", "0"], { LEMON_HOME: join(stage.path, "shown") });
    let text = "";
    await new Promise<void>((resolve, reject) => {
      shown.child.stdout?.on("data", (chunk: Buffer) => {
        text += chunk.toString();
        if (text.includes("Ctrl-C stops it.")) resolve();
      });
      shown.child.once("exit", () => reject(new Error(shown.stderr)));
    });
    const token = /^ {2}operator token {2}(.*)$/m.exec(text)?.[1] ?? "";
    const kernel = execFileSync("uname", ["-a"]).toString().trimEnd();
    expect(text).to.match(/^lemon \d+\.\d+\.\d+ listens on ws:\/\/127\.0\.0\.1:\d+\/ws$/m);
    expect(statSync(token).isFile()).to.equal(true);
    expect(text).to.include(`${PROBE} ran \`uname -a\``);
    expect(text).to.match(/its receipt: completed, exit 0$/m);
    expect(text).to.include(kernel);

    const [, runLine = "", getLine = ""] =
      /from another shell:\n {2}(.*)\n {2}(.*)\n/.exec(text) ?? [];
    const shell = async (line: string): Promise<string> => {
      const env = { ...process.env, LEMON_HOME: join(stage.path, "shown") };
      const { stdout } = await promisify(execFile)("sh", ["-c", line], { cwd: CHECKOUT, env });
      return stdout.trimEnd();
    };
    expect(await shell(runLine)).to.equal(kernel);
    expect(await shell(getLine)).to.include(PROBE);
    shown.child.kill("SIGTERM");
    expect((await shown.ended()).exitCode).to.equal(0);
  });

  it("shows the first run's receipt at the next start, without its output, and runs nothing", async () => {
    const first = await up.role.said("probe");
    const token = managedToken(up);
    expect(await up.role.end("SIGTERM")).to.equal(0);

    const again = stage.role(["up", "--cwd", work], up.home, {
      LEMON_CONTROL_PLANE_PORT: String(up.port),
    });
    const probe = await again.said("probe");
    expect(probe["receipt"]).to.deep.equal({
      ...Object(first["receipt"]),
      stdoutBase64: null,
      stderrBase64: null,
      outputTruncated: true,
    });
    const ready = await again.said("ready");
    expect(ready).to.include({ port: up.port, nodeId });
    expect(managedToken({ ready })).to.equal(token);
  });
});
