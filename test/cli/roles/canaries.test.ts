/** Proves that nothing of what is run, and no token, comes to lie or to be said where it is not meant to. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import { filesHolding, holds } from "../../support/canaries.ts";
import type { Ended } from "../../support/lemon-process.ts";
import { refusalOf } from "../../support/refusal.ts";
import {
  managedToken,
  RoleStage,
  recordedServer,
  type StartedController,
  type StartedNode,
  shellRun,
  until,
} from "../../support/role-stage.ts";

/** Each is found again in any file or text, as it is, in base64 and in hex. */
const CANARIES = {
  argument: "canary-argument-5f1c83e09b",
  stdin: "canary-stdin-c20d94a7e1",
  stdout: "canary-stdout-9e7b06d45a",
  stderr: "canary-stderr-41fa3bd86c",
  cwd: "canary-cwd-b86e51f27d",
  executable: "canary-executable-07d9c4e3f2",
  secret: "canary-secret-3a8f60d1c7",
} as const;
const TRACE = { LEMON_LOG_LEVEL: "trace" };

/** Says that it began, then both canaries, and ends as it is told: at once, never, or in a flood. */
const TOOL = `#!/bin/sh
read -r line
echo ${CANARIES.stdout}
echo ${CANARIES.stderr} >&2
: > "$3"
case "$2" in
  end) exit 7 ;;
  stay) exec sleep 600 ;;
  flood) while :; do echo ${CANARIES.stdout}; done ;;
esac
`;

