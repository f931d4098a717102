import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import { isAlive } from "../../../host/process-identity.ts";
import { LemonError } from "../../../protocol/errors.ts";
import type { RoleProcess } from "../../support/role-process.ts";
import {
  RoleStage,
  recordedServer,
  type StartedController,
  shellRun,
  until,
} from "../../support/role-stage.ts";
import { MOMENTS_OF_UP, seen } from "../../support/start-moments.ts";

const TOKEN = "operator-token-of-the-ends-0123456789";
const OPERATOR = { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: TOKEN };

describe("the end of a role", () => {
  let stage: RoleStage;
  beforeEach(() => {
    stage = new RoleStage();
  });
  afterEach(() => stage[Symbol.asyncDispose]());

  /** A run that has begun, and ends when it is let go. */
  async function begin(client: Client, nodeId: string, processId: string) {
    const folder = stage.folder(`user/${processId}`);
    const script = "touch began; while [ ! -e go ]; do sleep 0.02; done; echo done";
    const receipt = client.call("node.process.run", shellRun(nodeId, processId, script, folder));
    receipt.catch(() => {});
    await until("the run has begun", () => existsSync(join(folder, "began")) || undefined);
    return { receipt, letGo: () => writeFileSync(join(folder, "go"), "") };
  }

  /** Resolves when no run is taken any more; a drain has begun then. */
  async function refused(client: Client, nodeId: string): Promise<LemonError> {
    let attempt = 0;
    return await until("a run is refused", async () => {
      attempt += 1;
      const run = shellRun(nodeId, `refused:${attempt}`, "true");
      return await client.call("node.process.run", run).then(
        () => undefined,
        (failure: unknown) => (failure instanceof LemonError ? failure : undefined),
      );
    });
  }

  /** Nothing is left but what lies on the disk. */
  async function expectEnded(role: RoleProcess, home: string, exitCode = 0): Promise<void> {
    expect((await role.ended()).exitCode, role.log).to.equal(exitCode);
    expect(stage.living()).to.deep.equal([]);
    const records = existsSync(join(home, "run")) ? readdirSync(join(home, "run")) : [];
    expect(records.filter((name) => name.endsWith(".json"))).to.deep.equal([]);
  }

  const up = (): Promise<StartedController> => stage.controller("up", { environment: OPERATOR });

  it("lets a run under way finish and answers its caller, and refuses new ones meanwhile", async () => {
    const { role, url, ready, home } = await up();
    const nodeId = String(ready["nodeId"]);
    await role.said("probe");
    const client = await stage.client(url, TOKEN);
    const { receipt, letGo } = await begin(client, nodeId, "drained");
    role.child.kill("SIGTERM");
    // Before anything else is asked for: what is refused in the end may still be counted at that moment.
    for (const said of [
      /^lemon: waits up to 10 s for 1 run to end.*a second Ctrl-C/m,
      /"runs":1,.*"waiting for runs to end"/,
    ]) {
      await role.until(() => said.test(role.log) || undefined);
    }
    const refusal = await refused(client, nodeId);
    expect(refusal).to.include({ code: "unavailable", mutationMayHaveApplied: false });
    const read = await client.call("node.process.get", { nodeId, processId: "drained" });
    expect(read.state).to.equal("running");
    letGo();
    expect(await receipt).to.include({
      state: "completed",
      exitCode: 0,
      stdoutBase64: Buffer.from("done\n").toString("base64"),
    });
    await expectEnded(role, home);
  });

  it("cancels at once what runs when it is asked a second time", async () => {
    const { role, url, ready, home } = await up();
    const nodeId = String(ready["nodeId"]);
    await role.said("probe");
    const client = await stage.client(url, TOKEN);
    const { receipt } = await begin(client, nodeId, "hurried");
    role.child.kill("SIGTERM");
    await refused(client, nodeId);
    role.child.kill("SIGTERM");
    expect(await receipt).to.include({ state: "cancelled" });
    await expectEnded(role, home);
  });

  it("comes in order after a Ctrl-C that reached its whole process group", async () => {
    const { role, url, ready, home } = await up();
    const nodeId = String(ready["nodeId"]);
    await role.said("probe");
    const client = await stage.client(url, TOKEN);
    const { receipt, letGo } = await begin(client, nodeId, "interrupted");
    const server = recordedServer(join(home, "controller", "hub"));
    process.kill(-Number(role.child.pid), "SIGINT");
    await refused(client, nodeId);
    expect(isAlive(server)).to.equal(true);
    letGo();
    expect((await receipt).state).to.equal("completed");
    await expectEnded(role, home);
  });

  it("comes in order however early in its start it is asked", async () => {
    for (const [moment, come] of MOMENTS_OF_UP) {
      const home = join(stage.path, moment);
      const role = stage.role(["up", "--port", "0"], home, OPERATOR);
      await come(home, role);
      role.child.kill("SIGTERM");
      await expectEnded(role, home);
      expect(role.log, moment).to.not.match(/^lemon: (?!waits)/m);
    }
  });

  it("gives up a start that hangs, and lets nobody hang for ever", async () => {
    const script = (name: string, text: string): string => {
      const path = join(stage.path, name);
      writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
      return path;
    };
    const version = `[ "$1" = --version ] && echo "nats-server: v2.15.1" && exit`;
    const home = join(stage.path, "hanging");
    const hanging = stage.role(["up", "--port", "0"], home, {
      LEMON_NATS_SERVER: script("hanging-server", `${version}; exec sleep 600`),
    });
    await seen(join(home, "controller", "hub", "server.json"));
    hanging.child.kill("SIGTERM");
    await expectEnded(hanging, home);

    const stuck = stage.role(["up", "--port", "0"], home, {
      LEMON_NATS_SERVER: script("stuck-server", `touch "${stage.path}/asked"; exec sleep 600`),
    });
    await seen(join(stage.path, "asked"));
    await until("the signal is not ours any more", () => {
      stuck.child.kill("SIGTERM");
      return stuck.running ? undefined : true;
    });
    expect((await stuck.ended()).signal).to.equal("SIGTERM");
  });

  it("of a node lets its runs finish, and their callers hear of it over the link", async () => {
    const controller = await stage.controller("start", { environment: OPERATOR });
    const node = await stage.node(controller, {
      environment: { LEMON_NODE_OPERATOR_TOKEN: TOKEN },
    });
    const client = await stage.client(controller.url, TOKEN);
    const { nodeId } = node;
    const { receipt, letGo } = await begin(client, nodeId, "drained");
    node.role.child.kill("SIGTERM");
    await refused(client, nodeId);
    letGo();
    expect(await receipt).to.include({ state: "completed", exitCode: 0 });
    expect((await node.role.ended()).exitCode).to.equal(0);
    await until("the node is offline", async () => {
      const { status } = await client.call("node.describe", { nodeId });
      return status === "offline" || undefined;
    });
    controller.role.child.kill("SIGTERM");
    await expectEnded(controller.role, controller.home);
  });

  it("of a controller alone leaves what its nodes run to them", async () => {
    const controller = await stage.controller("start", { environment: OPERATOR });
    const { role, home, port } = controller;
    const { nodeId } = await stage.node(controller, {
      environment: { LEMON_NODE_OPERATOR_TOKEN: TOKEN },
    });
    const client = await stage.client(controller.url, TOKEN);
    const { receipt, letGo } = await begin(client, nodeId, "left");
    expect(await role.end("SIGTERM")).to.equal(0);
    const lost = await receipt.then(
      () => null,
      (failure: unknown) => failure,
    );
    expect(lost).to.include({ code: "link_lost", mutationMayHaveApplied: true });
    letGo();
    const again = stage.role(["start", "--port", String(port)], home, OPERATOR);
    await again.said("ready");
    const later = await stage.client(controller.url, TOKEN);
    const truth = await until("the receipt can be read", () =>
      later.call("node.process.get", { nodeId, processId: "left" }).then(
        (read) => (read.state === "running" ? undefined : read),
        () => undefined,
      ),
    );
    expect(truth).to.include({ state: "completed", exitCode: 0 });
  });
});
