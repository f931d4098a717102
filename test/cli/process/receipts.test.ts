import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { FakeControlPlane, SILENCE } from "../../support/fake-control-plane.ts";
import { ManualTimers } from "../../support/manual-timers.ts";
import { bare, base64, completed, NODE_ID, nodeList, nodeRow } from "../../support/node-rows.ts";
import { TestShell } from "../../support/test-shell.ts";

describe("lemon process", () => {
  let peer: FakeControlPlane;
  let timers: ManualTimers;
  let shell: TestShell;

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    peer.on("node.list", () => nodeList(nodeRow()));
    timers = new ManualTimers();
    shell = newShell();
  });

  afterEach(async () => {
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
  });

  function newShell(): TestShell {
    return new TestShell({ environment: { LEMON_CONTROLLER: peer.url }, timers });
  }

  const states = [
    { receipt: completed("t:1", { exitCode: 7 }), exitCode: 0, output: 7 },
    { receipt: bare("t:1", "running"), exitCode: 0, output: 125 },
    { receipt: bare("t:1", "cancelled"), exitCode: 126, output: 126 },
    {
      receipt: completed("t:1", { state: "cancelled", exitCode: 137 }),
      exitCode: 0,
      output: 137,
    },
    { receipt: bare("t:1", "outcome_unknown"), exitCode: 125, output: 125 },
    { receipt: bare("t:1", "not_found"), exitCode: 122, output: 122 },
  ] as const;
  for (const { receipt, exitCode, output } of states) {
    const what = `${receipt.state}${receipt.exitCode === null ? "" : ` with ${receipt.exitCode}`}`;
    it(`get ends with ${exitCode} for a receipt that reads ${what}`, async () => {
      peer.on("node.process.get", () => receipt);
      expect(await shell.run("process", "get", "worker-1", "t:1")).to.equal(exitCode);
      expect(shell.stdout.text).to.match(new RegExp(`^state +${receipt.state}$`, "m"));
      shell = newShell();
      expect(await shell.run("process", "get", NODE_ID, "t:1", "--json")).to.equal(exitCode);
      expect(shell.document).to.deep.equal(receipt);
    });

    it(`get --output ends with ${output} for one that reads ${what}, as the run would have`, async () => {
      peer.on("node.process.get", () => receipt);
      expect(await shell.run("process", "get", "worker-1", "t:1", "--output")).to.equal(output);
      expect(shell.stdout.text).to.equal(receipt.stdoutBase64 === null ? "" : "out\n");
    });
  }

  it("get says what a state means, and nothing of output that there never was", async () => {
    const told: readonly (readonly [Parameters<typeof bare>[1], RegExp])[] = [
      ["not_found", /^meaning +its id was never used on this node$/m],
      ["running", /^meaning +its end is not known yet/m],
      ["cancelled", /^meaning +it never ran, or was stopped .* its id is spent$/m],
      ["outcome_unknown", /^meaning +nobody saw its end, and this receipt stays so/m],
    ];
    for (const [state, meaning] of told) {
      peer.on("node.process.get", () => bare("t:1", state));
      shell = newShell();
      await shell.run("process", "get", "worker-1", "t:1");
      expect(shell.stdout.text)
        .to.match(meaning)
        .and.not.match(/^(?:stdout|cut off|output)/m);
    }
    peer.on("node.process.get", () =>
      completed("t:1", { stdoutBase64: null, stderrBase64: null, outputTruncated: true }),
    );
    shell = newShell();
    await shell.run("process", "get", "worker-1", "t:1");
    expect(shell.stdout.text).to.match(/^output +no longer available$/m);
    peer.on("node.process.get", () => completed("t:1", { outputTruncated: true }));
    shell = newShell();
    await shell.run("process", "get", "worker-1", "t:1");
    expect(shell.stdout.text).to.match(/^cut off +yes, at its bound$/m);
  });

  it("get passes bytes through with --output, and only counts them without", async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    peer.on("node.process.get", ({ processId }) =>
      completed(processId, { stdoutBase64: base64(bytes), stderrBase64: base64("e") }),
    );
    await shell.run("process", "get", "worker-1", "t:1");
    expect(shell.stdout.text)
      .to.match(/^stdout +256 B$/m)
      .and.match(/^stderr +1 B$/m);
    shell = newShell();
    await shell.run("process", "get", "worker-1", "t:1", "--output");
    expect([...shell.stdout.bytes]).to.deep.equal([...bytes]);
    expect(shell.stderr.text).to.equal("e");
  });

  it("get of a node that is away is an error, never an absence", async () => {
    peer.on("node.process.get", () => {
      throw new LemonError("node_offline");
    });
    expect(await shell.run("process", "get", "worker-1", "t:1")).to.equal(121);
    expect(shell.stdout.text).to.equal("");
  });

  it("get whose line is cut ends with 1, and says nothing of an outcome", async () => {
    peer.on("node.process.get", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
    expect(await shell.run("process", "get", "worker-1", "t:1", "--json")).to.equal(1);
    expect(shell.document).to.have.property("error").that.includes({
      code: "link_lost",
      retrySafe: true,
      mutationMayHaveApplied: false,
    });
  });

  for (const verb of ["get", "cancel"] as const) {
    it(`${verb} ends with 2 for an id outside its alphabet, before anything is sent`, async () => {
      expect(await shell.run("process", verb, "worker-1", "a b")).to.equal(2);
      expect(shell.stderr.text).to.match(/^lemon: ID must be 1 to 128/);
      expect(peer.connections).to.deep.equal([]);
    });
  }

  it("cancel ends with 0 when it is cancelled or spent, or had ended by itself", async () => {
    peer.on("node.process.cancel", ({ processId }) => bare(processId, "cancelled"));
    expect(await shell.run("process", "cancel", "worker-1", "t:1")).to.equal(0);
    expect(shell.stdout.text).to.match(/^state +cancelled$/m);
    peer.on("node.process.cancel", ({ processId }) => completed(processId));
    expect(await shell.run("process", "cancel", "worker-1", "t:1")).to.equal(0);
    expect(shell.stderr.text).to.include("already ended by itself");
  });

  it("cancel ends with 125 when nobody saw the end, and says that it stays so", async () => {
    peer.on("node.process.cancel", ({ processId }) => bare(processId, "outcome_unknown"));
    expect(await shell.run("process", "cancel", "worker-1", "t:1")).to.equal(125);
    expect(shell.stderr.text).to.include("nobody saw its end, and this receipt stays so");
    expect(shell.stderr.text).not.to.include("ask again");
  });

  it("cancel ends with 123 when another worker life has the run", async () => {
    peer.on("node.process.cancel", () => {
      throw new LemonError("process_generation_mismatch");
    });
    expect(await shell.run("process", "cancel", "worker-1", "t:1")).to.equal(123);
  });

  it("cancel whose answer is lost is settled by the receipt, and sent once", async () => {
    peer
      .on("node.process.cancel", (_params, connection) => {
        connection.drop();
        return SILENCE;
      })
      .on("node.process.get", ({ processId }) => bare(processId, "cancelled"));
    expect(await shell.run("process", "cancel", "worker-1", "t:1")).to.equal(0);
    expect(peer.count("node.process.cancel")).to.equal(1);
  });

  it("cancel whose answer is lost while the process goes on ends with 125", async () => {
    peer
      .on("node.process.cancel", (_params, connection) => {
        connection.drop();
        return SILENCE;
      })
      .on("node.process.get", ({ processId }) => bare(processId, "running"));
    const ended = shell.run("process", "cancel", "worker-1", "t:1", "--json");
    await peer.seen("node.process.get");
    await timers.armed((delayMs) => delayMs === 250);
    timers.advance(30_000);
    expect(await ended).to.equal(125);
    expect(shell.document)
      .to.have.property("error")
      .that.includes({
        mutationMayHaveApplied: true,
        settle: `lemon process get ${NODE_ID} t:1`,
      });
    expect(peer.count("node.process.cancel")).to.equal(1);
  });
});