describe("a day of a controller and a joined worker at their most talkative", () => {
  let stage: RoleStage;
  let up: StartedController;
  let node: StartedNode;
  let client: Client;
  let cwd: string;
  let tool: string;
  const ended: Ended[] = [];
  const logs: (() => string)[] = [];
  const tokens = new Map<string, string>();

  before(async () => {
    stage = new RoleStage();
    cwd = stage.folder(`user/${CANARIES.cwd}`);
    tool = join(cwd, CANARIES.executable);
    writeFileSync(tool, TOOL, { mode: 0o755 });
    writeFileSync(join(cwd, "input"), `${CANARIES.stdin}\n`);
    up = await stage.controller("up", { environment: TRACE });
    logs.push(() => up.role.log);
    await up.role.said("probe");
    tokens.set("operator", managedToken(up));
    client = await stage.client(up.url, managedToken(up));
    await enrol();
  });
  after(() => stage[Symbol.asyncDispose]());

  /** Starts the worker, and notes the tokens that its machine keeps. */
  async function enrol(): Promise<void> {
    const environment = { ...TRACE, LEMON_NODE_OPERATOR_TOKEN: managedToken(up) };
    node = await stage.node(up, { environment });
    const { role } = node;
    logs.push(() => role.log);
    const folder = join(node.home, "nodes", "execution");
    for (const file of readdirSync(folder)) {
      const stored: { readonly token: string; readonly recoveryToken: string } = JSON.parse(
        readFileSync(join(folder, file), "utf8"),
      );
      tokens.set(`session ${logs.length}`, stored.token);
      tokens.set("recovery", stored.recoveryToken);
    }
  }

  interface Run {
    readonly how: "end" | "stay" | "flood";
    readonly flags?: readonly string[];
    readonly executable?: string;
  }

  const began = (id: string): string => join(cwd, `began-${id}`);

  /** Runs the tool by the command, to the command's end. */
  async function run(id: string, { how, flags = [], executable = tool }: Run) {
    const own = ["--id", id, "--cwd", cwd, "--stdin", join(cwd, "input"), ...flags];
    const argv = [executable, CANARIES.argument, how, began(id)];
    const result = await lemon("process", "run", node.nodeId, ...own, "--", ...argv);
    return result.exitCode;
  }

  async function lemon(...words: readonly string[]): Promise<Ended> {
    const result = await stage.lemon(words, { LEMON_HOME: up.home });
    ended.push(result);
    return result;
  }

  async function under(id: string, harm: () => unknown): Promise<number | null> {
    const exitCode = run(id, { how: "stay" });
    await until("the run has begun", () => existsSync(began(id)) || undefined);
    await harm();
    return await exitCode;
  }

  /** The receipt, once the node answers again. */
  const answered = (processId: string) =>
    until("the node answers", () =>
      client.call("node.process.get", { nodeId: node.nodeId, processId }).catch(() => undefined),
    );

  it("runs end in every way there is", async () => {
    const outside = join(stage.path, CANARIES.cwd);
    mkdirSync(outside);
    const tooLong = refusalOf(() =>
      client.call("node.process.run", {
        ...shellRun(node.nodeId, "too-long", "exit", cwd),
        argv: [tool, CANARIES.argument.padEnd(131_072, "x")],
      }),
    );
    const exits = await Promise.all([
      run("completed", { how: "end" }),
      run("overflow", { how: "flood", flags: ["--max-output", "1KiB"] }),
      run("timeout", { how: "stay", flags: ["--timeout", "1s"] }),
      run("refused", { how: "end", flags: ["--cwd", outside] }),
      run("unspawned", { how: "end", executable: `${tool}-missing` }),
      under("cancelled", () => lemon("process", "cancel", node.nodeId, "cancelled")),
    ]);
    expect(exits).to.deep.equal([7, 137, 137, 121, 121, 137]);
    const { code, message, details } = await tooLong;
    expect(code).to.equal("invalid_params");
    expect(JSON.stringify([message, details])).to.not.include(CANARIES.argument);
    expect(await run("completed", { how: "stay" })).to.equal(123);
    const shown = await lemon("process", "get", node.nodeId, "completed", "--output");
    expect(shown.stdout.toString()).to.equal(`${CANARIES.stdout}\n`);
  });

  it("secrets go into the vaults of a controller, its own node and a joined one", async () => {
    for (const home of [up.home, node.home]) {
      const made = await stage.lemon(["secrets", "init"], { LEMON_HOME: home });
      expect(made.exitCode).to.equal(0);
    }
    const secret = { name: "token", value: CANARIES.secret };
    expect((await client.call("secrets.set", secret)).ok).to.equal(true);
    for (const nodeId of [node.nodeId, String(up.ready["nodeId"])]) {
      const set = { nodeId, ...secret, operationId: "install:token-1" };
      expect((await client.call("node.secrets.set", set)).currentBindingMatches).to.equal(true);
    }
  });

  it("runs end in every way there should not be", async () => {
    const own = recordedServer(join(node.home, "nodes", "worker", "server", node.nodeId));
    const hub = recordedServer(join(up.home, "controller", "hub"));
    for (const [id, { pid }] of [
      ["server-killed", own],
      ["hub-killed", hub],
    ] as const) {
      const exitCode = await under(id, async () => {
        process.kill(pid, "SIGKILL");
        await answered(id);
        await lemon("process", "cancel", node.nodeId, id);
      });
      // Its caller was told in the end, over the new server.
      expect(exitCode, id).to.equal(137);
    }
    const exitCode = await under("worker-killed", async () => {
      await node.role.end("SIGKILL");
      await enrol();
    });
    expect(exitCode).to.equal(125);
    expect((await answered("worker-killed")).state).to.equal("outcome_unknown");
    expect((await answered("completed")).state).to.equal("completed");
  });

  it("leave nothing of themselves in a file below either home, in a log, or in a word to the operator", async () => {
    expect(await node.role.end("SIGTERM")).to.equal(0);
    expect(await up.role.end("SIGTERM")).to.equal(0);
    // The search finds what is there to be found.
    expect(filesHolding(cwd, CANARIES.stdout)).to.deep.equal([CANARIES.executable]);
    for (const [what, canary] of Object.entries(CANARIES)) {
      expect(filesHolding(up.home, canary), what).to.deep.equal([]);
      expect(filesHolding(node.home, canary), what).to.deep.equal([]);
    }
    for (const text of [...logs.map((log) => log()), ...ended.map(({ stderr }) => stderr)]) {
      for (const [what, canary] of Object.entries(CANARIES)) {
        // The remote stderr is passed through to the operator who asked for it.
        if (what === "stderr" && ended.some(({ stderr }) => stderr === text)) continue;
        expect(holds(Buffer.from(text), canary), `${what} in: ${text}`).to.equal(false);
      }
    }
  });

  it("leave each token in the one file that is there to keep it, and no key in a log", () => {
    expect([...tokens.keys()]).to.include.members(["operator", "recovery"]);
    const tokenFile = `run/control-plane-${up.port}.token`;
    for (const [what, token] of tokens) {
      expect(filesHolding(up.home, token), what).to.deep.equal(
        what === "operator" ? [tokenFile] : [],
      );
      const kept = filesHolding(node.home, token);
      for (const file of kept)
        expect(file, what).to.match(/^nodes\/execution\/node-[0-9a-f]{64}\.json$/);
      if (what === "operator") expect(kept).to.deep.equal([]);
      if (what === "recovery") expect(kept).to.have.length(1);
      for (const text of [...logs.map((log) => log()), ...ended.map(({ stderr }) => stderr)])
        expect(holds(Buffer.from(text), token), `${what} in: ${text}`).to.equal(false);
    }
    for (const log of logs) expect(log()).to.not.match(/S[OAUX][A-Z2-7]{20}|eyJ[A-Za-z0-9]/);
  });
});
