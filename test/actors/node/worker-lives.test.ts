/** Proves worker lives: who may serve a node, and how one takes over from another. */
import { expect } from "chai";
import type { NodeKey } from "../../../protocol/ids.ts";
import { NodesRoom, opening, operator, ping, type TestCaller } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

const HOUR_MS = 3_600_000;
const WEEK_MS = 604_800_000;

describe("a worker life", () => {
  let room: NodesRoom;
  beforeEach(async () => {
    room = await NodesRoom.open();
  });
  afterEach(() => room.close());

  const open = (session: TestCaller, life = opening()) =>
    room.nodes.methods["node.link.open"](life, session);
  const describeNode = (nodeId: string) =>
    room.nodes.methods["node.describe"]({ nodeId }, operator());

  it("is opened with credentials for an hour, a session token for a week, and what is known of its store", async () => {
    const { nodeId, session } = await room.join("worker-1");
    const life = opening({ storeId: "store-a", storeSequence: 41 });
    const opened = await open(session, life);
    const [account] = room.link.accounts.keys();
    expect(opened).to.deep.equal({
      nodeId,
      nodeName: "worker-1",
      nodeKey: account,
      generation: 1,
      linkJwt: `jwt.${account}.${life.linkKey}.${HOUR_MS}`,
      linkLifetimeMs: HOUR_MS,
      leafPath: "",
      leafUrl: null,
      sessionToken: opened.sessionToken,
      sessionTokenExpiresAtMs: room.clock.nowMs() + WEEK_MS,
      registeredStoreId: "store-a",
      registeredStoreSequence: 41,
    });
    expect(room.link.accounts.get(account as NodeKey)?.kind).to.equal("node");
  });

  it("keeps its generation and its account however often it opens its link", async () => {
    const { session } = await room.join("worker-1");
    const life = opening();
    const first = await open(session, life);
    const again = await open(session, life);
    expect([again.generation, again.nodeKey]).to.deep.equal([1, first.nodeKey]);
    expect(again.sessionToken).to.not.equal(first.sessionToken);
    expect(room.link.accounts.size).to.equal(1);
    const other = await open(await room.connect(again.sessionToken), life);
    expect(other.generation).to.equal(1);
    expect(session.closedWith).to.deep.equal([{ code: 4001, reason: "replaced" }]);
  });

  it("may not change its other keys", async () => {
    const { session } = await room.join("worker-1");
    const life = opening();
    await open(session, life);
    for (const changed of [
      opening({ linkKey: life.linkKey, sealKey: life.sealKey }),
      opening({ linkKey: life.linkKey, serverName: life.serverName }),
    ]) {
      expect((await refusalOf(() => open(session, changed))).code).to.equal("invalid_params");
    }
  });

  it("that shows a key the hub could neither sign nor cut is refused before it ends anything", async () => {
    const { session, nodeId, nodeKey, opening: life } = await room.online("worker-1");
    const shown = opening({ linkKey: `U${"A".repeat(55)}` });
    const refusal = await refusalOf(() => open(session, shown));
    expect(refusal).to.include({ code: "invalid_params", mutationMayHaveApplied: false });
    expect(room.link.holders(nodeKey)).to.deep.equal(new Set([life.linkKey]));
    expect((await describeNode(nodeId)).status).to.equal("online");
    expect((await open(session, life)).generation).to.equal(1);
  });

  it("takes over from the one before: next generation, the old key cut before the new one is signed", async () => {
    const { session, token, nodeId } = await room.join("worker-1");
    const old = opening();
    await open(session, old);
    const newer = await room.connect(token);
    const life = opening();
    const opened = await open(newer, life);
    expect(opened.generation).to.equal(2);
    expect(room.link.holders(opened.nodeKey as NodeKey)).to.deep.equal(new Set([life.linkKey]));
    expect(session.closedWith).to.deep.equal([{ code: 4004, reason: "superseded" }]);
    expect(newer.closedWith).to.deep.equal([]);
    expect((await describeNode(nodeId)).metadata.generation).to.equal(2);
    for (const asker of [session, newer]) {
      const refusal = await refusalOf(() => open(asker, old));
      expect([refusal.code, refusal.wire]).to.deep.equal(["node_superseded", "CONFLICT"]);
    }
    expect((await open(newer, life)).generation).to.equal(2);
  });

  it("that shows itself on the connection of the one before does not lose that connection", async () => {
    const { session } = await room.join("worker-1");
    await open(session);
    expect((await open(session)).generation).to.equal(2);
    expect(session.closedWith).to.deep.equal([]);
  });

  it("wins against one that raced it exactly when it came later, and the other learns it", async () => {
    const { session, token } = await room.join("worker-1");
    const other = await room.connect(token);
    const [first, second] = [opening(), opening()];
    const [a, b] = await Promise.all([open(session, first), open(other, second)]);
    expect([a.generation, b.generation]).to.deep.equal([1, 2]);
    expect(session.closedWith).to.deep.equal([{ code: 4004, reason: "superseded" }]);
    expect(room.link.holders(b.nodeKey as NodeKey)).to.deep.equal(new Set([second.linkKey]));
    expect((await refusalOf(() => open(session, first))).code).to.equal("node_superseded");
  });

  it("is refused to a session that is not the newest, whatever key it shows", async () => {
    const { session } = await room.join("worker-1");
    const life = opening();
    const { sessionToken } = await open(session, life);
    await room.connect(sessionToken);
    for (const shown of [life, opening()]) {
      expect((await refusalOf(() => open(session, shown))).code).to.equal("node_superseded");
    }
  });

  it("is refused to everyone but a node's session", async () => {
    expect((await refusalOf(() => open(operator()))).code).to.equal("forbidden");
  });

  it("ends at once when its node is revoked: link cut, session closed, nothing opened any more", async () => {
    const { session, nodeId, token, nodeKey, opening: life } = await room.online("worker-1");
    expect((await room.row("worker-1")).status).to.equal("online");
    await room.nodes.methods["node.revoke"]({ nodeId: "worker-1" }, operator());
    expect(room.link.holders(nodeKey)).to.deep.equal(new Set());
    expect(session.closedWith).to.deep.equal([{ code: 4003, reason: "revoked" }]);
    expect(room.ended.at(-1)).to.deep.equal({ nodeId, olderThan: null, code: 4003 });
    expect((await room.row("worker-1")).status).to.equal("offline");
    expect((await describeNode(nodeId)).metadata).to.include({ revoked: true, generation: 1 });
    for (const shown of [life, opening()]) {
      expect((await refusalOf(() => open(session, shown))).code).to.equal("node_revoked");
    }
    expect((await refusalOf(() => room.connect(token))).code).to.equal("node_revoked");
    // Once more changes nothing.
    expect(await room.nodes.methods["node.revoke"]({ nodeId }, operator())).to.deep.equal({
      nodeId,
      revoked: true,
    });
  });

  it("after a revocation goes on counting generations", async () => {
    const { nodeId } = await room.online("worker-1");
    await room.nodes.methods["node.revoke"]({ nodeId }, operator());
    const back = await room.pair("worker-1", { nodeId, repair: true });
    const { token } = await room.redeem(back.challenge);
    expect((await open(await room.connect(token))).generation).to.equal(2);
  });

  it("ends for good when its node is removed: account gone, name free, id spent", async () => {
    const { session, nodeId, nodeKey } = await room.online("worker-1");
    const { methods } = room.nodes;
    expect(await methods["node.remove"]({ nodeId: "worker-1" }, operator())).to.deep.equal({
      nodeId,
      removed: true,
    });
    expect(room.link.accounts.has(nodeKey)).to.equal(false);
    expect(session.closedWith).to.deep.equal([{ code: 4003, reason: "revoked" }]);
    expect((await refusalOf(() => open(session))).code).to.equal("node_not_found");
    expect((await refusalOf(() => describeNode(nodeId))).message).to.equal("Node not found");
    const next = await room.join("worker-1");
    expect(next.nodeId).to.not.equal(nodeId);
    const [row] = (await methods["node.list"]({}, operator())).nodes;
    expect(row?.nodeId).to.equal(next.nodeId);
  });

  it("that shows itself while its node is removed is told that it is gone; two removals are one", async () => {
    const { session, nodeId } = await room.online("worker-1");
    const { methods } = room.nodes;
    const remove = () => methods["node.remove"]({ nodeId }, operator());
    const outcomes = await Promise.allSettled([
      remove(),
      open(session),
      remove(),
      methods["node.revoke"]({ nodeId }, operator()),
    ]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal([
      "fulfilled",
      "rejected",
      "fulfilled",
      "rejected",
    ]);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") expect(outcome.reason.code).to.equal("node_not_found");
    }
  });

  describe("whose link credentials are in other hands", () => {
    it("is over: cut, closed, refused; another life may follow", async () => {
      const { session, nodeKey, opening: life } = await room.online("worker-1");
      room.nodes.linkEvent({ type: "shared", account: nodeKey, userKey: life.linkKey });
      await room.clock.advance(0);
      expect(session.closedWith).to.deep.equal([{ code: 4004, reason: "superseded" }]);
      expect(room.link.holders(nodeKey)).to.deep.equal(new Set());
      expect((await room.row("worker-1")).status).to.equal("offline");
      expect((await refusalOf(() => open(session, life))).code).to.equal("node_superseded");
      expect((await open(session)).generation).to.equal(2);
    });

    it("is over also when the news did not arrive", async () => {
      const { session, nodeKey, opening: life } = await room.online("worker-1");
      await room.link.revoke(nodeKey, [life.linkKey]);
      const refusal = await refusalOf(() => open(session, life));
      expect(refusal.code).to.equal("node_superseded");
      expect(refusal.message).to.include("in other hands");
      expect((await open(session)).generation).to.equal(2);
    });

    it("is none of the present life's business when they are an earlier one's", async () => {
      const { session, nodeKey, opening: old } = await room.online("worker-1");
      const life = opening();
      await open(session, life);
      room.nodes.linkEvent({ type: "shared", account: nodeKey, userKey: old.linkKey });
      await room.clock.advance(0);
      expect(room.link.holders(nodeKey)).to.deep.equal(new Set([life.linkKey]));
    });
  });

  describe("and its receipt store", () => {
    const known = (opened: {
      registeredStoreId: string | null;
      registeredStoreSequence: number | null;
    }) => [opened.registeredStoreId, opened.registeredStoreSequence];

    it("are registered on first sight, and the sequence only rises", async () => {
      const { session } = await room.join("worker-1");
      const life = opening({ storeId: null, storeSequence: null });
      const shown = async (storeId: string | null, storeSequence: number | null) =>
        known(await open(session, { ...life, storeId, storeSequence }));
      expect(await shown(null, null)).to.deep.equal([null, null]);
      expect(await shown("store-a", null)).to.deep.equal(["store-a", 0]);
      expect(await shown("store-a", 10)).to.deep.equal(["store-a", 10]);
      expect(await shown("store-a", 9)).to.deep.equal(["store-a", 10]);
      expect(await shown("store-b", 99)).to.deep.equal(["store-a", 10]);
      expect(await shown(null, null)).to.deep.equal(["store-a", 10]);
    });

    it("are told to the next life as far as the last ping saw them, written down or not", async () => {
      const { nodeKey, token } = await room.online("worker-1");
      const worker = (storeSequence: number) => () => ping({ storeSequence });
      room.link.workers.set(nodeKey, worker(50));
      await room.clock.advance(2_000);
      // A copy of the store from before that: what was acknowledged since must not read as absent.
      const copy = opening({ storeSequence: 10 });
      expect(known(await open(await room.connect(token), copy))).to.deep.equal(["store-1", 50]);
    });

    it("stay registered over lives, repairs and controllers", async () => {
      const { session, nodeId } = await room.join("worker-1");
      await open(session, opening({ storeId: "store-a", storeSequence: 10 }));
      await room.nodes.methods["node.revoke"]({ nodeId }, operator());
      const back = await room.pair("worker-1", { nodeId, repair: true });
      const { token } = await room.redeem(back.challenge);
      room = await room.restart();
      const wiped = opening({ storeId: "store-b", storeSequence: 0 });
      expect(known(await open(await room.connect(token), wiped))).to.deep.equal(["store-a", 10]);
    });
  });

  it("survives a crash of its actor: calls are settled, and it is online again", async () => {
    const {
      session,
      nodeId,
      opening: life,
    } = await room.online("worker-1", {
      answer: () => new Promise(() => {}),
    });
    const under = refusalOf(() => room.nodes.methods["node.host.info"]({ nodeId }, operator()));
    await room.clock.advance(0);
    const { issue } = room.link;
    room.link.issue = () => Promise.reject(new TypeError("a bug"));
    expect((await refusalOf(() => open(session, life))).code).to.equal("actor_crashed");
    room.link.issue = issue;
    expect((await under).retrySafe).to.equal(true);
    await room.clock.advance(1_000);
    expect((await room.row("worker-1")).status).to.equal("online");
    expect((await open(session, life)).generation).to.equal(1);
  });

  it("is refused beyond sixteen that wait for their turn, without harm to those", async () => {
    const { session } = await room.join("worker-1");
    const life = opening();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, () => open(session, life)),
    );
    const refused = outcomes.filter(({ status }) => status === "rejected");
    expect(refused).to.have.length(40 - 17);
    expect(refused[0]).to.have.nested.property("reason.details.retryAfterMs", 1_000);
    expect((await open(session, life)).generation).to.equal(1);
  });
});
