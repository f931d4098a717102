/** Proves, over real sockets, the presence of nodes that are served by their `/ws` connection alone. */
import { expect } from "chai";
import { SOCKET_PING_EVERY_MS, SOCKET_SILENT_MS } from "../../../actors/node/sockets.ts";
import { NODE_CLOSE } from "../../../protocol/methods/enrolment.ts";
import { settle } from "../../support/fake-clock.ts";
import { type DoorNode, NodeDoor } from "../../support/node-door.ts";
import { CAPABILITIES, opening } from "../../support/nodes-room.ts";
import type { Party } from "../../support/party.ts";
import { OPCODE, RawClient, wsFrame } from "../../support/ws-client.ts";

/** What the contract promises (architecture.md, "The node link"). */
const OFFLINE_WITHIN_MS = 8_000;

describe("a node that is served by its /ws connection", () => {
  let door: NodeDoor;
  let watcher: Party;
  let browser: DoorNode;

  beforeEach(async () => {
    door = await NodeDoor.open();
    watcher = await door.operator();
    browser = await door.pair("browser-1");
  });
  afterEach(() => door.close());

  const row = async (nodeId: string = browser.nodeId) =>
    await watcher.call("node.describe", { nodeId });
  const status = async (nodeId?: string): Promise<unknown> => (await row(nodeId)).status;

  /** Connected, and from then on every byte is the test's. */
  async function raw(): Promise<RawClient> {
    const client = await RawClient.upgrade(door.gateway.port);
    const params = { auth: { token: browser.token } };
    const connect = { type: "req", id: "c", method: "connect", params };
    client.socket.write(wsFrame(OPCODE.text, JSON.stringify(connect)));
    await client.until("hello-ok");
    return client;
  }

  it("is offline until it connects, online from hello-ok, and offline at once when the connection ends", async () => {
    expect(await row()).to.include({ status: "offline", lastSeenMs: null, type: "browser" });
    await door.clock.advance(500);
    const node = await door.connect(browser);
    expect(node.hello["auth"]).to.deep.equal({
      role: "node",
      scopes: ["invoke", "event"],
      clientId: browser.nodeId,
    });
    const seenMs = door.clock.nowMs();
    expect(await row()).to.include({ status: "online", lastSeenMs: seenMs });
    const { nodes, summary } = await watcher.call("node.list");
    expect(nodes).to.have.length(1);
    expect(nodes[0]).to.include({ nodeId: browser.nodeId, status: "online" });
    expect(summary.statusCounts).to.deep.equal({ online: 1 });
    await door.clock.advance(500);
    node.client.socket.terminate();
    await door.left(2);
    expect(await row()).to.include({ status: "offline", lastSeenMs: seenMs });
    expect(door.room.documents.text()).to.include(`"lastSeenMs":${seenMs}`);
  });

  it("stays online while it answers pings, however long it says nothing", async () => {
    const node = await door.connect(browser);
    for (let at = 0; at < 90_000; at += SOCKET_PING_EVERY_MS) await door.ping(node, watcher);
    expect(await row()).to.include({ status: "online", lastSeenMs: door.clock.nowMs() });
  });

  it("is offline when it has been silent, not before, and online again with its next word", async () => {
    const node = await door.connect(browser, { autoPong: false });
    const seenMs = door.clock.nowMs();
    await door.clock.advance(SOCKET_SILENT_MS - 1);
    expect(await row()).to.include({ status: "online", lastSeenMs: seenMs });
    await door.clock.advance(1);
    expect(await row()).to.include({ status: "offline", lastSeenMs: seenMs });
    expect(SOCKET_SILENT_MS).to.be.below(OFFLINE_WITHIN_MS);
    await node.answer("health");
    expect(await row()).to.include({ status: "online", lastSeenMs: door.clock.nowMs() });
    // Its idle connection is ended as any other.
    await door.clock.advance(60_000);
    expect(await node.client.closed()).to.deep.include({ code: 1001 });
    await door.left(2);
    expect(await status()).to.equal("offline");
  });

  it("is offline within 8 s also after a part of a frame", async () => {
    const node = await raw();
    await door.clock.advance(SOCKET_PING_EVERY_MS + 1);
    node.socket.write(wsFrame(OPCODE.text, "x".repeat(100)).subarray(0, 50));
    // What another connection sent after it has been read after it.
    await watcher.call("health");
    await door.clock.advance(OFFLINE_WITHIN_MS - 1);
    expect(await status()).to.equal("offline");
    node.socket.destroy();
  });

  it("is served by the newest of its connections: the one before is closed as replaced", async () => {
    const first = await door.connect(browser);
    const second = await door.connect(browser);
    expect(await first.client.closed()).to.deep.equal(NODE_CLOSE.replaced);
    await door.left(3);
    expect(await status()).to.equal("online");
    await second.client.close();
    await door.left(2);
    expect(await status()).to.equal("offline");
  });

  it("is cut off when it is revoked, and when it is removed", async () => {
    const node = await door.connect(browser);
    await watcher.call("node.revoke", { nodeId: browser.nodeId });
    expect(await node.client.closed()).to.deep.equal(NODE_CLOSE.revoked);
    await door.left(2);
    expect(await status()).to.equal("offline");
    const other = await door.pair("browser-2");
    const connected = await door.connect(other);
    expect(await status(other.nodeId)).to.equal("online");
    await watcher.call("node.remove", { nodeId: other.nodeId });
    expect(await connected.client.closed()).to.deep.equal(NODE_CLOSE.revoked);
    expect((await watcher.refusal("node.describe", { nodeId: other.nodeId })).code).to.equal(
      "NOT_FOUND",
    );
  });

  it("has no link to be called over, and no tree", async () => {
    await door.connect(browser);
    const { code, details } = await watcher.refusal("node.host.info", { nodeId: browser.nodeId });
    expect(code).to.equal("UNAVAILABLE");
    expect(details).to.include({ code: "capability_missing" });
    expect(await door.room.nodes.trees()).to.deep.equal([]);
  });

  describe("is none of those that", () => {
    it("said when they were paired that a link will serve them", async () => {
      const worker = await door.pair("worker-1", { capabilities: CAPABILITIES });
      await door.connect(worker);
      expect(await status(worker.nodeId)).to.equal("offline");
    });

    it("ever had a worker with a link: that one's answers count, and nothing else", async () => {
      const worker = await door.pair("worker-1");
      const first = await door.connect(worker);
      const { nodeKey } = await first.call("node.link.open", opening());
      expect(await status(worker.nodeId)).to.equal("offline");
      door.room.link.workers.set(nodeKey, () => ({
        lemonVersion: "2026.11.0",
        receipts: null,
        receiptStore: "ready",
        storeId: null,
        storeSequence: null,
      }));
      await door.clock.advance(100);
      expect(await status(worker.nodeId)).to.equal("online");
      const second = await door.connect(worker);
      await settle();
      expect(first.client.socket.readyState).to.equal(first.client.socket.OPEN);
      door.room.link.workers.delete(nodeKey);
      await door.clock.advance(OFFLINE_WITHIN_MS);
      await second.answer("health");
      expect(await status(worker.nodeId)).to.equal("offline");
    });
  });
});
