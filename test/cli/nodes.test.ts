import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import { FakeControlPlane, SILENCE } from "../support/fake-control-plane.ts";
import { NODE_ID, nodeDescription, nodeList, nodeRow } from "../support/node-rows.ts";
import { TestShell } from "../support/test-shell.ts";

describe("lemon node", () => {
  let peer: FakeControlPlane;
  let shell: TestShell;

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    peer.on("node.list", () => nodeList(nodeRow()));
    shell = new TestShell({ environment: { LEMON_CONTROLLER: peer.url } });
  });

  afterEach(async () => {
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
  });

  const node = (...words: readonly string[]) => shell.run("node", ...words);

  it("list shows each node on a line, without what could drive a terminal", async () => {
    peer.on("node.list", () =>
      nodeList(
        nodeRow({ name: "evil\u001b]0;title\u0007\nroot", nodeId: "a" }),
        nodeRow({ name: "zebra", nodeId: "b", status: "offline", lastSeenMs: null }),
      ),
    );
    expect(await node("list")).to.equal(0);
    const lines = shell.stdout.text.split("\n");
    expect(lines[0]).to.match(/^NAME +STATUS +LAST SEEN +ID$/);
    expect(lines[1]).to.match(/^evil\\u\{1b\}\]0;title\\u\{7\}\\u\{a\}root +online +.* ago +a$/);
    expect(lines[2]).to.match(/^zebra +offline +never +b$/);
    expect(lines).to.have.length(4);
  });

  it("list says what to do when there is none, and answers the whole list with --json", async () => {
    peer.on("node.list", () => nodeList());
    expect(await node("list")).to.equal(0);
    expect(shell.stdout.text).to.include("lemon node join");
    shell = new TestShell({ environment: { LEMON_CONTROLLER: peer.url } });
    expect(await node("list", "--json")).to.equal(0);
    expect(shell.document).to.deep.equal(nodeList());
  });

  it("list --json is the same list for a parser, and cannot drive a terminal either", async () => {
    const name = "a\u009b31mb\u202ec\u{e0041}";
    peer.on("node.list", () => nodeList(nodeRow({ name })));
    expect(await node("list", "--json")).to.equal(0);
    expect(shell.document).to.deep.equal(nodeList(nodeRow({ name })));
    expect(shell.stdout.text.trimEnd()).to.not.match(/\p{C}/u);
  });

  const host = {
    hostname: "h",
    os: "linux",
    osVersion: "6.1",
    arch: "x86_64-unknown-linux-gnu",
    cpuCount: 2,
    memTotalBytes: 4_294_967_296,
    memFreeBytes: 1_073_741_824,
    diskTotalBytes: 10_737_418_240,
    diskFreeBytes: 5_368_709_120,
    uptimeSec: 7_200,
    lemonVersion: "2026.11.0",
    defaultCwd: "/home/u",
    user: "u",
  };

  it("show tells the node, its machine and its spent ids", async () => {
    peer.on("node.describe", () => nodeDescription()).on("node.host.info", () => host);
    expect(await node("show", "worker-1")).to.equal(0);
    expect(shell.stdout.text)
      .to.match(/^receipts +12\/1000 process ids spent$/m)
      .and.match(/^receipt store +ready$/m)
      .and.match(/^capabilities +node\.process\.get node\.process\.run$/m)
      .and.match(/^memory +1 GiB free of 4 GiB$/m)
      .and.match(/^up +2 h$/m);
    expect(shell.stderr.text).to.equal("");
    expect(peer.requests.slice(1).map(({ params }) => params)).to.deep.equal([
      { nodeId: NODE_ID },
      { nodeId: NODE_ID },
    ]);
  });

  for (const [retained, warned] of [
    [899, false],
    [900, true],
    [1_000, true],
  ] as const) {
    it(`show ${warned ? "warns" : "does not warn"} at ${retained} of 1,000 spent ids`, async () => {
      peer
        .on("node.describe", () => nodeDescription({}, { receipts: { retained, limit: 1_000 } }))
        .on("node.host.info", () => host);
      expect(await node("show", NODE_ID, "--json")).to.equal(0);
      expect(shell.stderr.text.includes(`${1_000 - retained} process ids left on`)).to.equal(
        warned,
      );
      expect(shell.document).to.deep.include({ nodeId: NODE_ID, host });
    });
  }

  it("show tells an offline node as far as it is known", async () => {
    peer
      .on("node.describe", () =>
        nodeDescription(
          { status: "offline" },
          { receipts: null, receiptStore: null, lemonVersion: null, generation: null },
        ),
      )
      .on("node.host.info", () => {
        throw new LemonError("node_offline");
      });
    expect(await node("show", "worker-1")).to.equal(0);
    expect(shell.stdout.text)
      .to.match(/^receipts +unknown$/m)
      .and.match(/^host +not available \(node_offline\)$/m);
  });

  it("show tells that a node is revoked", async () => {
    peer
      .on("node.describe", () => nodeDescription({ status: "offline" }, { revoked: true }))
      .on("node.host.info", () => host);
    expect(await node("show", "worker-1")).to.equal(0);
    expect(shell.stdout.text).to.match(/^status +offline, revoked$/m);
  });

  it("show tells also a time that no calendar has", async () => {
    peer
      .on("node.describe", () => nodeDescription({ pairedAtMs: Number.MAX_SAFE_INTEGER }))
      .on("node.host.info", () => host);
    expect(await node("show", "worker-1")).to.equal(0);
    expect(shell.stdout.text).to.match(/^joined +unknown$/m);
  });

  it("show ends with 122 for a name that nobody has", async () => {
    expect(await node("show", "nobody")).to.equal(122);
  });

  it("rename, revoke and remove act on the durable id", async () => {
    peer
      .on("node.rename", ({ nodeId, name }) => ({ nodeId, name, renamed: true, summary: {} }))
      .on("node.revoke", ({ nodeId }) => ({ nodeId, revoked: true }))
      .on("node.remove", ({ nodeId }) => ({ nodeId, removed: true }));
    expect(await node("rename", "worker-1", "worker-2")).to.equal(0);
    expect(await node("revoke", "worker-1")).to.equal(0);
    expect(await node("remove", "worker-1")).to.equal(0);
    expect(
      peer.requests.filter(({ method }) => method !== "node.list").map(({ params }) => params),
    ).to.deep.equal([
      { nodeId: NODE_ID, name: "worker-2" },
      { nodeId: NODE_ID },
      { nodeId: NODE_ID },
    ]);
    expect(shell.stdout.text).to.match(/is now called worker-2\n.*is revoked.*\n.*is removed/);
  });

  it("rename ends with 123 when the name is taken, and with 2 for a name that can be none", async () => {
    peer.on("node.rename", () => {
      throw new LemonError("node_name_in_use");
    });
    expect(await node("rename", "worker-1", "taken")).to.equal(123);
    expect(await node("rename", "worker-1", "bad\u0000name")).to.equal(2);
    expect(peer.count("node.rename")).to.equal(1);
  });

  for (const [verb, settle] of [
    ["revoke", `lemon node show ${NODE_ID}`],
    ["remove", "lemon node list"],
  ] as const) {
    it(`${verb} ends with 125 and the command that tells when its answer is lost, and is not sent again`, async () => {
      peer.on(`node.${verb}`, (_params, connection) => {
        connection.drop();
        return SILENCE;
      });
      expect(await node(verb, "worker-1", "--json")).to.equal(125);
      expect(shell.document).to.have.property("error").that.includes({
        code: "link_lost",
        nodeId: NODE_ID,
        settle,
        exitCode: 125,
      });
      expect(shell.stderr.text).to.include(settle);
      expect(peer.count(`node.${verb}`)).to.equal(1);
    });
  }
});
