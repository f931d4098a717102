/**
 * Proves the fleet on real parts: a real hub with its own keys and JetStream files, real leafs over
 * websocket, real workers that answer, and a controller that ends and starts again between them.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { jwtAuthenticator } from "@nats-io/transport-node";
import { expect } from "chai";
import { systemClock } from "../../../host/clock.ts";
import type { NodeId, NodeKey } from "../../../protocol/ids.ts";
import type { ResultOf } from "../../../protocol/methods.ts";
import { NODE_PING } from "../../../protocol/node-link.ts";
import { createWorkerLife, type WorkerLife } from "../../../transport/link/worker-life.ts";
import type { RpcHandler } from "../../../transport/rpc/server.ts";
import { serveRpc } from "../../../transport/rpc/server.ts";
import { inboxPrefix } from "../../../transport/rpc/subjects.ts";
import { joinNode, type TestNode } from "../../support/link-fleet.ts";
import {
  controllerOn,
  type Ground,
  linkSide,
  type NodeController,
  startGround,
} from "../../support/node-controller.ts";
import { caller, opening, operator, ping, type TestCaller } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a fleet on a real hub", () => {
  let ground: Ground;
  let controller: NodeController;
  const workers: TestNode[] = [];

  beforeEach(async () => {
    ground = await startGround();
    controller = await controllerOn(ground);
  });
  afterEach(async () => {
    for (const worker of workers.splice(0)) await worker[Symbol.asyncDispose]();
    await controller[Symbol.asyncDispose]();
    await ground[Symbol.asyncDispose]();
  });

  const methods = () => controller.nodes.methods;

  async function restartController(): Promise<void> {
    await controller[Symbol.asyncDispose]();
    controller = await controllerOn(ground);
  }

  async function session(token: string): Promise<TestCaller> {
    const identity = await controller.nodes.sessionTokens.identify(token);
    if (identity === null || identity === "expired") throw new Error("refused");
    return caller(identity);
  }

  async function enrol(name: string) {
    const asked = { nodeType: "coding_agent", nodeName: name };
    const { pairingId, code } = await methods()["node.pair.request"](asked, operator());
    const approved = await methods()["node.pair.approve"]({ pairingId }, operator());
    const challenge = approved.challengeToken;
    const { token } = await methods()["connect.challenge"]({ challenge }, operator());
    return { nodeId: approved.nodeId as NodeId, token, code, challenge, recovery: approved.token };
  }

  const shown = (life: WorkerLife) =>
    opening({
      linkKey: life.link.getPublicKey(),
      sealKey: life.seal.getPublicKey(),
      serverName: life.serverName,
    });

  /** A worker process's life: opens its link and serves on it. */
  async function work(
    token: string,
    handlers: Readonly<Record<string, RpcHandler>> = {},
    life = createWorkerLife(),
  ) {
    const on = await session(token);
    const opened = await methods()["node.link.open"](shown(life), on);
    const worker = await joinNode(linkSide(ground, controller), {
      handlers: { [NODE_PING]: () => ping(), ...handlers },
      generation: opened.generation,
      key: opened.nodeKey as NodeKey,
      life,
      jwt: opened.linkJwt,
    });
    workers.push(worker);
    return { opened, worker, session: on, life };
  }

  async function describeNode(nodeId: string): Promise<ResultOf<"node.describe">> {
    return await methods()["node.describe"]({ nodeId }, operator());
  }

  const until = (nodeId: string, status: string): Promise<void> =>
    eventually(async () => (await describeNode(nodeId)).status === status);

  it("joins a machine, is online when it answers, and carries calls and receipts", async () => {
    const { nodeId, token } = await enrol("worker-1");
    expect((await describeNode(nodeId)).status).to.equal("offline");
    await work(token, {
      "node.process.get": (params) => ({
        processId: (params as { processId: string }).processId,
        nodeId,
        state: "completed",
        exitCode: 3,
        stdout: Uint8Array.of(0, 255),
        stderr: new Uint8Array(),
        outputTruncated: false,
      }),
    });
    await until(nodeId, "online");
    const described = await describeNode("worker-1");
    expect(described.metadata).to.deep.include({
      generation: 1,
      receipts: { retained: 3, limit: 1_000 },
      receiptStore: "ready",
    });
    const ask = { nodeId, processId: "p:1" as never };
    expect(await methods()["node.process.get"](ask, operator())).to.deep.equal({
      processId: "p:1",
      nodeId,
      state: "completed",
      exitCode: 3,
      stdoutBase64: "AP8=",
      stderrBase64: "",
      outputTruncated: false,
    });
    const refusal = await refusalOf(() => methods()["node.process.cancel"](ask, operator()));
    expect(refusal.code).to.equal("capability_missing");
  });

  it("knows everything again after the controller ended, and the worker noticed nothing", async () => {
    const { nodeId, token } = await enrol("worker-1");
    const { opened, life } = await work(token);
    await until(nodeId, "online");
    const before = await describeNode(nodeId);
    await restartController();
    await until(nodeId, "online");
    const after = await describeNode(nodeId);
    expect({ ...after, lastSeenMs: 0 }).to.deep.equal({ ...before, lastSeenMs: 0 });
    const renewed = await methods()["node.link.open"](
      shown(life),
      await session(opened.sessionToken),
    );
    expect([renewed.generation, renewed.nodeKey]).to.deep.equal([1, opened.nodeKey]);
    expect((await refusalOf(() => session(token))).code).to.equal("node_superseded");
  });

  it("is unknown while its hub is dead, and online again when the hub is back with all it knew", async () => {
    const { nodeId, token } = await enrol("worker-1");
    await work(token);
    await until(nodeId, "online");
    await ground.hub.kill();
    await until(nodeId, "unknown");
    await ground.hub.restart();
    await until(nodeId, "online");
    await methods()["node.rename"]({ nodeId, name: "desk" }, operator());
    expect((await controller.documents.get(nodeId))?.value.name).to.equal("desk");
  });

  it("settles calls at once when a newer life takes over, whose link then is the only one", async () => {
    const { nodeId, token } = await enrol("worker-1");
    const started = Promise.withResolvers<void>();
    const first = await work(token, {
      "node.process.cancel": () => {
        started.resolve();
        return new Promise(() => {});
      },
    });
    await until(nodeId, "online");
    const ask = { nodeId, processId: "p:1" as never };
    const running = refusalOf(() => methods()["node.process.cancel"](ask, operator()));
    await started.promise;
    const second = await work(token);
    const refusal = await running;
    expect(refusal).to.include({ code: "process_outcome_unknown", mutationMayHaveApplied: true });
    expect(first.session.closedWith).to.deep.equal([{ code: 4004, reason: "superseded" }]);
    await until(nodeId, "online");
    expect((await describeNode(nodeId)).metadata.generation).to.equal(2);
    const live = controller.link.connections(second.opened.nodeKey as NodeKey);
    expect(live.map(({ userKey }) => userKey)).to.deep.equal([second.life.link.getPublicKey()]);
    const superseded = await refusalOf(() =>
      methods()["node.link.open"](shown(first.life), first.session),
    );
    expect(superseded.code).to.equal("node_superseded");
  });

  it("is offline the moment its leaf dies, and online when the leaf is back", async () => {
    const { nodeId, token } = await enrol("worker-1");
    const started = Promise.withResolvers<void>();
    const { worker } = await work(token, {
      "node.process.cancel": () => {
        started.resolve();
        return new Promise(() => {});
      },
    });
    await until(nodeId, "online");
    const ask = { nodeId, processId: "p:1" as never };
    const running = refusalOf(() => methods()["node.process.cancel"](ask, operator()));
    await started.promise;
    await worker.server.kill();
    expect((await running).code).to.equal("process_outcome_unknown");
    await until(nodeId, "offline");
    const refused = await refusalOf(() => methods()["node.process.get"](ask, operator()));
    expect(refused).to.include({ code: "node_offline", retrySafe: true });
    await worker.server.restart();
    await until(nodeId, "online");
    expect((await describeNode(nodeId)).metadata.generation).to.equal(1);
  });

  it("is offline within eight seconds of a worker that freezes, and online when it thaws", async () => {
    const { nodeId, token } = await enrol("worker-1");
    const { worker } = await work(token);
    await until(nodeId, "online");
    await worker.server.freeze();
    await until(nodeId, "offline");
    const ask = { nodeId, processId: "p:1" as never };
    const refused = await refusalOf(() => methods()["node.process.get"](ask, operator()));
    expect(refused.code).to.equal("node_offline");
    worker.server.thaw();
    await until(nodeId, "online");
  });

  it("keeps a node online, and its calls, while the worker renews its link", async () => {
    const { nodeId, token } = await enrol("worker-1");
    const held = Promise.withResolvers<unknown>();
    const started = Promise.withResolvers<void>();
    const {
      worker,
      life,
      session: on,
    } = await work(token, {
      "node.host.info": () => {
        started.resolve();
        return held.promise;
      },
    });
    await until(nodeId, "online");
    const asked = refusalOf(() => methods()["node.host.info"]({ nodeId }, operator()));
    await started.promise;
    const renewed = await methods()["node.link.open"](shown(life), on);
    await worker.renew(renewed.linkJwt);
    expect((await describeNode(nodeId)).status).to.equal("online");
    held.resolve("no facts");
    expect((await asked).code).to.equal("invalid_remote_payload");
  });

  it("cuts a revoked node at once, for good, also in the eyes of the next controller", async () => {
    const { nodeId, token } = await enrol("worker-1");
    const { opened, session: on } = await work(token);
    await until(nodeId, "online");
    await methods()["node.revoke"]({ nodeId }, operator());
    expect(on.closedWith).to.deep.equal([{ code: 4003, reason: "revoked" }]);
    await until(nodeId, "offline");
    const connections = () => controller.link.connections(opened.nodeKey as NodeKey);
    await eventually(() => connections().length === 0);
    await restartController();
    expect((await refusalOf(() => session(token))).code).to.equal("node_revoked");
    expect((await describeNode(nodeId)).status).to.equal("offline");
  });

  it("ends a life whose credentials two machines hold", async () => {
    const { nodeId, token } = await enrol("worker-1");
    const { opened, life, session: on } = await work(token);
    await until(nodeId, "online");
    const thief = await joinNode(linkSide(ground, controller), {
      key: opened.nodeKey as NodeKey,
      life: { ...life, serverName: `${life.serverName}-thief` },
      jwt: opened.linkJwt,
      waitForLink: false,
    });
    workers.push(thief);
    await eventually(() => on.closedWith.length > 0);
    expect(on.closedWith).to.deep.equal([{ code: 4004, reason: "superseded" }]);
    expect((await describeNode(nodeId)).status).to.equal("offline");
    expect((await refusalOf(() => methods()["node.link.open"](shown(life), on))).code).to.equal(
      "node_superseded",
    );
    await work(token);
    await until(nodeId, "online");
  });

  it("removes a node with its account, and never gives its id again", async () => {
    const { nodeId, token } = await enrol("worker-1");
    const { opened } = await work(token);
    await until(nodeId, "online");
    const record = await controller.documents.get(nodeId);
    await methods()["node.remove"]({ nodeId }, operator());
    expect(controller.link.nodes()).to.not.include(opened.nodeKey);
    if (record === null) throw new Error("no record");
    const refusal = await refusalOf(() => controller.documents.create(nodeId, record.value));
    expect(refusal.code).to.equal("revision_conflict");
    await restartController();
    expect((await methods()["node.list"]({}, operator())).nodes).to.deep.equal([]);
    expect(await controller.nodes.sessionTokens.identify(token)).to.equal(null);
  });

  it("serves the local node like any other, and tells the controller's ends apart by generation", async () => {
    for (const generation of [1, 2]) {
      const { nodeId } = await controller.nodes.enrolLocal({ name: "local" });
      const life = createWorkerLife();
      const { linkKey, sealKey, serverName, lemonVersion, capabilities } = shown(life);
      const opened = await controller.nodes.openLocal(nodeId, {
        linkKey,
        sealKey,
        serverName,
        lemonVersion,
        capabilities,
        storeId: null,
        storeSequence: null,
      });
      const connection = await ground.hub.connect({
        authenticator: jwtAuthenticator(opened.linkJwt, life.link.getSeed()),
        inboxPrefix: inboxPrefix(opened.nodeKey),
      });
      const rpc = serveRpc({
        connection,
        nodeKey: opened.nodeKey,
        generation: opened.record.generation,
        handlers: { [NODE_PING]: () => ping() },
        clock: systemClock,
        log: controller.log.log,
      });
      await until("local", "online");
      expect((await describeNode("local")).metadata).to.include({ generation, local: true });
      await rpc.stop();
      await connection.close();
      await until("local", "offline");
      await restartController();
    }
  });

  it("leaves no code, challenge or token in any file of the controller or its hub, nor in a log", async () => {
    const secrets: string[] = [];
    const { nodeId, token, code, challenge, recovery } = await enrol("worker-1");
    const { opened, life } = await work(token);
    await until(nodeId, "online");
    const again = await methods()["node.link.open"](
      shown(life),
      await session(opened.sessionToken),
    );
    await methods()["node.rename"]({ nodeId, name: "desk" }, operator());
    secrets.push(token, challenge, recovery ?? "", opened.sessionToken, again.sessionToken);
    const bytes = [...filesBelow(ground.folder.path), ...filesBelow(ground.hub.directory)].map(
      (path) => readFileSync(path),
    );
    // The record is really among what was searched.
    expect(bytes.some((content) => content.includes(nodeId))).to.equal(true);
    for (const secret of secrets) {
      expect(secret).to.have.length(43);
      expect(bytes.some((content) => content.includes(secret))).to.equal(false);
      expect(controller.log.text()).to.not.include(secret);
    }
    expect(bytes.some((content) => content.includes(`"${code}"`))).to.equal(false);
    expect(controller.log.text()).to.not.include(`"${code}"`);
  });
});

/** Resolves once it is so; mocha's own bound ends a wait for what never comes. */
async function eventually(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 5));
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
}
