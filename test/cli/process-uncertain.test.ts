import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import { FakeControlPlane, type PeerConnection, SILENCE } from "../support/fake-control-plane.ts";
import { ManualTimers } from "../support/manual-timers.ts";
import { bare, completed, NODE_ID, nodeList, nodeRow } from "../support/node-rows.ts";
import { ScriptedTerminal, TestShell } from "../support/test-shell.ts";

const GET = `lemon process get ${NODE_ID} t:1`;
const RUN = ["process", "run", "worker-1", "--id", "t:1", "--", "work"] as const;

/** Pauses of the settlement and of the reconnection; other timers are armed for longer. */
const isPause = (delayMs: number) => delayMs <= 5_000;

describe("an uncertain lemon process run", () => {
  let peer: FakeControlPlane;
  let timers: ManualTimers;
  let shell: TestShell;
  let terminal: ScriptedTerminal;

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    peer.on("node.list", () => nodeList(nodeRow()));
    timers = new ManualTimers();
    terminal = new ScriptedTerminal();
    shell = newShell();
  });

  afterEach(async () => {
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
    // Whatever happened, the run was sent once.
    expect(peer.count("node.process.run")).to.be.at.most(1);
  });

  function newShell(more: ConstructorParameters<typeof TestShell>[0] = {}): TestShell {
    return new TestShell({ environment: { LEMON_CONTROLLER: peer.url }, timers, ...more });
  }

  const dropRun = () =>
    peer.on("node.process.run", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });

  /** Lets one pause pass as soon as it begins. */
  async function pass(): Promise<void> {
    timers.advance(await timers.armed(isPause));
  }

  /** Lets one pause after the other pass until the command has ended. */
  async function passUntil(ended: Promise<number>): Promise<void> {
    let open = true;
    void ended.then(() => {
      open = false;
    });
    while (open) await Promise.race([pass(), ended]);
  }

  it("whose line is cut is settled by the receipt, output and exit code included", async () => {
    dropRun().on("node.process.get", ({ processId }) => completed(processId, { exitCode: 7 }));
    expect(await shell.run(...RUN)).to.equal(7);
    expect(shell.stdout.text).to.equal("out\n");
    expect(shell.stderr.text).to.equal(
      "lemon: no certain answer (link_lost); asking for the receipt\n",
    );
    expect(
      peer.requests.map(({ method, connection }) => `${connection.number} ${method}`),
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
      peer
        .on("node.process.run", answer)
        .on("node.process.get", ({ processId }) => completed(processId));
      expect(await shell.run(...RUN)).to.equal(0);
      expect(shell.stdout.text).to.equal("out\n");
    });
  }

  it("keeps asking while the process runs, and prints how it ended", async () => {
    const states = ["running", "running", "completed"] as const;
    dropRun().on("node.process.get", ({ processId }) => {
      const state = states[peer.count("node.process.get") - 1];
      return state === "running" ? bare(processId, state) : completed(processId);
    });
    const ended = shell.run(...RUN);
    await peer.seen("node.process.get", 1);
    await pass();
    await peer.seen("node.process.get", 2);
    await pass();
    expect(await ended).to.equal(0);
  });

  it("keeps asking while the node is away", async () => {
    dropRun().on("node.process.get", ({ processId }) => {
      if (peer.count("node.process.get") === 1) throw new LemonError("node_offline");
      return completed(processId);
    });
    const ended = shell.run(...RUN);
    await peer.seen("node.process.get", 1);
    await pass();
    expect(await ended).to.equal(0);
  });

  it("comes back after a restart of the controller", async () => {
    const { port } = peer;
    peer.on("node.process.run", () => SILENCE);
    const ended = shell.run(...RUN);
    await peer.seen("node.process.run");
    await peer.stop();
    await shell.stderr.said("asking for the receipt");
    const delayMs = await timers.armed((delay) => delay <= 250);
    const second = await FakeControlPlane.start({ port });
    second.on("node.process.get", ({ processId }) => completed(processId));
    timers.advance(delayMs);
    expect(await ended).to.equal(0);
    expect(second.requests.map(({ method }) => method)).to.deep.equal(["node.process.get"]);
    await second.stop();
  });

  it("ends with 125 and the get command when no controller comes back", async () => {
    peer.on("node.process.run", () => SILENCE);
    const ended = shell.run(...RUN);
    await peer.seen("node.process.run");
    await peer.stop();
    await shell.stderr.said("asking for the receipt");
    await timers.armed((delayMs) => delayMs === 30_000);
    timers.advance(30_000);
    expect(await ended).to.equal(125);
    expect(shell.stderr.text).to.match(new RegExp(`ask again with: ${GET}\n$`));
    expect(shell.stdout.text).to.equal("");
  });

  it("says with --json what is uncertain and what settles it", async () => {
    dropRun().on("node.process.get", () => {
      throw new LemonError("forbidden");
    });
    expect(
      await shell.run("process", "run", "worker-1", "--json", "--id", "t:1", "--", "x"),
    ).to.equal(125);
    expect(shell.document).to.have.property("error").that.includes({
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
    dropRun().on("node.process.get", ({ processId }) => bare(processId, "running"));
    const ended = shell.run(...RUN);
    await peer.seen("node.process.get");
    await timers.armed(isPause);
    timers.advance(70_000);
    expect(await ended).to.equal(125);
    expect(shell.stderr.text).to.include("the process still runs").and.include(GET);
  });

  it("doubts an absence for a while, then ends with 125: it was never proven that it can not start", async () => {
    dropRun().on("node.process.get", ({ processId }) => bare(processId, "not_found"));
    const ended = shell.run(...RUN);
    await passUntil(ended);
    expect(await ended).to.equal(125);
    expect(peer.count("node.process.get")).to.be.greaterThan(3);
    expect(shell.stderr.text)
      .to.include("as of now nothing was started")
      .and.include(`lemon process cancel ${NODE_ID} t:1`)
      .and.include(GET);
  });

  it("believes a receipt that appears after an absence", async () => {
    dropRun().on("node.process.get", ({ processId }) =>
      peer.count("node.process.get") === 1
        ? bare(processId, "not_found")
        : completed(processId, { exitCode: 3 }),
    );
    const ended = shell.run(...RUN);
    await peer.seen("node.process.get", 1);
    await pass();
    expect(await ended).to.equal(3);
  });

  it("stops asking when the receipt itself is too large to be answered", async () => {
    dropRun().on("node.process.get", () => {
      throw new LemonError("response_too_large");
    });
    expect(await shell.run(...RUN)).to.equal(125);
    expect(peer.count("node.process.get")).to.equal(1);
  });

  it("survives a line that is cut again while it asks", async () => {
    dropRun().on("node.process.get", ({ processId }, connection) => {
      if (peer.count("node.process.get") < 3) {
        connection.drop();
        return SILENCE;
      }
      return completed(processId);
    });
    const ended = shell.run(...RUN);
    await passUntil(ended);
    expect(await ended).to.equal(0);
  });

  it("whose outcome the node itself does not know ends with 125", async () => {
    dropRun().on("node.process.get", ({ processId }) => bare(processId, "outcome_unknown"));
    expect(await shell.run(...RUN)).to.equal(125);
    expect(shell.stderr.text).to.include("nobody saw its end, and this receipt stays so");
    expect(shell.stderr.text).not.to.include(GET);
  });

  describe("that is interrupted", () => {
    const release = () => Promise.withResolvers<void>();

    it("detaches without a terminal, with the id and the get command", async () => {
      peer.on("node.process.run", () => SILENCE);
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      expect(await ended).to.equal(125);
      expect(shell.stderr.text).to.equal(
        `lemon: Detached; the process may still run\nlemon: ask again with: ${GET}\n`,
      );
      expect(peer.count("node.process.cancel")).to.equal(0);
    });

    for (const signal of ["SIGTERM", "SIGHUP"] as const) {
      it(`detaches on ${signal}, even in front of a terminal`, async () => {
        shell = newShell({ terminal });
        peer.on("node.process.run", () => SILENCE);
        const ended = shell.run(...RUN);
        await peer.seen("node.process.run");
        shell.send(signal);
        expect(await ended).to.equal(125);
        expect(shell.stderr.text).to.include(GET);
        expect(terminal.output.text).to.equal("");
      });
    }

    it("asks at a terminal and keeps waiting when told so; the result passes through as ever", async () => {
      shell = newShell({ terminal });
      const done = release();
      peer.on("node.process.run", async ({ processId }) => {
        await done.promise;
        return completed(processId, { exitCode: 5 });
      });
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      await terminal.output.said("> ");
      expect(terminal.output.text).to.include("t:1").and.include("worker-1").and.include("detach");
      terminal.type("what?");
      await terminal.output.said("c, d or Enter\n> ");
      terminal.type("");
      // A second question, much later, is answered like the first.
      done.resolve();
      expect(await ended).to.equal(5);
      expect(terminal.closed).to.equal(true);
      expect(shell.stdout.text).to.equal("out\n");
    });

    it("begins a line of its own for what is said over an open question", async () => {
      shell = newShell({ terminal });
      peer.on("node.process.run", () => SILENCE);
      const { stderr } = shell;
      const write = stderr.write.bind(stderr);
      stderr.write = (bytes) => {
        expect(terminal.output.text).to.match(/> \n$/);
        return write(bytes);
      };
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      await terminal.output.said("> ");
      shell.send("SIGINT");
      expect(await ended).to.equal(125);
      expect(terminal.output.text).to.match(/> \n$/);
    });

    it("cancels when told so, and ends with what the receipt says", async () => {
      shell = newShell({ terminal });
      const done = release();
      peer
        .on("node.process.run", async ({ processId }) => {
          await done.promise;
          return completed(processId, { state: "cancelled", exitCode: 137 });
        })
        .on("node.process.cancel", ({ processId }) =>
          completed(processId, { state: "cancelled", exitCode: 137 }),
        );
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      await terminal.output.said("> ");
      terminal.type("c");
      expect(await ended).to.equal(137);
      expect(peer.count("node.process.cancel")).to.equal(1);
      done.resolve();
    });

    it("says nothing of a cancel that is still on its way when the run's own answer comes", async () => {
      shell = newShell({ terminal });
      const cancelled = release();
      peer
        .on("node.process.run", async ({ processId }) => {
          await cancelled.promise;
          return bare(processId, "cancelled");
        })
        .on("node.process.cancel", () => {
          cancelled.resolve();
          return SILENCE;
        });
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      await terminal.output.said("> ");
      terminal.type("c");
      expect(await ended).to.equal(126);
      await peer.connections[0]?.closed.promise;
      expect(shell.stderr.text).to.equal(
        "lemon: cancelling\nlemon: the process was cancelled, as you asked; no exit was observed\n",
      );
    });

    it("is interrupted like any command once the run has ended and only its output is left", async () => {
      peer.on("node.process.run", ({ processId }) => completed(processId));
      let listening: number | null = null;
      const { stdout } = shell;
      const write = stdout.write.bind(stdout);
      stdout.write = (bytes) => {
        listening ??= shell.listeners("SIGINT");
        return write(bytes);
      };
      expect(await shell.run(...RUN)).to.equal(0);
      expect(listening).to.equal(0);
    });

    it("detaches when told so", async () => {
      shell = newShell({ terminal });
      peer.on("node.process.run", () => SILENCE);
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      await terminal.output.said("> ");
      terminal.type("d");
      expect(await ended).to.equal(125);
      expect(shell.stderr.text).to.include(GET);
    });

    it("detaches at a second Ctrl-C", async () => {
      shell = newShell({ terminal });
      peer.on("node.process.run", () => SILENCE);
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      await terminal.output.said("> ");
      shell.send("SIGINT");
      expect(await ended).to.equal(125);
      expect(shell.stderr.text).to.include(GET);
      expect(terminal.closed).to.equal(true);
    });

    it("detaches when the terminal hangs up", async () => {
      shell = newShell({ terminal });
      peer.on("node.process.run", () => SILENCE);
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      await terminal.output.said("> ");
      terminal.hangUp();
      expect(await ended).to.equal(125);
    });

    it("takes the question away when the run ends meanwhile", async () => {
      shell = newShell({ terminal });
      const done = release();
      peer.on("node.process.run", async ({ processId }) => {
        await done.promise;
        return completed(processId);
      });
      const ended = shell.run(...RUN);
      await peer.seen("node.process.run");
      shell.send("SIGINT");
      await terminal.output.said("> ");
      done.resolve();
      expect(await ended).to.equal(0);
      expect(peer.count("node.process.cancel")).to.equal(0);
    });

    it("cancels without asking under --on-interrupt cancel, and a second signal detaches", async () => {
      peer
        .on("node.process.run", () => SILENCE)
        .on("node.process.cancel", () => {
          throw new LemonError("process_generation_mismatch");
        });
      const ended = shell.run("process", "run", "--on-interrupt", "cancel", ...RUN.slice(2));
      await peer.seen("node.process.run");
      shell.send("SIGTERM");
      await shell.stderr.said("still waiting");
      shell.send("SIGTERM");
      expect(await ended).to.equal(125);
      expect(shell.stderr.text).to.include("the cancel failed").and.include(GET);
      expect(peer.count("node.process.cancel")).to.equal(1);
    });

    it("can be cancelled while its receipt is asked for", async () => {
      shell = newShell({ terminal });
      dropRun()
        .on("node.process.get", ({ processId }) => bare(processId, "running"))
        .on("node.process.cancel", ({ processId }) => bare(processId, "cancelled"));
      const ended = shell.run(...RUN);
      await peer.seen("node.process.get");
      await timers.armed(isPause);
      shell.send("SIGINT");
      await terminal.output.said("> ");
      terminal.type("c");
      expect(await ended).to.equal(126);
      expect(peer.requests.at(-1)).to.include({ method: "node.process.cancel" });
    });

    it("can be left while its receipt is asked for, and asks no more", async () => {
      dropRun().on("node.process.get", ({ processId }) => bare(processId, "running"));
      const ended = shell.run(...RUN);
      await peer.seen("node.process.get");
      await timers.armed(isPause);
      shell.send("SIGINT");
      expect(await ended).to.equal(125);
      const asked = peer.count("node.process.get");
      timers.advance(60_000);
      expect(peer.count("node.process.get")).to.equal(asked);
    });

    it("before anything is sent is none of its business: the signal keeps its default", async () => {
      const listed = release();
      peer.on("node.list", async () => {
        await listed.promise;
        return nodeList(nodeRow());
      });
      peer.on("node.process.run", ({ processId }) => completed(processId));
      const ended = shell.run(...RUN);
      await peer.seen("node.list");
      expect(shell.listeners("SIGINT")).to.equal(0);
      listed.resolve();
      expect(await ended).to.equal(0);
      expect(shell.listeners("SIGINT")).to.equal(0);
    });
  });
});
