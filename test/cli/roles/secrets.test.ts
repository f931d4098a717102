/**
 * Proves secrets through everything that a user has: a controller, a joined worker and the command, on a NATS
 * system whose every byte between them is read along. None of the values comes to lie or to be said anywhere.
 */
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import { filesHolding, holds } from "../../support/canaries.ts";
import { type ExternalNats, startExternalNats } from "../../support/external-nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import {
  managedToken,
  RoleStage,
  recordedServer,
  type StartedController,
  type StartedNode,
  until,
} from "../../support/role-stage.ts";
import { type TcpProxy, tcpProxy } from "../../support/tcp-proxy.ts";
import { TestShell } from "../../support/test-shell.ts";

/** Values, by what becomes of them. */
const VALUES = {
  standing: "canary-standing-5f1c83e09b",
  replaced: "canary-replaced-c20d94a7e1",
  replacing: "canary-replacing-9e7b06d45a",
  deleted: "canary-deleted-41fa3bd86c",
  refused: "canary-refused-b86e51f27d",
  cutOff: "canary-cut-off-07d9c4e3f2",
  controllers: "canary-controllers-1d52e6b08a",
} as const;
const NAME = "canary-name/e3b0c44298fc";
const OPERATION = "canary-operation:9afbf4c8996f";
const TRACE = { LEMON_LOG_LEVEL: "trace" };

