/** Proves that what a role holds in memory stays there: no core, no debugger, no snapshot, no secret for a child. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import { RoleStage, recordedServer, type StartedController } from "../../support/role-stage.ts";

const TOKEN = "canary-operator-token-0123456789abcdef0123456789";
const SECRETS = {
  LEMON_CONTROL_PLANE_OPERATOR_TOKEN: TOKEN,
  LEMON_SECRETS_MASTER_KEY: Buffer.alloc(32, "canary").toString("base64"),
  LEMON_SECRETS_MASTER_KEY_PREVIOUS: Buffer.alloc(32, "before").toString("base64"),
  LEMON_WS_TOKEN: "canary-ws-token",
  LEMON_NODE_OPERATOR_TOKEN: "canary-node-operator-token",
  LEMON_NODE_TOKEN: "canary-node-token",
  LEMON_ACP_API_TOKEN: "canary-acp-token",
  LEMON_OPENAI_COMPAT_API_TOKEN: "canary-openai-token",
  LEMON_OPENAI_COMPAT_TOKEN: "canary-older-openai-token",
};

describe("a role that holds secrets", () => {
  let stage: RoleStage;
  let up: StartedController;
  let client: Client;
  let nodeId: string;
  let dumps: string;

  before(async () => {
    stage = new RoleStage();
    dumps = stage.folder("dumps");
    const NODE_OPTIONS = `--heapsnapshot-signal=SIGUSR2 --report-on-signal --report-signal=SIGHUP --diagnostic-dir=${dumps}`;
    up = await stage.controller("up", { environment: { ...SECRETS, NODE_OPTIONS } });
    await up.role.said("probe");
    client = await stage.client(up.url, TOKEN);
    nodeId = String(up.ready["nodeId"]);
  });
  after(() => stage[Symbol.asyncDispose]());

  const run = async (processId: string, ...argv: readonly string[]): Promise<string> => {
    const { stdoutBase64 } = await client.call("node.process.run", {
      nodeId,
      processId,
      cwd: ".",
      argv: [...argv],
      stdinBase64: "",
      timeoutMs: 30_000,
      maxOutputBytes: 65_536,
    });
    return Buffer.from(stdoutBase64 ?? "", "base64").toString("utf8");
  };

  it("leaves no core, nor does its server or what it runs; a run may still ask for its own", async () => {
    const limitOf = (limits: string): readonly string[] =>
      /^Max core file size +(\S+) +(\S+)/m.exec(limits)?.slice(1) ?? [];
    const [, hard] = limitOf(readFileSync("/proc/self/limits", "utf8"));
    const server = recordedServer(join(up.home, "controller", "hub"));
    for (const pid of [up.role.child.pid, server.pid]) {
      expect(limitOf(readFileSync(`/proc/${pid}/limits`, "utf8"))).to.deep.equal(["1", hard]);
    }
    expect(limitOf(await run("limits", "cat", "/proc/self/limits"))).to.deep.equal(["1", hard]);
  });

  it("opens no debugger and writes neither snapshot nor report when it is signalled", async () => {
    for (const signal of ["SIGUSR1", "SIGUSR2"] as const) {
      up.role.child.kill(signal);
      expect(await run(`after-${signal}`, "echo", "lives")).to.equal("lives\n");
    }
    expect(up.role.log).to.not.match(/Debugger|inspector/i);
    expect(readdirSync(dumps)).to.deep.equal([]);
  });

  it("has the key that it was started with all the same", async () => {
    expect(await client.call("secrets.status", {})).to.include({ source: "env", healthy: true });
    const set = { nodeId, name: "n", value: "v", operationId: "o:1" };
    expect((await client.call("node.secrets.set", set)).status).to.equal("applied");
    const rotated = await client.call("secrets.rotate", {}).catch((error: unknown) => error);
    expect(Object(rotated).classification).to.equal("secret_key_external");
  });

  it("gives no child a key or a token by its environment", async () => {
    const told = await run("environment", "env");
    const others = stage.living().filter(({ pid }) => pid !== up.role.child.pid);
    expect(others).to.not.deep.equal([]);
    const environments = others.map(({ pid }) => readFileSync(`/proc/${pid}/environ`, "latin1"));
    for (const [name, value] of Object.entries(SECRETS)) {
      for (const environment of [told, ...environments]) {
        expect(environment).to.not.include(value).and.not.include(`${name}=`);
      }
    }
  });
});
