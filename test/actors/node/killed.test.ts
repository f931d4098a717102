/** Proves what is left of a controller that is killed after any of its words to the store or to the hub. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import type { NodeRecord } from "../../../actors/node/record.ts";
import {
  controllerOn,
  type Ground,
  type NodeController,
  startGround,
} from "../../support/node-controller.ts";
import { caller, opening, operator } from "../../support/nodes-room.ts";

const PROGRAM = fileURLToPath(new URL("../../support/fleet-program.ts", import.meta.url));

interface Acknowledged {
  readonly what: string;
  readonly nodeId?: string;
  readonly generation?: number;
}

type Program = ChildProcessByStdio<Writable, Readable, null>;

describe("a controller that is killed", () => {
  let ground: Ground;
  const programs = new Set<Program>();

  before(async () => {
    ground = await startGround();
  });
  after(async () => {
    for (const program of programs) program.kill("SIGKILL");
    await ground[Symbol.asyncDispose]();
  });

  function prepare(name: string): Program {
    const program = spawn(
      process.execPath,
      [PROGRAM, ground.folder.path, ground.hub.child.clientUrl, name],
      {
        stdio: ["pipe", "pipe", "inherit"],
        // Many short lives of one program: what one compiled the next need not.
        env: { ...process.env, NODE_COMPILE_CACHE: join(ground.folder.path, "compiled") },
      },
    );
    programs.add(program);
    return program;
  }

  /** Lets it run until it ends, by its own hand after `words`, or because it is done. */
  async function run(program: Program, words: number): Promise<Acknowledged[]> {
    const ended = once(program, "close");
    let said = "";
    program.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    program.stdin.end(`${words}\n`);
    await ended;
    programs.delete(program);
    return said
      .split("\n")
      .filter((line) => line !== "")
      .map((line): Acknowledged => JSON.parse(line));
  }

  it("loses nothing it acknowledged, leaves nothing half visible, and a repeat completes the rest", async () => {
    let done = false;
    let words = 0;
    let next = prepare("worker-1");
    while (!done) {
      words += 1;
      const program = next;
      next = prepare(`worker-${words + 1}`);
      const said = await run(program, words);
      done = said.at(-1)?.what === "done";
      await using controller = await controllerOn(ground);
      await checkAndComplete(controller, said, `worker-${words}`);
    }
    // Fewer words than this program has to say would mean that it was not killed between them.
    expect(words).to.be.greaterThan(15);
  });

  async function checkAndComplete(
    controller: NodeController,
    said: readonly Acknowledged[],
    name: string,
  ): Promise<void> {
    const { methods } = controller.nodes;
    const acknowledged = (what: string) => said.filter((one) => one.what === what);
    const records = (await controller.documents.list()).map(({ value }) => value);
    const [record] = records;
    expect(records.length).to.be.at.most(1);

    // What was acknowledged stands.
    const [approved] = acknowledged("approved");
    if (approved !== undefined && acknowledged("removed").length === 0) {
      if (record === undefined) expect(acknowledged("opened")).to.have.length(3);
      else expect(record.nodeId).to.equal(approved.nodeId);
    }
    if (acknowledged("removed").length > 0) expect(record).to.equal(undefined);
    if (record !== undefined) checkRecord(record, said, name);

    // No account is left that no record names.
    for (const account of controller.link.nodes()) expect(record?.nodeKey).to.equal(account);

    // A repeat gets from wherever it stands to a serving node, and to none.
    if (record !== undefined) {
      const before = record.generation;
      const again = await serve(
        controller,
        record.sessionGeneration === 0 ? null : record.nodeId,
        name,
      );
      expect(again.generation).to.equal(before + 1);
      const after = await controller.documents.get(record.nodeId);
      expect(after?.value.uncutLinkKeys).to.deep.equal([]);
      await methods["node.remove"]({ nodeId: record.nodeId }, operator());
    }
    expect((await methods["node.list"]({}, operator())).nodes).to.deep.equal([]);
    expect(await controller.documents.list()).to.deep.equal([]);
    expect(controller.link.nodes()).to.deep.equal([]);
  }

  function checkRecord(record: NodeRecord, said: readonly Acknowledged[], name: string): void {
    const acknowledged = (what: string) => said.filter((one) => one.what === what);
    const sessions = acknowledged("session").length;
    expect(record.sessionGeneration).to.be.at.least(sessions > 0 ? 1 : 0);
    const generation = acknowledged("opened").at(-1)?.generation ?? 0;
    expect(record.generation).to.be.within(generation, generation + 1);
    if (acknowledged("renamed").length > 0) expect(record.name).to.equal(`${name}-renamed`);
    else expect([name, `${name}-renamed`]).to.include(record.name);
    if (acknowledged("revoked").length > 0 && sessions < 2) {
      expect(record.revocations).to.equal(1);
      if (acknowledged("approved").length < 2) expect(record.revoked).to.equal(true);
    }
    // Nobody serves that was revoked.
    if (record.revoked) expect(record.life).to.equal(null);
  }

  /** Joins anew when the machine never got a session, and by an operator's repair when it did. */
  async function serve(controller: NodeController, nodeId: string | null, name: string) {
    const { methods, sessionTokens } = controller.nodes;
    const asked = { nodeType: "coding_agent", nodeName: name };
    const { pairingId } = await methods["node.pair.request"](
      nodeId === null ? asked : { ...asked, nodeId, repair: true },
      operator(),
    );
    const approved = await methods["node.pair.approve"]({ pairingId }, operator());
    const { token } = await methods["connect.challenge"](
      { challenge: approved.challengeToken },
      operator(),
    );
    const identity = await sessionTokens.identify(token);
    if (identity === null || identity === "expired") throw new Error("refused");
    return await methods["node.link.open"](opening(), caller(identity));
  }
});
