/** Proves files on nodes with the real programs: a controller, a worker, its helper, the command line. */
import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Client } from "../../../client/index.ts";
import { isAlive, type ProcessIdentity, waitForEnd } from "../../../host/process-identity.ts";
import { filesHolding, holds } from "../../support/canaries.ts";
import { identityOf } from "../../support/native-run.ts";
import { refusalOf } from "../../support/refusal.ts";
import {
  RoleStage,
  type StartedController,
  type StartedNode,
  until,
} from "../../support/role-stage.ts";

const TOKEN = "operator-token-of-the-files-0123456789";
const OPERATOR = { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: TOKEN };
const MIB = 1_048_576;

describe("files on a joined worker", () => {
  let stage: RoleStage;
  let controller: StartedController;
  let worker: StartedNode;
  let client: Client;

  const join_ = () => stage.node(controller, { environment: { LEMON_NODE_OPERATOR_TOKEN: TOKEN } });
  const user = (name: string): string => join(stage.folder("user"), name);
  const fs = (...words: readonly string[]) =>
    stage.lemon(["fs", ...words], { LEMON_CONTROLLER: controller.url, LEMON_WS_TOKEN: TOKEN });
  const at = (path: string) => ({ nodeId: worker.nodeId, path });
  const write = (path: string, data: string, more: { expectedModifiedAtMs?: number } = {}) =>
    client.call("node.fs.write", {
      ...at(path),
      dataBase64: Buffer.from(data).toString("base64"),
      ...more,
    });
  const helper = (): Promise<ProcessIdentity> =>
    until("the worker has a file helper", () => helperOf(worker.role.child.pid ?? 0));

  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start", { environment: OPERATOR });
    worker = await join_();
    client = await stage.client(controller.url, TOKEN);
  });
  after(() => stage[Symbol.asyncDispose]());

  it("go there and come back bit for bit, by name and by command", async () => {
    const bytes = randomBytes(5 * MIB + 3);
    writeFileSync(join(stage.path, "big.bin"), bytes);
    const put = await fs("put", "big.bin", "worker:new/dir/big.bin", "-p");
    expect(put.stderr).to.equal("");
    expect(put.exitCode).to.equal(0);
    expect(readFileSync(user("new/dir/big.bin")).equals(bytes)).to.equal(true);
    expect(readdirSync(user("new/dir"))).to.deep.equal(["big.bin"]);
    const got = await fs("get", `${worker.nodeId}:new/dir/big.bin`, "back.bin", "--json");
    expect(got.exitCode).to.equal(0);
    expect(readFileSync(join(stage.path, "back.bin")).equals(bytes)).to.equal(true);
  });

  it("are written only by whoever knows what they are now", async () => {
    const { mtimeMs } = await write("cas.txt", "one", { expectedModifiedAtMs: 0 });
    const again = await refusalOf(() => write("cas.txt", "two", { expectedModifiedAtMs: 0 }));
    expect(again).to.include({ code: "revision_conflict", wire: "CONFLICT" });
    expect(await refusalOf(() => write("cas.txt", "two"))).to.include({
      code: "revision_conflict",
    });
    const next = await write("cas.txt", "two", { expectedModifiedAtMs: mtimeMs });
    expect(next.mtimeMs).to.be.greaterThan(mtimeMs);
    expect(readFileSync(user("cas.txt"), "utf8")).to.equal("two");
  });

  it("are served nowhere but below the roots, and never below the state folder", async () => {
    mkdirSync(user("inside"), { recursive: true });
    for (const path of ["/etc/passwd", worker.home, join(worker.home, "nodes"), stage.path]) {
      const refused = await refusalOf(() => client.call("node.fs.stat", at(path)));
      expect(refused).to.include({ code: "path_not_allowed", wire: "FORBIDDEN" });
    }
    expect(await client.call("node.fs.stat", at("inside"))).to.include({ type: "directory" });
  });

  it("are deleted as they were previewed, or not at all", async () => {
    mkdirSync(user("tree/below"), { recursive: true });
    writeFileSync(user("tree/below/file"), "1");
    const preview = () => client.call("node.fs.delete.preview", { ...at("tree"), recursive: true });
    const remove = (confirmationToken: string, confirm = "tree") =>
      client.call("node.fs.delete", { ...at("tree"), confirm, confirmationToken });

    const stale = await preview();
    expect(stale).to.include({ candidateCount: 3, childCount: 1 });
    writeFileSync(user("tree/below/other"), "2");
    expect((await refusalOf(() => remove(stale.confirmationToken))).code).to.equal("stale_preview");
    const { confirmationToken, path } = await preview();
    const mistaken = await refusalOf(() => remove(confirmationToken, path));
    expect(mistaken.code).to.equal("invalid_confirmation");
    expect(existsSync(user("tree/below/file"))).to.equal(true);
    await remove(confirmationToken);
    expect(existsSync(user("tree"))).to.equal(false);
    const used = await refusalOf(() => remove(confirmationToken));
    expect(used).to.include({ code: "invalid_confirmation_token", wire: "CONFLICT" });
  });

  it("are moved without replacing anything, and deleted by command", async () => {
    writeFileSync(user("from"), "1");
    writeFileSync(user("to"), "2");
    expect((await fs("mv", "worker:from", "worker:to")).exitCode).to.equal(123);
    expect((await fs("mv", "worker:from", "worker:elsewhere")).exitCode).to.equal(0);
    expect(readFileSync(user("elsewhere"), "utf8")).to.equal("1");
    expect((await fs("rm", "worker:elsewhere")).exitCode).to.equal(2);
    expect((await fs("rm", "worker:elsewhere", "--yes")).exitCode).to.equal(0);
    expect(existsSync(user("elsewhere"))).to.equal(false);
  });

  it("are in doubt after their helper was killed in the middle of a write, and served again", async () => {
    writeFileSync(user("doomed"), "1");
    const { confirmationToken } = await client.call("node.fs.delete.preview", at("doomed"));
    const killed = await helper();
    process.kill(killed.pid, "SIGSTOP");
    const cut = refusalOf(() => write("cut.txt", "x", { expectedModifiedAtMs: 0 }));
    // Behind it, so that the write is what the helper is at.
    const behind = client.call("node.fs.stat", at("doomed"));
    // The worker takes calls in their order: answered after it, this one proves that the write is there.
    await client.call("node.host.info", { nodeId: worker.nodeId });
    await client.call("node.host.info", { nodeId: worker.nodeId });
    process.kill(killed.pid, "SIGKILL");
    const refusal = await cut;
    expect(refusal).to.include({
      code: "filesystem_outcome_unknown",
      wire: "UNAVAILABLE",
      retrySafe: false,
      mutationMayHaveApplied: true,
    });
    expect(refusal.message).to.include("node.fs.stat").and.not.include("cut.txt");
    expect(await behind).to.include({ size: 1 });
    expect(await helper()).to.not.deep.equal(killed);
    const confirmed = { ...at("doomed"), confirm: "doomed", confirmationToken };
    const voided = await refusalOf(() => client.call("node.fs.delete", confirmed));
    expect(voided.code).to.equal("invalid_confirmation_token");
    expect(existsSync(user("doomed"))).to.equal(true);
  });

  it("are served from the very roots that the worker began with, also by the next helper, whatever bears their name", async () => {
    writeFileSync(user("pinned"), "1");
    expect(await client.call("node.fs.stat", at("pinned"))).to.include({ size: 1 });
    const root = stage.folder("user");
    renameSync(root, `${root}-away`);
    try {
      symlinkSync("/", root);
      for (const isThere of [true, false]) {
        if (!isThere) unlinkSync(root);
        const killed = await helper();
        process.kill(killed.pid, "SIGKILL");
        expect(await waitForEnd(killed, 10_000)).to.equal(true);
        await until("another helper serves", () =>
          client.call("node.fs.stat", at("pinned")).catch(() => undefined),
        );
        expect((await refusalOf(() => client.call("node.fs.list", at("etc")))).code).to.equal(
          "not_found",
        );
        for (const path of ["/etc", worker.home])
          expect((await refusalOf(() => client.call("node.fs.list", at(path)))).code).to.equal(
            "path_not_allowed",
          );
      }
    } finally {
      rmSync(root, { force: true });
      renameSync(`${root}-away`, root);
    }
  });

  it("can not be asked for by a raw invocation", async () => {
    const invoke = { nodeId: worker.nodeId, method: "node.fs.read", args: at("cas.txt") };
    const refusal = await refusalOf(() => client.call("node.invoke", invoke));
    expect(refusal.wire).to.equal("FORBIDDEN");
  });

  it("leave no helper behind a worker that is killed, and no token to its successor", async () => {
    writeFileSync(user("kept"), "1");
    const { confirmationToken } = await client.call("node.fs.delete.preview", at("kept"));
    const identity = await helper();
    await worker.role.end("SIGKILL");
    expect(await waitForEnd(identity, 10_000)).to.equal(true);
    worker = await join_();
    const confirmed = { ...at("kept"), confirm: "kept", confirmationToken };
    const voided = await refusalOf(() => client.call("node.fs.delete", confirmed));
    expect(voided.code).to.equal("invalid_confirmation_token");
    expect(isAlive(await helper())).to.equal(true);
    expect(await client.call("node.fs.stat", at("kept"))).to.include({ size: 1 });
  });

  /** Each call that the worker answered is an event in its log, and counted in what is shown of the node. */
  async function auditTells(): Promise<void> {
    await client.call("node.process.get", { nodeId: worker.nodeId, processId: "never-run" });
    const events = worker.role.log.split("\n").filter((line) => line.includes("node host_io"));
    const told = events.map((line) => {
      const { count, method, outcome, ...rest } = JSON.parse(line);
      expect(Object.keys(rest).sort()).to.deep.equal(["level", "msg", "pid", "time"]);
      return `${count} ${method} ${outcome}`;
    });
    expect(told).to.deep.equal([
      "1 node.fs.delete invalid_confirmation_token",
      "1 node.fs.stat done",
      "1 node.fs.write done",
      "1 node.fs.write revision_conflict",
      "1 node.fs.list done",
      "1 node.fs.read done",
      "1 node.fs.delete.preview done",
      "1 node.fs.stat done",
      "1 node.process.get done",
    ]);
    const shown = await until("the node tells of its calls", async () => {
      const { metadata } = await client.call("node.describe", { nodeId: worker.nodeId });
      return metadata.hostIo?.["node.process.get"] === undefined ? undefined : metadata.hostIo;
    });
    expect(shown).to.include.keys("node.fs.read", "node.fs.list");
    expect(shown["node.fs.write"]).to.deep.equal({ done: 1, refused: 1, unknown: 0 });
  }

  it("leave neither path nor byte in a log or a state folder", async () => {
    await write("canary-of-a-path", "canary-of-the-bytes", { expectedModifiedAtMs: 0 });
    await refusalOf(() => write("canary-of-a-path", "canary-of-the-bytes"));
    await client.call("node.fs.list", at("."));
    const read = await client.call("node.fs.read", at("canary-of-a-path"));
    expect(Buffer.from(read.dataBase64, "base64").toString()).to.equal("canary-of-the-bytes");
    await client.call("node.fs.delete.preview", at("canary-of-a-path"));
    const identity = await helper();
    process.kill(identity.pid, "SIGKILL");
    await until(
      "the helper is another",
      async () => (await helper()).pid !== identity.pid || undefined,
    );
    await client.call("node.fs.stat", at("canary-of-a-path"));
    await auditTells();
    expect(await worker.role.end("SIGTERM")).to.equal(0);
    expect(await controller.role.end("SIGTERM")).to.equal(0);
    for (const canary of ["canary-of-a-path", "canary-of-the-bytes"]) {
      for (const { role, home } of [worker, controller]) {
        expect(holds(Buffer.from(role.log), canary), role.log).to.equal(false);
        expect(filesHolding(home, canary)).to.deep.equal([]);
      }
    }
  });
});

/** The file helper among the children of a worker. */
function helperOf(workerPid: number): ProcessIdentity | undefined {
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const [, parent] = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      const command = readFileSync(`/proc/${name}/cmdline`, "utf8");
      if (Number(parent) === workerPid && command.includes("file-service/helper")) {
        return identityOf(Number(name));
      }
    } catch {
      // Gone meanwhile.
    }
  }
  return undefined;
}
