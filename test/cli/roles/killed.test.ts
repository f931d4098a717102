import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import { isAlive, type ProcessIdentity, waitForEnd } from "../../../host/process-identity.ts";
import { identityOf } from "../../support/native-run.ts";
import { refusalOf } from "../../support/refusal.ts";
import { RoleStage, recordedServer, shellRun, until } from "../../support/role-stage.ts";
import { logged, MOMENTS_OF_UP, type Moment, seen } from "../../support/start-moments.ts";

const TOKEN = "operator-token-of-the-killed-0123456789";
const OPERATOR = { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: TOKEN };
const JOINING = { LEMON_NODE_OPERATOR_TOKEN: TOKEN };

describe("a role that is killed with SIGKILL", () => {
  let stage: RoleStage;
  beforeEach(() => {
    stage = new RoleStage();
  });
  afterEach(() => stage[Symbol.asyncDispose]());

  const effects = (): string => join(stage.folder("user"), "effects");
  const script = (id: string, then: string): string => `echo ${id} >> effects; ${then}`;
  const run = (client: Client, nodeId: string, id: string, then: string) =>
    client.call("node.process.run", shellRun(nodeId, id, script(id, then)));
  const get = (client: Client, nodeId: string, processId: string) =>
    client.call("node.process.get", { nodeId, processId });

  /** One id completed, one cancelled before its run, one run under way; the process of the last. */
  async function busy(client: Client, nodeId: string): Promise<ProcessIdentity> {
    expect(await run(client, nodeId, "kept", "exit 7")).to.include({ exitCode: 7 });
    const tombstone = { nodeId, processId: "never" };
    expect((await client.call("node.process.cancel", tombstone)).state).to.equal("cancelled");
    run(client, nodeId, "interrupted", "echo $$ > pid; exec sleep 600").catch(() => {});
    const pid = join(stage.folder("user"), "pid");
    const text = await until("the run has begun", () =>
      existsSync(pid) ? readFileSync(pid, "utf8").trim() || undefined : undefined,
    );
    return identityOf(Number(text));
  }

  /** All of it is known still, nothing of it runs again. */
  async function expectKept(client: Client, nodeId: string): Promise<void> {
    const lost = { stdoutBase64: null, stderrBase64: null };
    const kept = { state: "completed", exitCode: 7, ...lost };
    const never = { state: "cancelled", exitCode: null, ...lost };
    const interrupted = { state: "outcome_unknown", exitCode: null, ...lost };
    expect(await get(client, nodeId, "kept")).to.include(kept);
    expect(await run(client, nodeId, "kept", "exit 7")).to.include(kept);
    const other = await refusalOf(() => run(client, nodeId, "kept", "exit 8"));
    expect(other.code).to.equal("process_id_conflict");
    expect(await get(client, nodeId, "never")).to.include(never);
    expect(await run(client, nodeId, "never", "true")).to.include(never);
    expect(await get(client, nodeId, "interrupted")).to.include(interrupted);
    const again = await run(client, nodeId, "interrupted", "echo $$ > pid; exec sleep 600");
    expect(again).to.include(interrupted);
    expect(readFileSync(effects(), "utf8")).to.equal("kept\ninterrupted\n");
  }

  it("leaves its receipts, its server and nothing that runs to the next `lemon up`", async () => {
    const first = await stage.controller("up", { environment: OPERATOR });
    const nodeId = String(first.ready["nodeId"]);
    await first.role.said("probe");
    const child = await busy(await stage.client(first.url, TOKEN), nodeId);
    const server = recordedServer(join(first.home, "controller", "hub"));
    await first.role.end("SIGKILL");
    expect(await waitForEnd(child, 10_000)).to.equal(true);
    expect(isAlive(server)).to.equal(true);

    const next = await stage.controller("up", { environment: OPERATOR });
    expect(next.ready["nodeId"]).to.equal(nodeId);
    expect(isAlive(server)).to.equal(false);
    await expectKept(await stage.client(next.url, TOKEN), nodeId);
    expect(await next.role.end("SIGTERM")).to.equal(0);
    expect(stage.living()).to.deep.equal([]);
    // The killed one's record stands; no command takes it for one of a controller that lives.
    expect(runRecords(next.home)).to.deep.equal([`control-plane-${first.port}.json`]);
  });

  it("leaves the same to the next worker of a node, which is a new generation of it", async () => {
    const controller = await stage.controller("start", { environment: OPERATOR });
    const client = await stage.client(controller.url, TOKEN);
    const first = await stage.node(controller, { environment: JOINING });
    const { nodeId } = first;
    const child = await busy(client, nodeId);
    const server = recordedServer(join(first.home, "nodes", "worker", "server", nodeId));
    await first.role.end("SIGKILL");
    expect(await waitForEnd(child, 10_000)).to.equal(true);
    expect(isAlive(server)).to.equal(true);

    const next = await stage.node(controller);
    expect(next).to.include({ nodeId, generation: first.generation + 1 });
    expect(isAlive(server)).to.equal(false);
    await expectKept(client, nodeId);
  });

  it("leaves what the nodes run to them, when it was the controller", async () => {
    const controller = await stage.controller("start", { environment: OPERATOR });
    const { nodeId, generation } = await stage.node(controller, { environment: JOINING });
    const before = await stage.client(controller.url, TOKEN);
    const lost = run(before, nodeId, "survivor", "while [ ! -e go ]; do sleep 0.02; done; exit 3");
    lost.catch(() => {});
    await until("the run has begun", () => existsSync(effects()) || undefined);
    await controller.role.end("SIGKILL");
    expect(await refusalOf(() => lost)).to.include({
      code: "link_lost",
      mutationMayHaveApplied: true,
    });

    const port = String(controller.port);
    await stage.role(["start", "--port", port], controller.home, OPERATOR).said("ready");
    const after = await stage.client(controller.url, TOKEN);
    const read = () => get(after, nodeId, "survivor").catch(() => undefined);
    expect((await until("the node answers", read)).state).to.equal("running");
    const { metadata } = await after.call("node.describe", { nodeId });
    expect(metadata.generation).to.equal(generation);
    await after.call("node.process.run", shellRun(nodeId, "release", "touch go"));
    const ended = await until("the run has ended", async () => {
      const receipt = await get(after, nodeId, "survivor");
      return receipt.state === "running" ? undefined : receipt;
    });
    expect(ended).to.include({ state: "completed", exitCode: 3 });
  });

  it("can be started again, at whatever moment of its start it was killed", async () => {
    for (const [moment, come] of MOMENTS_OF_UP) {
      const home = join(stage.path, moment);
      const killed = stage.role(["up", "--port", "0"], home, OPERATOR);
      await come(home, killed);
      await killed.end("SIGKILL");
      // It may have come further than that before the signal did.
      const wasReady = await killed.said("ready").then(
        () => true,
        () => false,
      );
      const next = stage.role(["up", "--port", "0"], home, OPERATOR);
      const { receipt } = await next.said("probe");
      // Killed in the middle of its first run it can not know more; whatever it knows, it says.
      expect(receipt, moment)
        .to.have.property("state")
        .that.is.oneOf(["completed", ...(wasReady ? ["outcome_unknown"] : [])]);
      expect(await next.end("SIGTERM"), moment).to.equal(0);
      expect(stage.living(), moment).to.deep.equal([]);
    }
  });

  it("joins again as the same node, at whatever moment of its join it was killed", async () => {
    const controller = await stage.controller("start", { environment: OPERATOR });
    const client = await stage.client(controller.url, TOKEN);
    const node = (home: string): string => join(home, "nodes", "worker");
    const moments: readonly (readonly [string, Moment])[] = [
      ["identity taken", (home) => seen(join(node(home), "lock"))],
      ["approved", (home) => seenEnrolment(join(home, "nodes", "execution"))],
      ["life opened", (home) => seen(join(node(home), "link", "a.creds"))],
      ["server recorded", (home) => seenBelow(join(node(home), "server"), "server.json")],
      ["store open", (_, role) => logged(role, "receipt store is open")],
      ["joined", (_, role) => role.said("joined")],
    ];
    for (const [index, [moment, come]] of moments.entries()) {
      const home = join(stage.path, moment);
      const words = ["node", "join", "--name", "worker", "--controller", controller.url];
      const killed = stage.role(words, home, JOINING);
      await come(home, killed);
      await killed.end("SIGKILL");
      const next = await stage.node(controller, { home, environment: JOINING });
      expect(next.name, moment).to.equal("worker");
      await until(`${moment}: online`, async () => {
        const { nodes } = await client.call("node.list", {});
        return nodes.some((row) => row.name === "worker" && row.status === "online") || undefined;
      });
      const { nodes } = await client.call("node.list", {});
      expect(nodes, moment).to.have.length(index + 1);
      expect(await next.role.end("SIGTERM"), moment).to.equal(0);
      await client.call("node.rename", { nodeId: next.nodeId, name: moment });
    }
  });

  /** What the machine keeps of its approval; a file that is still being written has another name. */
  const seenEnrolment = async (folder: string) => {
    await seen(folder);
    await until("the enrolment", () =>
      readdirSync(folder).some((name) => name.startsWith("node-")) ? true : undefined,
    );
  };
  /** In the folder of whatever id the node got. */
  const seenBelow = async (folder: string, file: string) => {
    await seen(folder);
    await until(
      file,
      () =>
        readdirSync(folder).some((id) => existsSync(join(folder, id, file)) || undefined) ||
        undefined,
    );
  };
  const runRecords = (home: string) =>
    readdirSync(join(home, "run")).filter((name) => name.endsWith(".json"));
});
