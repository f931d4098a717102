import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import { isAlive } from "../../../host/process-identity.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { refusalOf } from "../../support/refusal.ts";
import {
  managedToken,
  RoleStage,
  type StartedController,
  type StartedNode,
  shellRun,
  until,
} from "../../support/role-stage.ts";
import { beginRun } from "../../support/stage-runs.ts";

describe("a second worker with the identity of one that serves", () => {
  let stage: RoleStage;
  let controller: StartedController;
  let client: Client;
  let first: StartedNode;
  beforeEach(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start");
    client = await stage.client(controller.url, managedToken(controller));
    first = await stage.node(controller, {
      environment: { LEMON_NODE_OPERATOR_TOKEN: managedToken(controller) },
    });
  });
  afterEach(() => stage[Symbol.asyncDispose]());

  const run = (processId: string, script: string) =>
    client.call("node.process.run", shellRun(first.nodeId, processId, script));
  const get = (processId: string) =>
    client.call("node.process.get", { nodeId: first.nodeId, processId });
  const generation = async () =>
    (await client.call("node.describe", { nodeId: first.nodeId })).metadata.generation;

  async function expectSuperseded({ role }: StartedNode): Promise<void> {
    expect((await role.ended()).exitCode, role.log).to.equal(4);
    const { error } = (await role.said("failed")) as { error?: unknown };
    expect(error).to.deep.equal({
      code: "node_superseded",
      message: "A newer worker serves this node; this one stopped what it ran and ended",
    });
  }

  it("takes over: what the first ran is stopped before the second runs anything, and read truly", async () => {
    expect(await run("ended", "exit 3")).to.include({ state: "completed", exitCode: 3 });
    const begun = await beginRun(stage, client, first.nodeId, "under-way");
    const pids = begun.processes.map(({ pid }) => pid);

    const home = join(stage.path, "copy");
    cpSync(first.home, home, { recursive: true });
    const words = ["node", "join", "--name", "worker", "--controller", controller.url];
    const second = stage.role(words, home);
    await until("the next generation", async () => (await generation()) === 2 || undefined);
    // Asked for from the first moment on: nobody may start it who could not know of the first's end.
    let attempt = 0;
    const receipt = await until("the second runs something", () => {
      attempt += 1;
      // What has ended and waits for its parent to hear of it is a zombie.
      const script = `for pid in ${pids.join(" ")}; do grep -s "^State:.[^Z]" /proc/$pid/status; done; echo by $PPID`;
      return run(`next:${attempt}`, script).catch((failure: unknown) => {
        expect(failure).to.be.instanceOf(LemonError);
        return undefined;
      });
    });
    const output = Buffer.from(receipt.stdoutBase64 ?? "", "base64").toString();
    expect(output).to.equal(`by ${second.child.pid}\n`);

    await expectSuperseded(first);
    expect(begun.processes.filter((process) => isAlive(process))).to.deep.equal([]);
    expect(await refusalOf(() => begun.receipt)).to.include({
      code: "process_outcome_unknown",
      mutationMayHaveApplied: true,
    });
    expect(await second.said("joined")).to.include({ nodeId: first.nodeId, generation: 2 });
    expect(await get("ended")).to.include({ state: "completed", exitCode: 3 });
    expect(await get("under-way")).to.include({ state: "outcome_unknown", exitCode: null });
    expect(await second.end("SIGTERM")).to.equal(0);
  });

  it("on another disk takes over too, and knows of no receipt that it has none, until the first is repaired", async () => {
    expect(await run("ended", "exit 3")).to.include({ state: "completed", exitCode: 3 });
    const folder = join(first.home, "nodes", "execution");
    const [file = ""] = readdirSync(folder);
    const { token }: { token: string } = JSON.parse(readFileSync(join(folder, file), "utf8"));

    const home = join(stage.path, "elsewhere");
    const second = await stage.node(controller, { home, words: ["--token", token] });
    expect(second).to.include({ nodeId: first.nodeId, generation: 2 });
    await expectSuperseded(first);
    expect(await refusalOf(() => get("ended"))).to.include({ code: "receipt_store_damaged" });
    expect(await refusalOf(() => run("ended", "touch again"))).to.include({
      code: "receipt_store_damaged",
      mutationMayHaveApplied: false,
    });
    expect(existsSync(join(stage.folder("user"), "again"))).to.equal(false);

    const back = await stage.node(controller, {
      words: ["--repair"],
      environment: { LEMON_NODE_OPERATOR_TOKEN: managedToken(controller) },
    });
    expect(back).to.include({ nodeId: first.nodeId, generation: 3 });
    await expectSuperseded(second);
    expect(await get("ended")).to.include({ state: "completed", exitCode: 3 });
    const refused = stage.role(
      ["node", "join", "--name", "worker", "--controller", controller.url],
      home,
      { LEMON_LOG_LEVEL: "warn" },
    );
    expect((await refused.ended()).exitCode).to.equal(4);
    expect(refused.log).to.match(/^lemon: A newer worker took this node over; .* --repair\n$/);
    expect(await generation()).to.equal(3);
  });
});
