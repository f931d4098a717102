/** Proves what a signal does to `lemon process run`, in front of a terminal and without one. */
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { SILENCE } from "../../support/fake-control-plane.ts";
import { bare, completed, nodeList, nodeRow } from "../../support/node-rows.ts";
import { GET, isPause, ProcessCommand } from "../../support/process-command.ts";

describe("a lemon process run that is interrupted", () => {
  let command: ProcessCommand;
  beforeEach(async () => {
    command = await ProcessCommand.openBent();
  });
  afterEach(async () => {
    await command.close();
    // Whatever happened, the run was sent once.
    expect(command.peer.count("node.process.run")).to.be.at.most(1);
  });

  const release = () => Promise.withResolvers<void>();

  it("detaches without a terminal, with the id and the get command", async () => {
    command.peer.on("node.process.run", () => SILENCE);
    const { ended } = await command.sent();
    command.shell.send("SIGINT");
    expect(await ended).to.equal(125);
    expect(command.shell.stderr.text).to.equal(
      `lemon: Detached; the process may still run\nlemon: ask again with: ${GET}\n`,
    );
    expect(command.peer.count("node.process.cancel")).to.equal(0);
  });

  for (const signal of ["SIGTERM", "SIGHUP"] as const) {
    it(`detaches on ${signal}, even in front of a terminal`, async () => {
      command.toTerminal();
      command.peer.on("node.process.run", () => SILENCE);
      const { ended } = await command.sent();
      command.shell.send(signal);
      expect(await ended).to.equal(125);
      expect(command.shell.stderr.text).to.include(GET);
      expect(command.terminal.output.text).to.equal("");
    });
  }

  it("asks at a terminal and keeps waiting when told so; the result passes through as ever", async () => {
    const done = release();
    command.peer.on("node.process.run", async ({ processId }) => {
      await done.promise;
      return completed(processId, { exitCode: 5 });
    });
    const { ended } = await command.asked();
    expect(command.terminal.output.text)
      .to.include("t:1")
      .and.include("worker-1")
      .and.include("detach");
    command.terminal.type("what?");
    await command.terminal.output.said("c, d or Enter\n> ");
    command.terminal.type("");
    // A second question, much later, is answered like the first.
    done.resolve();
    expect(await ended).to.equal(5);
    expect(command.terminal.closed).to.equal(true);
    expect(command.shell.stdout.text).to.equal("out\n");
  });

  it("begins a line of its own for what is said over an open question", async () => {
    command.peer.on("node.process.run", () => SILENCE);
    command.toTerminal();
    const { stderr } = command.shell;
    const write = stderr.write.bind(stderr);
    stderr.write = (bytes) => {
      expect(command.terminal.output.text).to.match(/> \n$/);
      return write(bytes);
    };
    const { ended } = await command.sent();
    await command.interrupt();
    command.shell.send("SIGINT");
    expect(await ended).to.equal(125);
    expect(command.terminal.output.text).to.match(/> \n$/);
  });

  it("cancels when told so, and ends with what the receipt says", async () => {
    const done = release();
    command.peer
      .on("node.process.run", async ({ processId }) => {
        await done.promise;
        return completed(processId, { state: "cancelled", exitCode: 137 });
      })
      .on("node.process.cancel", ({ processId }) =>
        completed(processId, { state: "cancelled", exitCode: 137 }),
      );
    const { ended } = await command.asked();
    command.terminal.type("c");
    expect(await ended).to.equal(137);
    expect(command.peer.count("node.process.cancel")).to.equal(1);
    done.resolve();
  });

  it("says nothing of a cancel that is still on its way when the run's own answer comes", async () => {
    const cancelled = release();
    command.peer
      .on("node.process.run", async ({ processId }) => {
        await cancelled.promise;
        return bare(processId, "cancelled");
      })
      .on("node.process.cancel", () => {
        cancelled.resolve();
        return SILENCE;
      });
    const { ended } = await command.asked();
    command.terminal.type("c");
    expect(await ended).to.equal(126);
    await command.peer.connections[0]?.closed.promise;
    expect(command.shell.stderr.text).to.equal(
      "lemon: cancelling\nlemon: the process was cancelled, as you asked; no exit was observed\n",
    );
  });

  it("is interrupted like any command once the run has ended and only its output is left", async () => {
    command.peer.on("node.process.run", ({ processId }) => completed(processId));
    let listening: number | null = null;
    const { stdout } = command.shell;
    const write = stdout.write.bind(stdout);
    stdout.write = (bytes) => {
      listening ??= command.shell.listeners("SIGINT");
      return write(bytes);
    };
    expect(await command.toItsEnd()).to.equal(0);
    expect(listening).to.equal(0);
  });

  it("detaches when told so", async () => {
    command.peer.on("node.process.run", () => SILENCE);
    const { ended } = await command.asked();
    command.terminal.type("d");
    expect(await ended).to.equal(125);
    expect(command.shell.stderr.text).to.include(GET);
  });

  it("detaches at a second Ctrl-C", async () => {
    command.peer.on("node.process.run", () => SILENCE);
    const { ended } = await command.asked();
    command.shell.send("SIGINT");
    expect(await ended).to.equal(125);
    expect(command.shell.stderr.text).to.include(GET);
    expect(command.terminal.closed).to.equal(true);
  });

  it("detaches when the terminal hangs up", async () => {
    command.peer.on("node.process.run", () => SILENCE);
    const { ended } = await command.asked();
    command.terminal.hangUp();
    expect(await ended).to.equal(125);
  });

  it("takes the question away when the run ends meanwhile", async () => {
    const done = release();
    command.peer.on("node.process.run", async ({ processId }) => {
      await done.promise;
      return completed(processId);
    });
    const { ended } = await command.asked();
    done.resolve();
    expect(await ended).to.equal(0);
    expect(command.peer.count("node.process.cancel")).to.equal(0);
  });

  it("cancels without asking under --on-interrupt cancel, and a second signal detaches", async () => {
    command.peer
      .on("node.process.run", () => SILENCE)
      .on("node.process.cancel", () => {
        throw new LemonError("process_generation_mismatch");
      });
    const { ended } = await command.sent("--on-interrupt", "cancel");
    command.shell.send("SIGTERM");
    await command.shell.stderr.said("still waiting");
    command.shell.send("SIGTERM");
    expect(await ended).to.equal(125);
    expect(command.shell.stderr.text).to.include("the cancel failed").and.include(GET);
    expect(command.peer.count("node.process.cancel")).to.equal(1);
  });

  it("can be cancelled while its receipt is asked for", async () => {
    command.toTerminal();
    command
      .dropRun()
      .on("node.process.get", ({ processId }) => bare(processId, "running"))
      .on("node.process.cancel", ({ processId }) => bare(processId, "cancelled"));
    const ended = command.toItsEnd();
    await command.peer.seen("node.process.get");
    await command.timers.armed(isPause);
    await command.interrupt();
    command.terminal.type("c");
    expect(await ended).to.equal(126);
    expect(command.peer.requests.at(-1)).to.include({ method: "node.process.cancel" });
  });

  it("can be left while its receipt is asked for, and asks no more", async () => {
    command.dropRun().on("node.process.get", ({ processId }) => bare(processId, "running"));
    const ended = command.toItsEnd();
    await command.peer.seen("node.process.get");
    await command.timers.armed(isPause);
    command.shell.send("SIGINT");
    expect(await ended).to.equal(125);
    const asked = command.peer.count("node.process.get");
    command.timers.advance(60_000);
    expect(command.peer.count("node.process.get")).to.equal(asked);
  });

  it("before anything is sent is none of its business: the signal keeps its default", async () => {
    const listed = release();
    command.peer.on("node.list", async () => {
      await listed.promise;
      return nodeList(nodeRow());
    });
    command.peer.on("node.process.run", ({ processId }) => completed(processId));
    const ended = command.toItsEnd();
    await command.peer.seen("node.list");
    expect(command.shell.listeners("SIGINT")).to.equal(0);
    listed.resolve();
    expect(await ended).to.equal(0);
    expect(command.shell.listeners("SIGINT")).to.equal(0);
  });
});