describe("secrets of a controller and a joined worker at their most talkative", () => {
  let stage: RoleStage;
  let nats: ExternalNats;
  let controller: StartedController;
  let node: StartedNode;
  let client: Client;
  const proxies: TcpProxy[] = [];
  const traffic: Buffer[] = [];
  const told: string[] = [];
  const logs: (() => string)[] = [];

  const overheard = async (url: string): Promise<string> => {
    const proxy = await tcpProxy(Number(new URL(url).port), (bytes) => traffic.push(bytes));
    proxies.push(proxy);
    return proxy.url;
  };

  before(async () => {
    stage = new RoleStage();
    nats = await startExternalNats();
    const flags = nats.flags({
      "--nats": await overheard(nats.url),
      "--nats-leaf-url": await overheard(nats.leafUrl),
    });
    controller = await stage.controller("start", { words: flags, environment: TRACE });
    logs.push(() => controller.role.log);
    client = await stage.client(controller.url, managedToken(controller));
    await join();
  });
  after(async () => {
    await stage[Symbol.asyncDispose]();
    await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
    await nats[Symbol.asyncDispose]();
  });

  async function join(): Promise<void> {
    node = await stage.node(controller, {
      environment: { ...TRACE, LEMON_NODE_OPERATOR_TOKEN: managedToken(controller) },
    });
    const { role } = node;
    logs.push(() => role.log);
  }

  /** `lemon secrets …`, to its end. */
  async function secrets(stdin: string, ...words: readonly string[]) {
    const shell = new TestShell({
      environment: { LEMON_CONTROLLER: controller.url, LEMON_WS_TOKEN: managedToken(controller) },
      stdin,
    });
    const exitCode = await shell.run("secrets", ...words);
    told.push(shell.stdout.text, shell.stderr.text);
    return { exitCode, text: shell.stdout.text };
  }

  const set = async (value: string, name: string, id: string): Promise<number> =>
    (await secrets(`${value}\n`, "set", node.nodeId, name, "--id", id)).exitCode;
  const receipt = (operationId: string) =>
    client.call("node.secrets.receipt", { nodeId: node.nodeId, operationId });
  const call = (name: string, value: string, operationId: string) =>
    client.call("node.secrets.set", { nodeId: node.nodeId, name, value, operationId });

  it("are refused while there is no master key, and taken as soon as there is one", async () => {
    expect(await set(VALUES.refused, NAME, OPERATION)).to.equal(121);
    expect((await receipt(OPERATION)).status).to.equal("not_found");
    for (const home of [controller.home, node.home]) {
      const made = await stage.lemon(["secrets", "init"], { LEMON_HOME: home });
      expect(made.exitCode).to.equal(0);
    }
    expect(await set(VALUES.standing, ` ${NAME} `, OPERATION)).to.equal(0);
    expect(await receipt(OPERATION)).to.deep.equal({
      nodeId: node.nodeId,
      operationId: OPERATION,
      status: "applied",
      name: NAME,
      currentBindingMatches: true,
    });
  });

  it("are set once however often that is asked, and an id is good for one intent", async () => {
    expect(await set(VALUES.standing, NAME, OPERATION)).to.equal(0);
    expect(await set(VALUES.refused, NAME, OPERATION)).to.equal(123);
    expect(await set(VALUES.standing, "another", OPERATION)).to.equal(123);
    expect((await refusalOf(() => call(`${NAME}\0`, VALUES.refused, "o:nul"))).code).to.equal(
      "invalid_params",
    );
    const reserved = await refusalOf(() => call("lemon_bot/invocations/r", VALUES.refused, "r"));
    expect(reserved.wire).to.equal("FORBIDDEN");
  });

  it("are replaced and deleted; the proof of what was stays", async () => {
    expect(await set(VALUES.replaced, "replaced", "o:1")).to.equal(0);
    expect(await set(VALUES.replacing, "replaced", "o:2")).to.equal(0);
    expect(await set(VALUES.deleted, "deleted", "o:3")).to.equal(0);
    expect((await secrets("", "rm", node.nodeId, "deleted")).exitCode).to.equal(0);
    expect((await secrets("", "list", node.nodeId)).text).to.equal(`${NAME}\nreplaced\n`);
    const states = await Promise.all(["o:1", "o:2", "o:3"].map(receipt));
    expect(states.map(({ status }) => status)).to.deep.equal(["applied", "applied", "applied"]);
    expect(states.map(({ currentBindingMatches }) => currentBindingMatches)).to.deep.equal([
      false,
      true,
      false,
    ]);
  });

  it("are the controller's own, too, and put under a new key where they lie", async () => {
    const { secret } = await client.call("secrets.set", {
      name: NAME,
      value: VALUES.controllers,
    });
    expect(secret).to.include({ name: NAME, owner: "default", usageCount: 0 });
    expect((await client.call("secrets.exists", { name: NAME })).exists).to.equal(true);
    expect((await client.call("secrets.rotate", {})).count).to.equal(1);
    expect((await secrets("", "rotate", node.nodeId)).exitCode).to.equal(0);
    expect((await receipt(OPERATION)).currentBindingMatches).to.equal(false);
    expect((await client.call("secrets.status", {})).healthy).to.equal(true);
  });

  it("outlive the worker and its server, killed at any moment; what was told is so", async () => {
    const exitCode = set(VALUES.cutOff, "cut-off", "o:4");
    const server = recordedServer(`${node.home}/nodes/worker/server/${node.nodeId}`);
    process.kill(server.pid, "SIGKILL");
    await node.role.end("SIGKILL");
    const was = await exitCode;
    await join();
    const { status } = await until("the node answers", () => receipt("o:4").catch(() => undefined));
    if (was === 0) expect(status).to.equal("applied");
    else expect([121, 125]).to.include(was);
    const { text } = await secrets("", "list", node.nodeId);
    expect(text.includes("cut-off\n")).to.equal(status === "applied");
    expect(text.replace("cut-off\n", "")).to.equal(`${NAME}\nreplaced\n`);
    expect((await receipt(OPERATION)).status).to.equal("applied");
  });

  it("leave no value in a file, a log, a word to the operator, or on the wire", async () => {
    expect(await node.role.end("SIGTERM")).to.equal(0);
    expect(await controller.role.end("SIGTERM")).to.equal(0);
    const wire = Buffer.concat(traffic);
    // The search finds what is there to be found.
    expect(holds(wire, OPERATION)).to.equal(true);
    expect(filesHolding(controller.home, managedToken(controller))).to.have.length(1);
    for (const [what, value] of Object.entries(VALUES)) {
      expect(filesHolding(stage.path, value), what).to.deep.equal([]);
      expect(filesHolding(nats.server.directory, value), what).to.deep.equal([]);
      expect(holds(wire, value), what).to.equal(false);
      for (const text of [...told, ...logs.map((log) => log())]) {
        expect(holds(Buffer.from(text), value), `${what} in: ${text}`).to.equal(false);
      }
    }
    for (const log of logs) expect(holds(Buffer.from(log()), NAME)).to.equal(false);
  });

  it("leave an event each, of a method and an outcome alone", () => {
    const events = logs
      .flatMap((log) => log().split("\n"))
      .filter((line) => line.includes('"execution node host_io"'))
      .map((line): Readonly<Record<string, unknown>> => JSON.parse(line));
    const outcomes = events.filter(({ method }) => method === "node.secrets.set");
    expect(outcomes.map(({ outcome }) => outcome)).to.include.members([
      "done",
      "secret_key_missing",
      "secret_operation_conflict",
    ]);
    for (const event of events) {
      expect(event).to.have.all.keys("level", "time", "pid", "count", "method", "outcome", "msg");
    }
  });
});
