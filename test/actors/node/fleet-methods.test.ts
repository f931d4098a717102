/** Proves what is shown of the fleet: rows, metadata, redaction, names, host facts and trees. */
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { nodePairRequest } from "../../../protocol/methods/enrolment.ts";
import {
  nodeDescribe,
  nodeHostInfo,
  nodeList,
  nodeRename,
} from "../../../protocol/methods/nodes.ts";
import { readParams } from "../../../protocol/params.ts";
import { CAPABILITIES, NodesRoom, opening, operator, ping } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("the fleet's methods", () => {
  let room: NodesRoom;
  beforeEach(async () => {
    room = await NodesRoom.open();
  });
  afterEach(() => room.close());

  const calls = { done: 1, refused: 2, unknown: 3 };
  const audited = (methods: number) =>
    Object.fromEntries(
      Array.from({ length: methods }, (_, index) => [`node.fs.${"x".repeat(index + 1)}`, calls]),
    );

  const list = async () => await room.nodes.methods["node.list"]({}, operator());
  const describeNode = async (nodeId: string) =>
    await room.nodes.methods["node.describe"]({ nodeId }, operator());
  const rename = async (nodeId: string, name: string) =>
    await room.nodes.methods["node.rename"](readParams(nodeRename, { nodeId, name }), operator());

  describe("node.list", () => {
    it("answers an empty list when there is no node", async () => {
      expect(await list()).to.deep.equal({
        nodes: [],
        summary: { nodeCount: 0, statusCounts: {}, typeCounts: {}, capabilityCounts: {} },
      });
    });

    it("sorts by name, counts, and holds to its declaration", async () => {
      await room.online("b");
      await room.pair("c", { nodeType: "browser", capabilities: { "browser.click": true } });
      await room.pair("B");
      await room.pair("a");
      const listed = await list();
      expect(listed.nodes.map(({ name }) => name)).to.deep.equal(["B", "a", "b", "c"]);
      expect(listed.summary).to.deep.equal({
        nodeCount: 4,
        statusCounts: { offline: 3, online: 1 },
        typeCounts: { browser: 1, coding_agent: 3 },
        capabilityCounts: {
          "browser.click": 1,
          "node.host.info": 1,
          "node.process.cancel": 1,
          "node.process.get": 1,
          "node.process.run": 1,
        },
      });
      expect(nodeList.result.safeParse(listed).success).to.equal(true);
    });

    it("shows when a node was last seen, also after the controller restarted", async () => {
      const { nodeKey } = await room.online("worker-1");
      const seenMs = (await room.row("worker-1")).lastSeenMs ?? 0;
      expect(seenMs).to.be.within(room.clock.nowMs() - 100, room.clock.nowMs());
      await room.clock.advance(60_000);
      const lastMs = (await room.row("worker-1")).lastSeenMs ?? 0;
      expect(lastMs).to.be.at.least(seenMs + 58_000);
      room.link.workers.delete(nodeKey);
      await room.clock.advance(10_000);
      expect(await room.row("worker-1")).to.include({ status: "offline", lastSeenMs: lastMs });
      room = await room.restart();
      await room.clock.advance(0);
      expect(await room.row("worker-1")).to.include({ status: "offline", lastSeenMs: lastMs });
    });

    it("says unknown of a node that the controller has not been able to ask yet", async () => {
      await room.online("worker-1");
      room.link.connectionFault = new LemonError("unavailable");
      room = await room.restart();
      await room.clock.advance(60_000);
      expect((await room.row("worker-1")).status).to.equal("unknown");
      room.link.connectionFault = null;
      await room.clock.advance(500);
      expect((await room.row("worker-1")).status).to.equal("online");
    });

    it("shows a worker that serves on through a restart of the controller as online", async () => {
      await room.online("worker-1");
      room = await room.restart();
      await room.clock.advance(0);
      expect((await room.row("worker-1")).status).to.equal("online");
    });

    it("shows the capabilities of the newest worker life, those of the pairing before", async () => {
      const { session } = await room.online("worker-1");
      const newer = opening({ capabilities: { "node.host.info": { version: 2 } } });
      await room.nodes.methods["node.link.open"](newer, session);
      expect((await room.row("worker-1")).capabilities).to.deep.equal(newer.capabilities);
    });
  });

  describe("node.describe", () => {
    it("shows the row flat, with the live facts of the node", async () => {
      const { nodeId } = await room.online("worker-1");
      for (const selector of [nodeId, "worker-1", " worker-1 "]) {
        const described = await describeNode(selector);
        expect(described).to.deep.equal({
          ...(await room.row("worker-1")),
          metadata: {
            generation: 1,
            lemonVersion: "2026.11.0",
            receipts: { retained: 3, limit: 1_000 },
            receiptStore: "ready",
            hostIo: { "node.fs.read": { done: 2, refused: 1, unknown: 0 } },
            revoked: false,
            local: false,
          },
          summary: { status: "online", capabilityCount: 4 },
        });
        expect(nodeDescribe.result.safeParse(described).success).to.equal(true);
      }
    });

    it("has no live facts of a node that does not answer", async () => {
      const { nodeId } = await room.join("worker-1");
      expect((await describeNode(nodeId)).metadata).to.deep.equal({
        generation: null,
        lemonVersion: null,
        receipts: null,
        receiptStore: null,
        hostIo: null,
        revoked: false,
        local: false,
      });
      const online = await room.online("worker-2");
      room.link.workers.delete(online.nodeKey);
      await room.clock.advance(10_000);
      expect((await describeNode("worker-2")).metadata).to.include({
        lemonVersion: "2026.11.0",
        receipts: null,
        receiptStore: null,
      });
    });

    it("takes the exact id before a name, even when one node is named like another's id", async () => {
      const { nodeId } = await room.join("worker-1");
      await room.pair(nodeId);
      expect((await describeNode(nodeId)).name).to.equal("worker-1");
    });

    it("does not find what is not there", async () => {
      for (const none of ["", "nobody", "a".repeat(1_000), "\0", "__proto__", "constructor"]) {
        const refusal = await refusalOf(() => describeNode(none));
        expect([refusal.wire, refusal.message]).to.deep.equal(["NOT_FOUND", "Node not found"]);
      }
    });

    it("shows nothing that looks like a secret, whatever the machine said of itself", async () => {
      const capabilities = {
        api_token: "canary-1",
        nested: { password: { deep: "canary-2" }, list: [{ Cookie: "canary-3" }] },
        note: "set api_key = canary-4, Bearer canary-5 and token=canary-6",
        fine: { version: 1 },
        "node.secrets.set": { version: 1 },
        "node.token": true,
      };
      const { session } = await room.join("worker-1");
      await room.nodes.methods["node.link.open"](opening({ capabilities }), session);
      for (const shown of [await describeNode("worker-1"), await list()]) {
        expect(JSON.stringify(shown)).to.not.include("canary");
      }
      expect((await describeNode("worker-1")).capabilities).to.deep.equal({
        api_token: { redacted: true, kind: "secret" },
        nested: {
          password: { redacted: true, kind: "secret" },
          list: [{ Cookie: { redacted: true, kind: "secret" } }],
        },
        note: "set api_key=[REDACTED], Bearer [REDACTED] and token=[REDACTED]",
        fine: { version: 1 },
        "node.secrets.set": { version: 1 },
        "node.token": true,
      });
    });

    it("shows of no more than 32 methods how many calls were answered", async () => {
      const { nodeKey } = await room.online("worker-1");
      room.link.workers.set(nodeKey, () => ({ ...ping(), hostIo: audited(32) }));
      await room.clock.advance(2_000);
      expect((await describeNode("worker-1")).metadata.hostIo).to.deep.equal(audited(32));
    });

    it("believes no ping that is not one", async () => {
      const { nodeKey } = await room.online("worker-1");
      const bad = [
        null,
        {},
        { ...ping(), receipts: { retained: -1, limit: 1 } },
        { ...ping(), receiptStore: "Ready!" },
        { ...ping(), lemonVersion: "v".repeat(65) },
        { ...ping(), storeSequence: 0.5 },
        { ...ping(), hostIo: { "node.fs.read": { ...calls, done: -1 } } },
        { ...ping(), hostIo: { "node.fs.read of /etc/shadow": calls } },
        { ...ping(), hostIo: audited(33) },
      ];
      for (const lie of bad) {
        room.link.workers.set(nodeKey, () => ping());
        await room.clock.advance(2_000);
        expect((await room.row("worker-1")).status).to.equal("online");
        room.link.workers.set(nodeKey, () => lie);
        await room.clock.advance(7_000);
        expect((await room.row("worker-1")).status).to.equal("offline");
      }
    });
  });

  describe("node.rename", () => {
    it("gives another name and keeps the id; the old name is free", async () => {
      const { nodeId } = await room.join("worker-1");
      const { nodeId: other } = await room.join("worker-2");
      expect(await rename("worker-1", "  desk ")).to.deep.equal({
        nodeId,
        name: "desk",
        renamed: true,
        summary: { nodeId, renamed: true },
      });
      await rename(other, "worker-1");
      expect((await list()).nodes.map(({ name }) => name)).to.deep.equal(["desk", "worker-1"]);
      room = await room.restart();
      expect((await describeNode("desk")).nodeId).to.equal(nodeId);
    });

    it("refuses what reads as an id or a path; spaces and the rest may stand in a name", async () => {
      const { nodeId } = await room.join("worker-1");
      const refused = [nodeId, nodeId.toUpperCase(), "../x", "a/b", "a\\b", ".x", "-x", " -x "];
      for (const name of refused) {
        const pairing = { nodeType: "t", nodeName: name };
        for (const attempt of [
          () => rename(nodeId, name),
          () => readParams(nodePairRequest, pairing),
        ]) {
          const refusal = await refusalOf(async () => attempt());
          expect(refusal.message, name).to.match(/: (?:name|nodeName): must not /);
        }
      }
      const longer = `${nodeId}a`;
      for (const name of ["b a d", "Zoë's desk (2)", "a.b-c_d", longer]) {
        expect((await rename(nodeId, name)).name).to.equal(name);
      }
    });

    it("refuses a name in use, and takes a node's own name again", async () => {
      const { nodeId } = await room.join("worker-1");
      await room.pair("worker-2");
      const refusal = await refusalOf(() => rename(nodeId, "worker-2"));
      expect([refusal.wire, refusal.message]).to.deep.equal([
        "CONFLICT",
        "Node name is already in use",
      ]);
      expect((await rename(nodeId, "worker-1")).name).to.equal("worker-1");
      expect((await refusalOf(() => rename("nobody", "x"))).message).to.equal("Node not found");
    });

    it("lets calls under way go on", async () => {
      const held = Promise.withResolvers<unknown>();
      const { nodeId } = await room.online("worker-1", { answer: () => held.promise });
      const asked = room.nodes.methods["node.host.info"]({ nodeId }, operator());
      await room.clock.advance(0);
      await rename(nodeId, "desk");
      held.resolve(HOST);
      expect(await asked).to.deep.equal(HOST);
    });
  });

  const HOST = {
    hostname: "worker-host",
    os: "linux",
    osVersion: "6.8.0",
    arch: "aarch64-unknown-linux-gnu",
    cpuCount: 8,
    memTotalBytes: 16_777_216_000,
    memFreeBytes: 2_147_483_648,
    diskTotalBytes: 500_000_000_000,
    diskFreeBytes: 100_000_000_000,
    uptimeSec: 12_345,
    lemonVersion: "2026.11.0",
    defaultCwd: "/srv/project",
    user: "lemon",
  };

  describe("node.host.info", () => {
    const info = async (nodeId: string) =>
      await room.nodes.methods["node.host.info"]({ nodeId }, operator());

    it("answers what the node measured", async () => {
      const { nodeId } = await room.online("worker-1", { answer: () => HOST });
      expect(await info(nodeId)).to.deep.equal(HOST);
      expect(nodeHostInfo.result.safeParse(await info("worker-1")).success).to.equal(true);
      expect(room.link.calls.at(-1)?.call).to.include({
        method: "node.host.info",
        mutation: false,
        deadlineMs: 30_000,
      });
    });

    it("passes a failed measurement on, and invents nothing", async () => {
      const { nodeId } = await room.online("worker-1", {
        answer: () => {
          throw new LemonError("measurement_failed");
        },
      });
      expect((await refusalOf(() => info(nodeId))).wire).to.equal("UNAVAILABLE");
    });

    it("says of whatever went wrong that it changed nothing and may be sent again", async () => {
      let fault: LemonError;
      const { nodeId } = await room.online("worker-1", {
        answer: () => {
          throw fault;
        },
      });
      for (const code of ["timeout", "link_lost", "internal_error", "actor_crashed"] as const) {
        fault = new LemonError(code);
        const refusal = await refusalOf(() => info(nodeId));
        expect(refusal).to.include({ code, retrySafe: true, mutationMayHaveApplied: false });
      }
    });

    it("refuses facts that are none", async () => {
      let facts: unknown = HOST;
      const { nodeId } = await room.online("worker-1", { answer: () => facts });
      for (const [field, value] of Object.entries({
        memFreeBytes: null,
        cpuCount: -1,
        uptimeSec: 1.5,
        user: 7,
        hostname: undefined,
      })) {
        facts = { ...HOST, [field]: value };
        expect((await refusalOf(() => info(nodeId))).code, field).to.equal(
          "invalid_remote_payload",
        );
      }
    });

    it("needs the capability and a node that is there", async () => {
      const { nodeId, session } = await room.online("worker-1");
      const { "node.host.info": _left, ...without } = CAPABILITIES;
      await room.nodes.methods["node.link.open"](opening({ capabilities: without }), session);
      await room.clock.advance(100);
      expect((await refusalOf(() => info(nodeId))).code).to.equal("capability_missing");
      expect((await refusalOf(() => info("nobody"))).code).to.equal("node_not_found");
    });
  });

  describe("the trees of the nodes", () => {
    const tree = {
      path: "/lemon",
      kind: "supervisor",
      state: "running",
      restart: "permanent",
      mailboxDepth: 0,
      oldestMessageAgeMs: null,
      startedAtMs: 1,
      restartsInWindow: 0,
      restartsLeft: 5,
      lastCrash: null,
      children: [],
    };

    it("are asked of every node that is not offline; what fails says why", async () => {
      const good = await room.online("a", { answer: () => ({ ...tree, children: [tree] }) });
      const bad = await room.online("b", { answer: () => ({ ...tree, state: "odd" }) });
      const ill = await room.online("c", {
        answer: () => {
          throw new LemonError("internal_error");
        },
      });
      await room.join("d");
      expect(await room.nodes.trees()).to.deep.equal([
        { source: good.nodeId, name: "a", tree: { ...tree, children: [tree] }, error: null },
        { source: bad.nodeId, name: "b", tree: null, error: "invalid_remote_payload" },
        { source: ill.nodeId, name: "c", tree: null, error: "internal_error" },
      ]);
    });

    it("can be asked of one, by id or name, also of one that is offline", async () => {
      const { nodeId } = await room.join("d");
      for (const selector of [nodeId, "d"]) {
        expect(await room.nodes.trees(selector)).to.deep.equal([
          { source: nodeId, name: "d", tree: null, error: "node_offline" },
        ]);
      }
      expect((await refusalOf(() => room.nodes.trees("nobody"))).code).to.equal("node_not_found");
    });
  });

  it("stand on one actor for each node, and none for a removed one", async () => {
    const { nodeId } = await room.online("a");
    const other = await room.join("b");
    const ids = (): string[] => {
      const nodes = room.system.snapshot().children.find(({ path }) => path === "/test/nodes");
      const enrolled = nodes?.children.find(({ path }) => path === "/test/nodes/enrolled");
      return (enrolled?.children ?? []).map(({ path }) => path.split("/").at(-1) ?? "");
    };
    expect(ids()).to.have.members([nodeId, other.nodeId]);
    await room.nodes.methods["node.remove"]({ nodeId }, operator());
    expect(ids()).to.deep.equal([other.nodeId]);
  });
});
