/** Proves how `lemon process run` settles a run of which no certain answer came. */
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import {
  FakeControlPlane,
  type PeerConnection,
  SILENCE,
} from "../../support/fake-control-plane.ts";
import { bare, completed, NODE_ID } from "../../support/node-rows.ts";
import { GET, isPause, ProcessCommand } from "../../support/process-command.ts";

describe("an uncertain lemon process run", () => {
  let command: ProcessCommand;
  beforeEach(async () => {
    command = await ProcessCommand.openBent();
  });
  afterEach(async () => {
    await command.close();
    // Whatever happened, the run was sent once.
    expect(command.peer.count("node.process.run")).to.be.at.most(1);
  });

  it("whose line is cut is settled by the receipt, output and exit code included", async () => {
    command
      .dropRun()
      .on("node.process.get", ({ processId }) => completed(processId, { exitCode: 7 }));
    expect(await command.toItsEnd()).to.equal(7);
    expect(command.shell.stdout.text).to.equal("out\n");
    expect(command.shell.stderr.text).to.equal(
      "lemon: no certain answer (link_lost); asking for the receipt\n",
    );
    expect(
      command.peer.requests.map(({ method, connection }) => `${connection.number} ${method}`),
    ).to.deep.equal(["1 node.list", "1 node.process.run", "2 node.process.get"]);
  });

  for (const [name, answer] of [
    [
      "the controller says that it may have happened",
      () => {
        throw new LemonError("timeout");
      },
    ],
    [
      "the answer can not be read",
      (_params: unknown, connection: PeerConnection): typeof SILENCE => {
        connection.raw(`{"type":"res","id":"c2","ok":true,"payload":{}}`);
        return SILENCE;
      },
    ],
    [
      "the peer sends rubbish",
      (_params: unknown, connection: PeerConnection): typeof SILENCE => {
        connection.raw("rubbish");
        return SILENCE;
      },
    ],
    [
      "the peer closes",
      (_params: unknown, connection: PeerConnection): typeof SILENCE => {
        connection.close(1012, "restart");
        return SILENCE;
      },
    ],
  ] as const) {
    it(`is settled by the receipt when ${name}`, async () => {
      command.peer
        .on("node.process.run", answer)
        .on("node.process.get", ({ processId }) => completed(processId));
      expect(await command.toItsEnd()).to.equal(0);
      expect(command.shell.stdout.text).to.equal("out\n");
    });
  }

  it("keeps asking while the process runs, and prints how it ended", async () => {
    const states = ["running", "running", "completed"] as const;
    command.dropRun().on("node.process.get", ({ processId }) => {
      const state = states[command.peer.count("node.process.get") - 1];
      return state === "running" ? bare(processId, state) : completed(processId);
    });
    const ended = command.toItsEnd();
    await command.peer.seen("node.process.get", 1);
    await command.pass();
    await command.peer.seen("node.process.get", 2);
    await command.pass();
    expect(await ended).to.equal(0);
  });

  it("keeps asking while the node is away", async () => {
    command.dropRun().on("node.process.get", ({ processId }) => {
      if (command.peer.count("node.process.get") === 1) throw new LemonError("node_offline");
      return completed(processId);
    });
    const ended = command.toItsEnd();
    await command.peer.seen("node.process.get", 1);
    await command.pass();
    expect(await ended).to.equal(0);
  });

  it("comes back after a restart of the controller", async () => {
    const { port } = command.peer;
    command.peer.on("node.process.run", () => SILENCE);
    const { ended } = await command.sent();
    await command.peer.stop();
    await command.shell.stderr.said("asking for the receipt");
    const delayMs = await command.timers.armed((delay) => delay <= 250);
    const second = await FakeControlPlane.start({ port });
    second.on("node.process.get", ({ processId }) => completed(processId));
    command.timers.advance(delayMs);
    expect(await ended).to.equal(0);
    expect(second.requests.map(({ method }) => method)).to.deep.equal(["node.process.get"]);
    await second.stop();
  });

  it("ends with 125 and the get command when no controller comes back", async () => {
    command.peer.on("node.process.run", () => SILENCE);
    const { ended } = await command.sent();
    await command.peer.stop();
    await command.shell.stderr.said("asking for the receipt");
    await command.timers.armed((delayMs) => delayMs === 30_000);
    command.timers.advance(30_000);
    expect(await ended).to.equal(125);
    expect(command.shell.stderr.text).to.match(new RegExp(`ask again with: ${GET}\n$`));
    expect(command.shell.stdout.text).to.equal("");
  });

  it("says with --json what is uncertain and what settles it", async () => {
    command.dropRun().on("node.process.get", () => {
      throw new LemonError("forbidden");
    });
    expect(
      await command.shell.run("process", "run", "worker-1", "--json", "--id", "t:1", "--", "x"),
    ).to.equal(125);
    expect(command.shell.document).to.have.property("error").that.includes({
      code: "link_lost",
      mutationMayHaveApplied: true,
      retrySafe: false,
      exitCode: 125,
      processId: "t:1",
      nodeId: NODE_ID,
      settle: GET,
    });
  });

  it("ends with 125 when the process outlives its own time, and says that it runs", async () => {
    command.dropRun().on("node.process.get", ({ processId }) => bare(processId, "running"));
    const ended = command.toItsEnd();
    await command.peer.seen("node.process.get");
    await command.timers.armed(isPause);
    command.timers.advance(70_000);
    expect(await ended).to.equal(125);
    expect(command.shell.stderr.text).to.include("the process still runs").and.include(GET);
  });

  it("doubts an absence for a while, then ends with 125: it was never proven that it can not start", async () => {
    command.dropRun().on("node.process.get", ({ processId }) => bare(processId, "not_found"));
    const ended = command.toItsEnd();
    await command.passUntil(ended);
    expect(await ended).to.equal(125);
    expect(command.peer.count("node.process.get")).to.be.greaterThan(3);
    expect(command.shell.stderr.text)
      .to.include("as of now nothing was started")
      .and.include(`lemon process cancel ${NODE_ID} t:1`)
      .and.include(GET);
  });

  it("believes a receipt that appears after an absence", async () => {
    command
      .dropRun()
      .on("node.process.get", ({ processId }) =>
        command.peer.count("node.process.get") === 1
          ? bare(processId, "not_found")
          : completed(processId, { exitCode: 3 }),
      );
    const ended = command.toItsEnd();
    await command.peer.seen("node.process.get", 1);
    await command.pass();
    expect(await ended).to.equal(3);
  });

  it("stops asking when the receipt itself is too large to be answered", async () => {
    command.dropRun().on("node.process.get", () => {
      throw new LemonError("response_too_large");
    });
    expect(await command.toItsEnd()).to.equal(125);
    expect(command.peer.count("node.process.get")).to.equal(1);
  });

  it("survives a line that is cut again while it asks", async () => {
    command.dropRun().on("node.process.get", ({ processId }, connection) => {
      if (command.peer.count("node.process.get") < 3) {
        connection.drop();
        return SILENCE;
      }
      return completed(processId);
    });
    const ended = command.toItsEnd();
    await command.passUntil(ended);
    expect(await ended).to.equal(0);
  });

  it("whose outcome the node itself does not know ends with 125", async () => {
    command.dropRun().on("node.process.get", ({ processId }) => bare(processId, "outcome_unknown"));
    expect(await command.toItsEnd()).to.equal(125);
    expect(command.shell.stderr.text).to.include("nobody saw its end, and this receipt stays so");
    expect(command.shell.stderr.text).not.to.include(GET);
  });
});
