import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import type { InputOf } from "../../../protocol/methods.ts";
import { systemApi } from "../../../transport/link/system-api.ts";
import { quote } from "../../../transport/nats-server/config.ts";
import {
  type ExternalNats,
  flagsOf,
  natsOperator,
  startExternalCluster,
  startExternalNats,
} from "../../support/external-nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import type { RoleProcess } from "../../support/role-process.ts";
import {
  managedToken,
  RoleStage,
  type StartedController,
  until,
} from "../../support/role-stage.ts";
import { TEST_TLS } from "../../support/tls-fixture.ts";

const QUIET = { LEMON_LOG_LEVEL: "warn" };

describe("a controller on somebody else's NATS", () => {
  let stage: RoleStage;
  beforeEach(() => {
    stage = new RoleStage();
  });
  afterEach(() => stage[Symbol.asyncDispose]());

  const clientOf = (controller: StartedController): Promise<Client> =>
    stage.client(controller.url, managedToken(controller));

  /** The receipt of the first run; rejects with the log when there is none. */
  async function probeOf({ role }: StartedController): Promise<unknown> {
    const failed = role.until(() =>
      /the first run did not work/.test(role.log) ? true : undefined,
    );
    const probe = role.said("probe").then((event) => event["receipt"]);
    const receipt = await Promise.race([probe, failed]);
    if (receipt === true) throw new Error(role.log);
    return receipt;
  }

  const run = (client: Client, nodeId: string, processId: string, argv = ["echo", "hello"]) =>
    client.call("node.process.run", {
      nodeId,
      processId,
      cwd: ".",
      argv,
      stdinBase64: "",
      timeoutMs: 10_000,
      maxOutputBytes: 1_048_576,
    } satisfies InputOf<"node.process.run">);

  /**
   * The same, asked for until there is an answer: while the controller learns which links died with the
   * server it is refused, or cut off. An id runs once, so the same may be asked again.
   */
  const runWhenTaken = (client: Client, nodeId: string, processId: string) =>
    until("the run has ended", async () => {
      try {
        const receipt = await run(client, nodeId, processId);
        return receipt.state === "running" ? undefined : receipt;
      } catch (failure) {
        const { code } = Object(failure) as { readonly code?: unknown };
        if (code === "node_offline" || code === "process_outcome_unknown") return undefined;
        throw failure;
      }
    });

  const join_ = (
    controller: StartedController,
    words: readonly string[] = [],
    name = "worker-1",
  ): RoleProcess =>
    stage.role(
      ["node", "join", "--name", name, "--controller", controller.url, ...words],
      stage.folder(`home-${name}`),
      { ...QUIET, LEMON_NODE_OPERATOR_TOKEN: managedToken(controller) },
    );

  /** The state of a receipt, once the node answers. */
  const receiptOf = (client: Client, nodeId: string, processId: string): Promise<string> =>
    until("an answer of the node", () =>
      client.call("node.process.get", { nodeId, processId }).then(
        ({ state }) => state,
        () => undefined,
      ),
    );

  const start = (
    nats: ExternalNats,
    command: "up" | "start" = "start",
    changes: Parameters<ExternalNats["flags"]>[0] = {},
  ): Promise<StartedController> =>
    stage.controller(command, { words: nats.flags(changes), environment: QUIET });

  describe("that is prepared for it", () => {
    let nats: ExternalNats;
    before(async () => {
      nats = await startExternalNats();
    });
    after(() => nats[Symbol.asyncDispose]());

    it("runs a local node, whose receipts lie on this machine's own disk and outlive it", async () => {
      const up = await start(nats, "up");
      const nodeId = String(up.ready["nodeId"]);
      expect(await probeOf(up)).to.include({ nodeId, state: "completed", exitCode: 0 });
      expect(up.role.log).to.equal("");
      await up.role.end("SIGKILL");

      expect(existsSync(join(up.home, "controller", "hub"))).to.equal(false);
      const local = join(up.home, "nodes", "local");
      expect(existsSync(join(local, "server", nodeId, "store", "jetstream"))).to.equal(true);
      expect(readdirSync(join(local, "receipts", nodeId))).to.include("process-runs");

      const again = await start(nats, "up");
      expect(again.ready["nodeId"]).to.equal(nodeId);
      expect(await probeOf(again)).to.include({
        state: "completed",
        exitCode: 0,
        stdoutBase64: null,
      });
      // Of the accounts there, only the node's link is of the controller's making.
      const accounts = readdirSync(join(nats.operator.folder, "jwt"));
      expect(accounts).to.have.length(nats.operator.accounts.size + 1);
    });

    for (const [what, leafUrl] of [
      ["leafnode listener, one of several addresses", () => `nats://127.0.0.1:1,${nats.leafUrl}`],
      ["websocket listener", () => nats.websocketUrl],
    ] as const) {
      it(`runs work on a node that joins by its ${what}, up to the largest output`, async () => {
        const controller = await start(nats, "start", { "--nats-leaf-url": leafUrl() });
        const worker = join_(controller, [], `worker-${what.length}`);
        const nodeId = String((await worker.said("joined"))["nodeId"]);
        const argv = ["head", "-c", "1048576", "/dev/zero"];
        const receipt = await run(await clientOf(controller), nodeId, "big", argv);
        expect(receipt).to.include({ state: "completed", exitCode: 0, outputTruncated: false });
        expect(Buffer.from(receipt.stdoutBase64 ?? "", "base64")).to.have.length(1_048_576);
        const web = await fetch(`http://127.0.0.1:${controller.port}/leafnode`);
        expect(web.status).to.equal(404);
      });
    }

    it("has its nodes back after the NATS server was killed, and loses no receipt of theirs", async () => {
      const controller = await start(nats);
      const client = await clientOf(controller);
      const worker = join_(controller, [], "worker-back");
      const nodeId = String((await worker.said("joined"))["nodeId"]);
      await run(client, nodeId, "before");
      await nats.server.kill();
      const refused = await refusalOf(() =>
        client.call("node.process.get", { nodeId, processId: "before" }),
      );
      expect(refused.mutationMayHaveApplied).to.equal(false);
      await nats.server.restart();
      expect(await receiptOf(client, nodeId, "before")).to.equal("completed");
      expect((await runWhenTaken(client, nodeId, "after")).state).to.equal("completed");
    });

    it("cuts a revoked node off, and has removed what it made for a removed one", async () => {
      const controller = await start(nats);
      const client = await clientOf(controller);
      const before = new Set(readdirSync(join(nats.operator.folder, "jwt")));
      const worker = join_(controller, [], "worker-gone");
      const nodeId = String((await worker.said("joined"))["nodeId"]);
      const made = readdirSync(join(nats.operator.folder, "jwt")).filter((one) => !before.has(one));
      expect(made).to.have.length(1);
      await client.call("node.revoke", { nodeId });
      expect((await worker.ended()).exitCode).to.equal(2);
      await client.call("node.remove", { nodeId });
      expect(readdirSync(join(nats.operator.folder, "jwt"))).not.to.include(made[0]);
    });

    it("says nothing of any key, on any side", async () => {
      await using nats = await startExternalNats();
      const controller = await stage.controller("up", {
        words: nats.flags(),
        environment: { LEMON_LOG_LEVEL: "trace" },
      });
      await probeOf(controller);
      const worker = join_(controller, [], "worker-quiet");
      await worker.said("joined");
      await controller.role.end("SIGTERM");
      for (const log of [controller.role.log, worker.log]) {
        expect(log).not.to.match(/S[OAUX][A-Z2-7]{20}|eyJ[A-Za-z0-9]/);
        expect(log).not.to.contain(nats.operator.folder);
      }
    });

    it("sends no node over a network where what it does could be read, unless that is wanted", async () => {
      // TEST-NET-1 (RFC 5737): nobody answers there.
      const controller = await start(nats, "start", { "--nats-leaf-url": "nats://192.0.2.1" });
      const refused = join_(controller, [], "worker-open");
      await refused.said("failed");
      expect((await refused.ended()).exitCode).to.equal(2);
      expect(refused.log).to.match(/takes nodes without TLS.*--allow-insecure-controller/);
      const wanted = join_(controller, ["--allow-insecure-controller"], "worker-open");
      const server = join(stage.folder("home-worker-open"), "nodes", "worker-open", "server");
      const config = await until("the leaf's configuration", () => {
        const [nodeId] = existsSync(server) ? readdirSync(server) : [];
        const path = join(server, nodeId ?? "", "nats.conf");
        return existsSync(path) ? readFileSync(path, "utf8") : undefined;
      });
      expect(config).to.contain('urls: ["nats://192.0.2.1:7422"]');
      expect(wanted.running).to.equal(true);
    });

    it("is another fleet than the embedded hub's, and neither knows or harms the other's receipts", async () => {
      await using nats = await startExternalNats();
      const home = stage.folder("home-both");
      const embedded = await stage.controller("up", { home, environment: QUIET });
      await probeOf(embedded);
      const first = String(embedded.ready["nodeId"]);
      await run(await clientOf(embedded), first, "embedded-only");
      await embedded.role.end("SIGTERM");

      const words = nats.flags();
      const external = await stage.controller("up", { home, words, environment: QUIET });
      await probeOf(external);
      const second = String(external.ready["nodeId"]);
      expect(second).not.to.equal(first);
      const client = await clientOf(external);
      const get = (on: Client, nodeId: string, processId: string) =>
        on.call("node.process.get", { nodeId, processId });
      expect((await get(client, second, "embedded-only")).state).to.equal("not_found");
      await run(client, second, "external-only");
      await external.role.end("SIGTERM");

      const back = await stage.controller("up", { home, environment: QUIET });
      await probeOf(back);
      expect(back.ready["nodeId"]).to.equal(first);
      const again = await clientOf(back);
      expect((await get(again, first, "embedded-only")).state).to.equal("completed");
      expect((await get(again, first, "external-only")).state).to.equal("not_found");
    });

    it("admits nothing on a disk that is not the one it knows", async () => {
      await using nats = await startExternalNats();
      const up = await start(nats, "up");
      await probeOf(up);
      await up.role.end("SIGTERM");
      const home = stage.folder("another-disk");
      const foreign = await stage.controller("up", {
        home,
        words: nats.flags(),
        environment: QUIET,
      });
      expect(foreign.ready["nodeId"]).to.equal(up.ready["nodeId"]);
      const client = await clientOf(foreign);
      const nodeId = String(foreign.ready["nodeId"]);
      const refused = await refusalOf(() => run(client, nodeId, "anything"));
      expect(refused.code).to.equal("receipt_store_damaged");
    });
  });

  describe("that is told less", () => {
    let nats: ExternalNats;
    before(async () => {
      nats = await startExternalNats();
    });
    after(() => nats[Symbol.asyncDispose]());

    for (const [flag, localNode] of [
      ["--nats-operator-key", false],
      ["--nats-leaf-url", true],
    ] as const) {
      it(`starts without ${flag}, says that no node can join, and serves the rest`, async () => {
        // Of its own: a vault that another controller keeps in the account would be told of, too.
        await using unused = await startExternalNats();
        const up = await start(unused, "up", { [flag]: null });
        const joins = `No node can join this controller: ${flag} is not given; start the controller again with it`;
        const local = `There is no local node: ${flag} is not given; start the controller again with it`;
        const notes = localNode ? [joins] : [joins, local];
        expect(up.role.log.trimEnd().split("\n")).to.deep.equal(
          notes.map((one) => `lemon: ${one}`),
        );
        if (localNode) {
          expect(await probeOf(up)).to.include({ state: "completed" });
        } else {
          expect(up.ready["nodeId"]).to.equal(null);
        }

        const client = await clientOf(up);
        await client.call("health", {});
        await client.call("node.list", {});
        const worker = join_(up);
        const said = await worker.said("failed");
        expect((await worker.ended()).exitCode).to.equal(2);
        expect(said["error"]).to.deep.equal({ code: "unavailable", message: joins });
        const { requests } = await client.call("node.pair.list", {});
        expect(requests.map(({ nodeName }) => nodeName)).to.deep.equal(["worker-1"]);
      });
    }

    it("goes on with the nodes it has, as long as they need no new account, key or worker", async () => {
      const home = stage.folder("home-less");
      const full = await stage.controller("start", {
        home,
        words: nats.flags(),
        environment: QUIET,
      });
      const worker = join_(full, [], "worker-kept");
      const nodeId = String((await worker.said("joined"))["nodeId"]);
      await full.role.end("SIGTERM");
      const less = await stage.controller("start", {
        home,
        words: [...nats.flags({ "--nats-operator-key": null }), "--port", String(full.port)],
        environment: QUIET,
      });
      const client = await clientOf(less);
      expect(await receiptOf(client, nodeId, "none")).to.equal("not_found");
      expect((await run(client, nodeId, "kept")).state).to.equal("completed");
      expect(worker.running).to.equal(true);
    });
  });

  it("does not start on what it is told wrong: one line, and nothing is left", async () => {
    await using nats = await startExternalNats();
    using other = await natsOperator();
    const home = stage.folder("home");
    const words = ["up", "--port", "0", ...nats.flags({ "--nats-sys-creds": other.sysCreds })];
    const role = stage.role(words, home, QUIET);
    const said = await role.said("failed");
    expect((await role.ended()).exitCode).to.equal(1);
    const message = "The NATS system refuses the credentials of --nats-sys-creds";
    expect(role.log).to.equal(`lemon: ${message}\n`);
    expect(said["error"]).to.deep.equal({ code: "unavailable", message });
    expect(stage.living()).to.deep.equal([]);
    expect(readdirSync(join(home, "run")).filter((name) => name.endsWith(".json"))).to.deep.equal(
      [],
    );
  });

  it("does not start where JetStream is not enabled for its account, and says so", async () => {
    await using nats = await startExternalNats({
      configure: (config) => config.replace(/^jetstream .*$/m, ""),
    });
    const words = ["start", "--port", "0", ...nats.flags()];
    const role = stage.role(words, stage.folder("home"), QUIET);
    await role.said("failed");
    expect((await role.ended()).exitCode).to.equal(1);
    expect(role.log).to.equal(
      "lemon: JetStream does not keep the controller's documents: it is not enabled for the controller's account\n",
    );
  });

  it("reaches it by TLS, as its nodes do, with an authority of its own", async () => {
    const cert = join(stage.path, "cert.pem");
    const key = join(stage.path, "key.pem");
    writeFileSync(cert, TEST_TLS.cert);
    writeFileSync(key, TEST_TLS.key, { mode: 0o600 });
    const tls = `tls { cert_file: ${quote(cert)}, key_file: ${quote(key)} }`;
    await using nats = await startExternalNats({
      configure: (config) =>
        `${config.replace(/^leafnodes \{/m, `leafnodes { ${tls}, `)}\n${tls}\n`,
    });
    const controller = await stage.controller("up", {
      words: [
        ...nats.flags({
          "--nats": nats.url.replace("nats://127.0.0.1", "tls://localhost"),
          "--nats-leaf-url": nats.leafUrl.replace("nats:", "tls:"),
        }),
        "--ca-file",
        cert,
      ],
      environment: QUIET,
    });
    expect(await probeOf(controller)).to.include({ state: "completed" });
    const worker = join_(controller, ["--ca-file", cert]);
    const nodeId = String((await worker.said("joined"))["nodeId"]);
    expect((await run(await clientOf(controller), nodeId, "a")).state).to.equal("completed");
  });

  it("outlives any one server of a cluster: its nodes, their receipts and its own records", async () => {
    await using cluster = await startExternalCluster(3);
    const { operator, url, leafUrl } = cluster;
    const words = flagsOf({
      "--nats": url,
      "--nats-creds": operator.creds,
      "--nats-sys-creds": operator.sysCreds,
      "--nats-operator-key": operator.operatorKey,
      "--nats-leaf-url": leafUrl,
    });
    const up = await stage.controller("up", { words, environment: QUIET });
    await probeOf(up);
    const client = await clientOf(up);
    const worker = join_(up);
    const nodeId = String((await worker.said("joined"))["nodeId"]);
    await run(client, nodeId, "before");
    const local = String(up.ready["nodeId"]);

    const system = await operator.connect(cluster.servers[0] ?? never(), "system");
    const seen = await systemApi(system).connections();
    const at = seen.find(({ name }) => name === "controller")?.id.split(":")[0];
    await system.close();
    const victim = cluster.servers.find(({ child }) => child.serverId === at);
    await (victim ?? never()).kill();
    expect(await receiptOf(client, local, "probe:first-run")).to.equal("completed");
    expect(await receiptOf(client, nodeId, "before")).to.equal("completed");
    expect((await runWhenTaken(client, nodeId, "after")).state).to.equal("completed");
    const { renamed } = await until("a record can be written", () =>
      client.call("node.rename", { nodeId, name: "renamed" }).catch(() => undefined),
    );
    expect(renamed).to.equal(true);
    expect(worker.running).to.equal(true);
  });
});

function never(): never {
  throw new Error("no such server");
}
