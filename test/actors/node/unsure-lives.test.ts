/** Proves what becomes of a worker life while the hub is away, and when the store did not answer. */
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { NodesRoom, opening, operator, type TestCaller } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

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

  describe("while the hub is away", () => {
    it("is not opened, and a repeat completes it when the hub is back", async () => {
      const { session } = await room.join("worker-1");
      const life = opening();
      room.link.hubIsAway = true;
      expect((await refusalOf(() => open(session, life))).code).to.equal("unavailable");
      room.link.hubIsAway = false;
      expect((await open(session, life)).generation).to.equal(1);
      expect(room.link.accounts.size).to.equal(1);
    });

    it("never gets credentials beside those of the life before, whoever restarts meanwhile", async () => {
      const { session, nodeKey, opening: old, opened } = await room.online("worker-1");
      const life = opening();
      room.link.hubIsAway = true;
      expect((await refusalOf(() => open(session, life))).code).to.equal("unavailable");
      expect(room.link.holders(nodeKey)).to.deep.equal(new Set([old.linkKey]));
      // The old life is over all the same: it is durable that the new one took its place.
      expect((await refusalOf(() => open(session, old))).code).to.equal("node_superseded");
      room = await room.restart();
      room.link.hubIsAway = false;
      const again = await open(await room.connect(opened.sessionToken), life);
      expect(again.generation).to.equal(2);
      expect(room.link.holders(nodeKey)).to.deep.equal(new Set([life.linkKey]));
    });

    it("has no more than one key left to cut, however many lives come and go", async () => {
      const { session, nodeId } = await room.online("worker-1");
      room.link.hubIsAway = true;
      for (let count = 0; count < 5; count += 1) await refusalOf(() => open(session));
      expect((await room.documents.get(nodeId))?.value.uncutLinkKeys).to.have.length(1);
      room.link.hubIsAway = false;
      const { generation } = await open(session);
      expect(generation).to.equal(3);
    });

    it("is revoked durably, and says that the hub has yet to be told", async () => {
      const { nodeId, nodeKey, token } = await room.online("worker-1");
      room.link.hubIsAway = true;
      const { methods } = room.nodes;
      const refusal = await refusalOf(() => methods["node.revoke"]({ nodeId }, operator()));
      expect(refusal.code).to.equal("unavailable");
      expect(refusal.mutationMayHaveApplied).to.equal(true);
      expect(room.ended.at(-1)).to.deep.equal({ nodeId, olderThan: null, code: 4003 });
      expect((await refusalOf(() => room.connect(token))).code).to.equal("node_revoked");
      room.link.hubIsAway = false;
      room = await room.restart();
      await room.clock.advance(0);
      expect(room.link.holders(nodeKey)).to.deep.equal(new Set());
    });

    it("says that a change may stand which its keeper could not write down", async () => {
      const { nodeId, nodeKey, session } = await room.online("worker-1");
      const { methods } = room.nodes;
      const { revoke, remove } = room.link;
      const full = () => Promise.reject(new LemonError("no_space"));
      const uncertain = { code: "no_space", retrySafe: true, mutationMayHaveApplied: true };
      const life = opening();
      room.link.revoke = full;
      expect(await refusalOf(() => open(session, life))).to.include(uncertain);
      room.link.revoke = revoke;
      expect((await open(session, life)).generation).to.equal(2);

      room.link.revoke = full;
      const cutOff = () => methods["node.revoke"]({ nodeId }, operator());
      expect(await refusalOf(cutOff)).to.include(uncertain);
      expect((await describeNode(nodeId)).metadata.revoked).to.equal(true);
      room.link.revoke = revoke;
      await cutOff();
      expect(room.link.holders(nodeKey)).to.deep.equal(new Set());

      room.link.remove = full;
      const forget = () => methods["node.remove"]({ nodeId }, operator());
      expect(await refusalOf(forget)).to.include(uncertain);
      room.link.remove = remove;
      await forget();
      expect(room.link.accounts.has(nodeKey)).to.equal(false);
    });

    it("is removed from sight, and the removal is completed by a repeat or the next start", async () => {
      for (const way of ["repeat", "restart"] as const) {
        const { nodeId, nodeKey } = await room.online("worker-1");
        const remove = () => room.nodes.methods["node.remove"]({ nodeId }, operator());
        room.link.hubIsAway = true;
        expect((await refusalOf(remove)).code).to.equal("unavailable");
        expect((await room.nodes.methods["node.list"]({}, operator())).nodes).to.deep.equal([]);
        await room.pair("worker-1", {});
        room.link.hubIsAway = false;
        if (way === "repeat") await remove();
        else room = await room.restart();
        expect(room.link.accounts.has(nodeKey)).to.equal(false);
        expect(await room.documents.get(nodeId)).to.equal(null);
        expect((await refusalOf(remove)).code).to.equal("node_not_found");
        const { nodeId: other } = await room.row("worker-1");
        await room.nodes.methods["node.remove"]({ nodeId: other }, operator());
      }
    });
  });

  for (const applied of [true, false]) {
    const what = applied ? "done" : "not done yet";
    describe(`whose change the store did not answer, and was ${what}`, () => {
      it("takes over all the same, and the one before learns it", async () => {
        const { session, token, nodeKey, nodeId } = await room.online("worker-1", {
          answer: () => new Promise(() => {}),
        });
        const under = refusalOf(() => room.nodes.methods["node.host.info"]({ nodeId }, operator()));
        const newer = await room.connect(token);
        const life = opening();
        room.documents.writeFaults.push({ kind: "lost", applied });
        expect((await refusalOf(() => open(newer, life))).code).to.equal("timeout");
        await room.clock.advance(1_000);
        expect(session.closedWith).to.deep.equal([{ code: 4004, reason: "superseded" }]);
        expect((await under).code).to.equal("link_lost");
        expect(room.link.holders(nodeKey)).to.deep.equal(new Set());
        expect((await open(newer, life)).generation).to.equal(2);
        expect(newer.closedWith).to.deep.equal([]);
        expect(room.link.holders(nodeKey)).to.deep.equal(new Set([life.linkKey]));
      });

      it("ends all the same when it was a revocation", async () => {
        const { session, nodeKey, nodeId } = await room.online("worker-1");
        room.documents.writeFaults.push({ kind: "lost", applied });
        const revoke = () => room.nodes.methods["node.revoke"]({ nodeId }, operator());
        expect((await refusalOf(revoke)).mutationMayHaveApplied).to.equal(true);
        await room.clock.advance(1_000);
        expect(session.closedWith).to.deep.equal([{ code: 4003, reason: "revoked" }]);
        expect(room.ended).to.deep.include({ nodeId, olderThan: null, code: 4003 });
        expect(room.link.holders(nodeKey)).to.deep.equal(new Set());
      });
    });
  }
});
