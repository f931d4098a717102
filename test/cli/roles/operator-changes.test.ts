import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { waitForEnd } from "../../../host/process-identity.ts";
import { refusalOf } from "../../support/refusal.ts";
import type { RoleProcess } from "../../support/role-process.ts";
import {
  managedToken,
  RoleStage,
  type StartedController,
  type StartedNode,
} from "../../support/role-stage.ts";
import { beginRun } from "../../support/stage-runs.ts";

interface Row {
  readonly name: string;
  readonly nodeId: string;
  readonly status: string;
}

describe("an operator's change of a node, by the command", () => {
  let stage: RoleStage;
  let controller: StartedController;
  let joining: Readonly<Record<string, string>>;
  let first: StartedNode;
  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start");
    joining = { LEMON_NODE_OPERATOR_TOKEN: managedToken(controller) };
    first = await stage.node(controller, { name: "first", environment: joining });
  });
  after(() => stage[Symbol.asyncDispose]());

  /** `lemon <words> --json` at the controller that runs here, which it finds by itself. */
  async function lemon(...words: readonly string[]) {
    const ended = await stage.lemon([...words, "--json"], { LEMON_HOME: controller.home });
    const document: unknown = JSON.parse(ended.stdout.toString());
    return { exitCode: ended.exitCode, stderr: ended.stderr, document };
  }

  async function rows(): Promise<readonly Row[]> {
    const { exitCode, document } = await lemon("node", "list");
    expect(exitCode).to.equal(0);
    return (document as { readonly nodes: readonly Row[] }).nodes;
  }

  /** Starts `lemon node join` where the node was joined before, to be refused. */
  async function expectRefused(
    node: Pick<StartedNode, "name" | "home">,
    refusal: {
      readonly words?: readonly string[];
      readonly environment?: Readonly<Record<string, string>>;
      readonly code: string;
      readonly line: RegExp;
    },
  ): Promise<void> {
    const role = rejoin(node, refusal.words ?? [], refusal.environment ?? {});
    const said = await role.said("failed");
    expect((await role.ended()).exitCode, role.log).to.equal(2);
    expect(said["error"]).to.include({ code: refusal.code });
    expect(role.log)
      .to.match(/^lemon: [^\n]*\n$/)
      .and.match(refusal.line);
  }

  function rejoin(
    { name, home }: Pick<StartedNode, "name" | "home">,
    words: readonly string[],
    environment: Readonly<Record<string, string>>,
  ): RoleProcess {
    const join = ["node", "join", "--name", name, "--controller", controller.url];
    return stage.role([...join, ...words], home, { LEMON_LOG_LEVEL: "warn", ...environment });
  }

  it("shows each node that is enrolled, its machine and its worker's life", async () => {
    expect(await rows()).to.have.length(1);
    const { exitCode, document, stderr } = await lemon("node", "show", "first");
    expect({ exitCode, stderr }).to.deep.equal({ exitCode: 0, stderr: "" });
    expect(document).to.deep.include({ nodeId: first.nodeId, name: "first", status: "online" });
    expect(document).to.have.nested.property("metadata.generation", 1);
    expect(document).to.have.nested.property("metadata.receiptStore", "ready");
    expect(document).to.have.nested.property("host.cpuCount").that.is.greaterThan(0);
    expect((await lemon("node", "show", "nobody")).exitCode).to.equal(122);
  });

  it("renames one, unless another has the name; its worker comes back under the new name", async () => {
    const home = join(stage.path, "renamed");
    const node = await stage.node(controller, { name: "before", home, environment: joining });
    const taken = await lemon("node", "rename", "before", "first");
    expect(taken.exitCode).to.equal(123);
    expect(taken.document).to.have.nested.property("error.code", "node_name_in_use");
    expect(taken.stderr).to.equal("lemon: Node name is already in use\n");

    expect((await lemon("node", "rename", "before", "after")).exitCode).to.equal(0);
    expect((await lemon("node", "show", "before")).exitCode).to.equal(122);
    const shown = await lemon("node", "show", "after");
    expect(shown.document).to.include({ nodeId: node.nodeId, status: "online" });
    expect(shown.document).to.have.nested.property("metadata.generation", node.generation);

    expect(await node.role.end("SIGTERM")).to.equal(0);
    const again = await stage.node(controller, { name: "before", home });
    expect(again.nodeId).to.equal(node.nodeId);
    expect(await again.role.said("joined")).to.include({ name: "after" });
    expect(await again.role.end("SIGTERM")).to.equal(0);
  });

  it("revokes one: its runs are stopped, its worker ends with 2, and only --repair brings it back", async () => {
    const home = join(stage.path, "revoked");
    const node = await stage.node(controller, { name: "suspect", home, environment: joining });
    const { nodeId } = node;
    const client = await stage.client(controller.url, managedToken(controller));
    const run = await beginRun(stage, client, nodeId, "cut-off");
    const revoked = await lemon("node", "revoke", "suspect");
    expect(revoked).to.deep.include({ exitCode: 0, document: { nodeId, revoked: true } });
    expect(await refusalOf(() => run.receipt)).to.include({
      code: "process_outcome_unknown",
      mutationMayHaveApplied: true,
    });
    expect((await node.role.ended()).exitCode).to.equal(2);
    expect(await node.role.said("failed")).to.have.nested.property("error.code", "node_revoked");
    for (const process of run.processes) expect(await waitForEnd(process, 0)).to.equal(true);
    const row = (await rows()).find((one) => one.nodeId === nodeId);
    expect(row).to.include({ name: "suspect", status: "offline" });
    const shown = await lemon("node", "show", nodeId);
    expect(shown.document).to.have.nested.property("metadata.revoked", true);
    const asked = await lemon("process", "get", nodeId, "cut-off");
    expect(asked.exitCode).to.equal(121);
    expect(asked.document).to.have.nested.property("error.code", "node_offline");

    const line = /^lemon: An operator revoked this node; join it again with .* and --repair$/m;
    await expectRefused(node, { code: "node_revoked", line });
    await expectRefused(node, {
      words: ["--token", storedToken(home)],
      code: "node_revoked",
      line,
    });
    await expectRefused(node, { environment: joining, code: "node_revoked", line });

    const repaired = await stage.node(controller, {
      name: "suspect",
      home,
      words: ["--repair"],
      environment: joining,
    });
    expect(repaired).to.include({ nodeId, generation: node.generation + 1 });
    const receipt = await lemon("process", "get", nodeId, "cut-off");
    expect(receipt.document).to.include({ state: "cancelled", exitCode: 137 });
    expect(await repaired.role.end("SIGTERM")).to.equal(0);
  });

  it("removes one: its worker ends with 2, its name is free, its id is nobody's ever after", async () => {
    const home = join(stage.path, "removed");
    const node = await stage.node(controller, { name: "leaver", home, environment: joining });
    const { nodeId } = node;
    const token = storedToken(home);
    const removed = await lemon("node", "remove", "leaver");
    expect(removed).to.deep.include({ exitCode: 0, document: { nodeId, removed: true } });
    expect((await node.role.ended()).exitCode).to.equal(2);
    expect((await rows()).map((row) => row.nodeId)).to.not.include(nodeId);
    for (const selector of ["leaver", nodeId])
      expect((await lemon("node", "show", selector)).exitCode).to.equal(122);
    expect((await lemon("process", "get", nodeId, "any")).exitCode).to.equal(122);

    const fresh = join(stage.path, "fresh");
    const next = await stage.node(controller, {
      name: "leaver",
      home: fresh,
      environment: joining,
    });
    expect(next.nodeId).to.not.equal(nodeId);
    expect(next.generation).to.equal(1);
    await expectRefused(node, { code: "unauthorized", line: /./ });
    await expectRefused(node, { words: ["--token", token], code: "unauthorized", line: /./ });
    for (const words of [[], ["--node-id", nodeId, "--repair"]]) {
      await expectRefused(node, {
        words,
        environment: joining,
        code: "node_not_found",
        line: /^lemon: The controller knows no such node any more; join a new one .*--pair$/m,
      });
    }
    expect((await rows()).map((row) => row.nodeId)).to.not.include(nodeId);
    expect(await next.role.end("SIGTERM")).to.equal(0);
  });
});

/** The session token that a machine keeps of its one enrolment. */
function storedToken(home: string): string {
  const folder = join(home, "nodes", "execution");
  const [file = ""] = readdirSync(folder);
  const stored: { readonly token: string } = JSON.parse(readFileSync(join(folder, file), "utf8"));
  return stored.token;
}
