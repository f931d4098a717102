/** Proves how a machine gets back what it lost: another challenge, or its old id (control-plane-wire.md 2.5). */
import { expect } from "chai";
import { NodesRoom, operator } from "../../support/nodes-room.ts";
import { pairingDesk, said } from "../../support/pairing-desk.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a machine that lost what it had", () => {
  let room: NodesRoom;
  beforeEach(async () => {
    room = await NodesRoom.open();
  });
  afterEach(() => room.close());

  const { request, approve, list } = pairingDesk(() => room);

  describe("approving again", () => {
    it("gives another challenge for the same node, voids the one before, and gives no token", async () => {
      const { pairingId } = await request();
      const first = await approve(pairingId);
      const second = await approve(pairingId);
      expect(second.nodeId).to.equal(first.nodeId);
      expect(second).to.not.have.property("token");
      expect(second.summary).to.include({ recovered: true });
      expect((await refusalOf(() => room.redeem(first.challengeToken))).code).to.equal(
        "unauthorized",
      );
      await room.redeem(second.challengeToken);
      expect((await room.nodes.methods["node.list"]({}, operator())).nodes).to.have.length(1);
    });

    it("after a failed or unanswered approval makes no second node", async () => {
      for (const fault of [
        { kind: "refused" } as const,
        { kind: "lost", applied: true } as const,
        { kind: "lost", applied: false } as const,
      ]) {
        const name = `w-${JSON.stringify(fault).length}-${fault.kind}`;
        const { pairingId } = await request({ nodeName: name });
        room.documents.writeFaults.push(fault);
        await refusalOf(() => approve(pairingId));
        const approved = await approve(pairingId);
        const { nodes } = await room.nodes.methods["node.list"]({}, operator());
        expect(nodes.filter((node) => node.name === name)).to.have.length(1);
        // The recovery token that was given out is the one that works.
        const back = await request({
          nodeName: name,
          nodeId: approved.nodeId,
          recoveryToken: approved.token ?? "",
        });
        await approve(back.pairingId);
      }
    });

    it("does not bring back a node that was cut off since", async () => {
      const { pairingId } = await request();
      const { nodeId } = await approve(pairingId);
      await room.nodes.methods["node.revoke"]({ nodeId }, operator());
      expect((await refusalOf(() => approve(pairingId))).code).to.equal("node_revoked");
      const repair = await request({ nodeId, repair: true });
      await approve(repair.pairingId);
      const again = await approve(repair.pairingId);
      await room.connect((await room.redeem(again.challengeToken)).token);
    });

    it("does not give a node to a machine whose place another took", async () => {
      const first = await request();
      const { nodeId } = await approve(first.pairingId);
      await room.clock.advance(60_000);
      const second = await request();
      const approved = await approve(second.pairingId);
      expect(approved.nodeId).to.equal(nodeId);
      expect((await refusalOf(() => approve(first.pairingId))).code).to.equal(
        "pairing_not_pending",
      );
      await room.redeem(approved.challengeToken);
      expect((await refusalOf(() => approve(first.pairingId))).code).to.equal(
        "pairing_not_pending",
      );
    });

    it("of a node removed meanwhile says that it is gone", async () => {
      const { pairingId } = await request();
      const { nodeId } = await approve(pairingId);
      await room.nodes.methods["node.remove"]({ nodeId }, operator());
      expect(said(await refusalOf(() => approve(pairingId)))).to.equal(
        "NOT_FOUND Paired node was not found",
      );
    });
  });

  describe("a node that comes back", () => {
    it("by its recovery token keeps its id and name, and gets no new token", async () => {
      const { nodeId, recoveryToken, token } = await room.join("worker-1");
      const asked = await request({ nodeName: "another-name", nodeId, recoveryToken });
      expect((await list())[0]?.nodeName).to.equal("worker-1");
      const approved = await approve(asked.pairingId);
      expect(approved.nodeId).to.equal(nodeId);
      expect(approved).to.not.have.property("token");
      expect(approved.summary).to.include({ recovered: true });
      // Until the challenge is redeemed nothing changes for the session that is there.
      await room.connect(token);
      const redeemed = await room.redeem(approved.challengeToken);
      expect(redeemed.identity).to.deep.equal({ type: "node", nodeId, nodeName: "worker-1" });
      await room.connect(redeemed.token);
      expect((await refusalOf(() => room.connect(token))).code).to.equal("node_superseded");
      expect(room.ended).to.deep.include({ nodeId, olderThan: 2, code: 4001 });
    });

    it("by an operator's repair gets a new recovery token, and the old one is void", async () => {
      const { nodeId, recoveryToken } = await room.join("worker-1");
      const asked = await request({ nodeId, repair: true });
      const approved = await approve(asked.pairingId);
      expect(approved.token).to.be.a("string").and.not.equal(recoveryToken);
      const refusal = await refusalOf(() => request({ nodeId, recoveryToken }));
      expect(said(refusal)).to.equal("FORBIDDEN Recovery token is invalid");
      await request({ nodeId, recoveryToken: approved.token ?? "" });
    });

    it("is told when it is not known, has the wrong token, or proves nothing", async () => {
      const { nodeId, recoveryToken } = await room.join("worker-1");
      const missing = "0d6f2f5e-8d51-4b0f-9a55-2f1f3f1f7a10";
      for (const [ask, words] of [
        [{ nodeId: missing, recoveryToken }, "NOT_FOUND Paired node was not found"],
        [{ nodeId: missing, repair: true }, "NOT_FOUND Paired node was not found"],
        [{ nodeId: "worker-1", repair: true }, "NOT_FOUND Paired node was not found"],
        [{ nodeId, recoveryToken: `${recoveryToken}x` }, "FORBIDDEN Recovery token is invalid"],
        [{ nodeId }, "INVALID_REQUEST Missing one of: recoveryToken or repair"],
        [{ nodeId, repair: false }, "INVALID_REQUEST Missing one of: recoveryToken or repair"],
      ] as const) {
        expect(said(await refusalOf(() => request(ask)))).to.equal(words);
      }
    });

    it("whose token was replaced between request and approval is refused", async () => {
      const { nodeId, recoveryToken } = await room.join("worker-1");
      const asked = await request({ nodeId, recoveryToken });
      const repair = await request({ nodeId, repair: true });
      await approve(repair.pairingId);
      expect((await refusalOf(() => approve(asked.pairingId))).code).to.equal("forbidden");
    });

    it("after it was revoked needs an operator's repair", async () => {
      const { nodeId, recoveryToken, token } = await room.join("worker-1");
      const asked = await request({ nodeId, recoveryToken });
      await room.nodes.methods["node.revoke"]({ nodeId }, operator());
      expect((await refusalOf(() => approve(asked.pairingId))).code).to.equal("node_revoked");
      const refusal = await refusalOf(() => request({ nodeId, recoveryToken }));
      expect(refusal.code).to.equal("node_revoked");
      expect(refusal.wire).to.equal("UNAUTHORIZED");
      expect((await refusalOf(() => room.connect(token))).code).to.equal("node_revoked");

      const repaired = await approve((await request({ nodeId, repair: true })).pairingId);
      const redeemed = await room.redeem(repaired.challengeToken);
      await room.connect(redeemed.token);
      expect((await refusalOf(() => room.connect(token))).code).to.equal("node_superseded");
      expect((await room.row("worker-1")).nodeId).to.equal(nodeId);
    });
  });
});
