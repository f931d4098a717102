/** Proves `lemon secrets` against a scripted controller: where a value comes from, what is said, what is not. */
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import { exampleOf } from "../../scripts/reference/examples.ts";
import { FakeControlPlane, SILENCE } from "../support/fake-control-plane.ts";
import { NODE_ID, nodeList, nodeRow } from "../support/node-rows.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";
import { ScriptedTerminal, TestShell } from "../support/test-shell.ts";

const NAME = "integration/token";
const VALUE = "canary-value-a03f";

describe("lemon secrets", () => {
  let peer: FakeControlPlane;
  let shell: TestShell;
  /** What the peer was given to keep. */
  let values: { readonly name: string; readonly value: string; readonly operationId: string }[];

  const shellOf = (options: ConstructorParameters<typeof TestShell>[0] = {}): TestShell =>
    new TestShell({ environment: { LEMON_CONTROLLER: peer.url }, ...options });

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    peer.on("node.list", () => nodeList(nodeRow()));
    values = [];
    peer.on("node.secrets.set", ({ name, value, operationId = "" }) => {
      values.push({ name, value, operationId });
      return { name, set: true, operationId, status: "applied", currentBindingMatches: true };
    });
    shell = shellOf({ stdin: `${VALUE}\n` });
  });
  afterEach(async () => {
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
    const said = shell.stdout.text + shell.stderr.text;
    expect(said).to.not.include(VALUE);
  });

  const secrets = (...words: readonly string[]) => shell.run("secrets", ...words);

  describe("set", () => {
    it("takes the value from stdin, without its line end, and an id of its own", async () => {
      expect(await secrets("set", "worker-1", NAME)).to.equal(0);
      const [given] = values;
      expect(given).to.include({ name: NAME, value: VALUE });
      expect(given?.operationId).to.match(/^cli:[0-9a-f-]{36}$/);
      expect(shell.stdout.text).to.include(NAME).and.include(given?.operationId);
    });

    it("takes it to the byte when it is asked to", async () => {
      for (const [stdin, exact, expected] of [
        ["a\r\n", false, "a"],
        ["a\n\n", false, "a\n"],
        ["a\r\n", true, "a\r\n"],
        ["\n", true, "\n"],
        ["€", false, "€"],
      ] as const) {
        shell = shellOf({ stdin });
        const flags = exact ? ["--exact"] : [];
        expect(await secrets("set", "worker-1", NAME, "--id", "o:1", ...flags)).to.equal(0);
        expect(values.at(-1)).to.deep.equal({ name: NAME, value: expected, operationId: "o:1" });
      }
    });

    it("asks for it at a terminal, and does not show it", async () => {
      const terminal = new ScriptedTerminal();
      shell = shellOf({ terminal });
      terminal.type(VALUE);
      expect(await secrets("set", "worker-1", NAME)).to.equal(0);
      expect(values[0]?.value).to.equal(VALUE);
      expect([terminal.hidden, terminal.closed]).to.deep.equal([1, true]);
      expect(terminal.output.text).to.equal("Value (not shown): \n");
    });

    it("sends nothing without a value, and no value as an argument", async () => {
      const terminal = new ScriptedTerminal();
      terminal.type("");
      for (const [options, words] of [
        [{ stdin: "" }, []],
        [{ stdin: "\n" }, []],
        [{ terminal }, []],
        [{ stdinIsTerminal: true }, []],
        [{ stdin: Buffer.from([0xff]) }, []],
        [{ stdin: "v".repeat(1_048_579) }, []],
        [{ stdin: "v".repeat(1_048_577) }, []],
        [{ stdin: VALUE }, ["another-argument"]],
        [{ stdin: VALUE }, ["--id", "a b"]],
      ] as const) {
        shell = shellOf(options);
        expect(await secrets("set", "worker-1", NAME, ...words), words.join()).to.equal(2);
      }
      expect(values).to.deep.equal([]);
    });

    it("takes a whole megabyte and its line end", async () => {
      shell = shellOf({ stdin: `${"v".repeat(1_048_576)}\r\n` });
      expect(await secrets("set", "worker-1", NAME)).to.equal(0);
      expect(values[0]?.value).to.have.length(1_048_576);
    });

    it("takes control characters as long as a request holds them, and says what to do when none does", async () => {
      shell = shellOf({ stdin: "\u0001".repeat(699_000) });
      expect(await secrets("set", "worker-1", NAME)).to.equal(0);
      expect(values[0]?.value).to.have.length(699_000);
      shell = shellOf({ stdin: "\u0001".repeat(699_050) });
      expect(await secrets("set", "worker-1", NAME)).to.equal(2);
      expect(shell.stderr.text).to.include("Nothing was set").and.include("base64");
      expect(values).to.have.length(1);
    });

    it("says of a lost answer how its proof is read, and is not sent again", async () => {
      peer.on("node.secrets.set", (_params, connection) => {
        connection.drop();
        return SILENCE;
      });
      expect(await secrets("set", "worker-1", NAME, "--id", "o:1", "--json")).to.equal(125);
      const settle = `lemon secrets receipt ${NODE_ID} o:1`;
      expect(shell.stderr.text).to.include(settle);
      expect(shell.document).to.have.nested.include({
        "error.operationId": "o:1",
        "error.settle": settle,
        "error.mutationMayHaveApplied": true,
      });
      expect(peer.requests.filter(({ method }) => method === "node.secrets.set")).to.have.length(1);
    });

    it("ends with what the node refuses it with", async () => {
      peer.on("node.secrets.set", () => {
        throw new LemonError("secret_key_missing");
      });
      expect(await secrets("set", "worker-1", NAME)).to.equal(121);
      expect(shell.stderr.text).to.include("lemon secrets init");
    });
  });

  it("list shows names without what could drive a terminal, and says that there are more", async () => {
    peer.on("node.secrets.list", () => ({
      names: ["a", "b\u001b[2J"],
      limit: 500,
      truncated: true,
    }));
    expect(await secrets("list", "worker-1")).to.equal(0);
    expect(shell.stdout.text).to.equal("a\nb\\u{1b}[2J\n");
    expect(shell.stderr.text).to.include("first 500");
  });

  it("rm deletes by the durable id; of a lost answer it says what shows the names", async () => {
    peer.on("node.secrets.delete", ({ nodeId, name }) => {
      expect(nodeId).to.equal(NODE_ID);
      return { name, deleted: true };
    });
    expect(await secrets("rm", "worker-1", NAME)).to.equal(0);
    peer.on("node.secrets.delete", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
    expect(await secrets("rm", "worker-1", NAME)).to.equal(125);
    expect(shell.stderr.text).to.include(`lemon secrets list ${NODE_ID}`);
  });

  it("receipt tells whether an operation was applied, and whether it still stands", async () => {
    const receipt = { nodeId: NODE_ID, operationId: "o:1" };
    for (const [answer, exitCode, text] of [
      [{ status: "applied", name: NAME, currentBindingMatches: true }, 0, "it still stands"],
      [{ status: "applied", name: NAME, currentBindingMatches: false }, 0, "changed"],
      [{ status: "not_found", name: null, currentBindingMatches: false }, 122, "not found"],
    ] as const) {
      peer.on("node.secrets.receipt", () => ({ ...receipt, ...answer }));
      shell = shellOf();
      expect(await secrets("receipt", "worker-1", "o:1")).to.equal(exitCode);
      expect(shell.stdout.text).to.include(text);
    }
  });

  it("rotate asks the controller's machine, or a node's; a lost answer may be repeated", async () => {
    peer.on("secrets.rotate", () => ({ ok: true, count: 1, behind: [NODE_ID], summary: {} }));
    peer.on("node.secrets.rotate", () => ({ count: 2, behind: [] }));
    expect(await secrets("rotate")).to.equal(0);
    expect(shell.stdout.text).to.include(`following by itself: ${NODE_ID}`);
    expect(await secrets("rotate", "worker-1")).to.equal(0);
    expect(shell.stdout.text).to.include("1 secret put").and.include("2 secrets put");
    peer.on("node.secrets.rotate", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
    expect(await secrets("rotate", "worker-1")).to.equal(125);
    expect(shell.stderr.text).to.include(`do it again with: lemon secrets rotate ${NODE_ID}`);
  });

  describe("on this machine", () => {
    let folder: TempFolder;
    let home: string;

    beforeEach(() => {
      folder = tempFolder();
      home = join(folder.path, "home");
      shell = new TestShell({ environment: { LEMON_HOME: home } });
    });
    afterEach(() => folder[Symbol.dispose]());

    it("init makes a key of this account alone, once", async () => {
      expect(await secrets("init")).to.equal(0);
      const file = join(home, "secrets_master_key");
      expect(statSync(file).mode & 0o777).to.equal(0o600);
      expect(statSync(home).mode & 0o777).to.equal(0o700);
      expect(await secrets("init")).to.equal(123);
    });

    it("status says where the key comes from, with no controller anywhere", async () => {
      expect(await secrets("status")).to.equal(0);
      expect(shell.stdout.text).to.include("none; make one with: lemon secrets init");
      expect(existsSync(home)).to.equal(false);
      const key = Buffer.alloc(32, 7).toString("base64");
      const environment = { LEMON_HOME: home, LEMON_SECRETS_MASTER_KEY: key };
      shell = new TestShell({ environment });
      expect(await secrets("status", "--json")).to.equal(0);
      expect(shell.document).to.have.nested.include({ "machine.source": "env", controller: null });
      expect(shell.stdout.text).to.not.include(key);
    });

    it("status shows the vault of a controller that is named", async () => {
      const status = exampleOf("secrets.status").result as never;
      peer.on("secrets.status", () => status);
      shell = new TestShell({ environment: { LEMON_HOME: home, LEMON_CONTROLLER: peer.url } });
      expect(await secrets("status")).to.equal(0);
      expect(shell.stdout.text).to.match(/controller's vault +healthy, 1 secret\n/);
      shell = new TestShell({
        environment: { LEMON_HOME: home, LEMON_CONTROLLER: "ws://127.0.0.1:1/ws" },
      });
      expect(await secrets("status")).to.equal(1);
    });
  });
});
