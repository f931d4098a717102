import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
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

/** How long a node that does not answer may pass for one that does (architecture.md, "The node link"). */
const OFFLINE_WITHIN_MS = 8_000;
/** The node has this and six seconds more for its answer. */
const RUN_MS = 1_000;
const LONG_RUN_MS = 1_800_000;

describe("a node that is frozen", () => {
  let stage: RoleStage;
  let controller: StartedController;
  let client: Client;
  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start");
    client = await stage.client(controller.url, managedToken(controller));
  });
  after(() => stage[Symbol.asyncDispose]());

  async function statusOf(nodeId: string): Promise<string | undefined> {
    const { nodes } = await client.call("node.list", {});
    return nodes.find((node) => node.nodeId === nodeId)?.status;
  }

  const effects = (name: string): string => join(stage.folder("user"), name);

  /** Freezes one of a node's processes until the node is offline, thaws it, and reads what became of its calls. */
  async function freeze(
    name: string,
    signal: (node: StartedNode, signal: "SIGSTOP" | "SIGCONT") => void,
  ): Promise<void> {
    const node = await stage.node(controller, {
      name,
      home: join(stage.path, name),
      environment: { LEMON_NODE_OPERATOR_TOKEN: managedToken(controller) },
    });
    const { nodeId } = node;
    const run = (processId: string, script: string) =>
      client.call("node.process.run", {
        ...shellRun(nodeId, processId, script),
        timeoutMs: RUN_MS,
      });
    const get = (processId: string) => client.call("node.process.get", { nodeId, processId });
    expect(await run("before", "exit 3")).to.include({ state: "completed", exitCode: 3 });
    expect(await statusOf(nodeId)).to.equal("online");

    const lasting = refusalOf(() =>
      client.call("node.process.run", {
        ...shellRun(nodeId, "lasting", "exec sleep 3"),
        timeoutMs: LONG_RUN_MS,
      }),
    );
    await until("the long run has begun", async () =>
      (await get("lasting")).state === "running" ? true : undefined,
    );
    signal(node, "SIGSTOP");
    const frozenMs = performance.now();
    let onlineAskedMs = frozenMs;
    const uncertain = refusalOf(() => run("meanwhile", `echo ran >> ${name}.effects`));
    await until("the node is offline", async () => {
      const askedMs = performance.now();
      if ((await statusOf(nodeId)) === "offline") return true;
      onlineAskedMs = askedMs;
      return undefined;
    });
    // However late this process or its answers were: nobody who asked later was told anything else.
    expect(onlineAskedMs - frozenMs).to.be.below(OFFLINE_WITHIN_MS);
    // The answer that nobody may mistake for absence: of the API, and of the command.
    expect(await refusalOf(() => get("before"))).to.include({ code: "node_offline" });
    const command = ["process", "get", nodeId, "never-used", "--json"];
    const asked = await stage.lemon(command, { LEMON_HOME: controller.home });
    expect(asked.exitCode).to.equal(121);
    expect(JSON.parse(asked.stdout.toString())).to.have.nested.property(
      "error.code",
      "node_offline",
    );
    expect(await refusalOf(() => run("refused", `echo ran >> ${name}.effects`))).to.include({
      code: "node_offline",
      mutationMayHaveApplied: false,
    });
    expect(await uncertain).to.include({ mutationMayHaveApplied: true });
    // It has half an hour left, and nobody waits for that.
    expect(await lasting).to.include({ code: "process_outcome_unknown" });

    signal(node, "SIGCONT");
    // A put that the frozen server did not answer has the store look at all of itself first.
    const { metadata } = await until("the node is online, and its store ready", async () => {
      const described = await client.call("node.describe", { nodeId });
      const isBack = described.status === "online" && described.metadata.receiptStore === "ready";
      return isBack ? described : undefined;
    });
    expect(metadata.generation).to.equal(node.generation);
    expect(await get("before")).to.include({ state: "completed", exitCode: 3 });
    expect(await get("refused")).to.include({ state: "not_found" });
    const settled = await until("the uncertain run is settled", async () => {
      const receipt = await get("meanwhile");
      return receipt.state === "running" ? undefined : receipt;
    });
    // It was on its way when the machine froze: what became of it is not known, but it is one and the same.
    expect(settled.state).to.be.oneOf(["completed", "not_found"]);
    const lasted = await until("the long run has ended", async () => {
      const receipt = await get("lasting");
      return receipt.state === "running" ? undefined : receipt;
    });
    expect(lasted).to.include({ state: "completed", exitCode: 0 });
    const ran = existsSync(effects(`${name}.effects`));
    expect(ran).to.equal(settled.state === "completed");
    if (ran) expect(readFileSync(effects(`${name}.effects`), "utf8")).to.equal("ran\n");
    expect(await node.role.end("SIGTERM")).to.equal(0);
  }

  it("is offline within 8 s and again online when it goes on, be it the worker or its nats-server", async () => {
    await Promise.all([
      freeze("worker", ({ role }, signal) => role.child.kill(signal)),
      freeze("server", ({ home, name, nodeId }, signal) => {
        process.kill(recordedServer(join(home, "nodes", name, "server", nodeId)).pid, signal);
      }),
    ]);
  });
});
