/** Proves the exchange of a challenge for a session (control-plane-wire.md 2.4 and 2.5). */
import { expect } from "chai";
import { NodesRoom, operator } from "../../support/nodes-room.ts";
import { pairingDesk, said } from "../../support/pairing-desk.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a challenge", () => {
  let room: NodesRoom;
  beforeEach(async () => {
    room = await NodesRoom.open();
  });
  afterEach(() => room.close());

  const { request, approve } = pairingDesk(() => room);

  it("is taken for a session token of seven days, whose node it names", async () => {
    const { nodeId, challenge } = await room.pair("worker-1");
    await room.clock.advance(59_999);
    const redeemed = await room.redeem(challenge);
    expect(redeemed.verified).to.equal(true);
    expect(redeemed.identity).to.deep.equal({ type: "node", nodeId, nodeName: "worker-1" });
    expect(redeemed.token).to.match(/^[A-Za-z0-9_-]{43}$/);
    expect(redeemed.summary).to.deep.equal({
      verified: true,
      identityType: "node",
      identityId: nodeId,
      tokenTtlMs: 604_800_000,
    });
    const session = await room.connect(redeemed.token);
    expect(session.node).to.deep.equal({ nodeId, sessionGeneration: 1 });
    expect(session.clientId).to.equal(nodeId);
  });

  it("is over after 60 s, once said, and unknown from then on", async () => {
    const { challenge } = await room.pair("worker-1");
    await room.clock.advance(60_000);
    expect(said(await refusalOf(() => room.redeem(challenge)))).to.equal(
      "UNAUTHORIZED Challenge expired",
    );
    expect(said(await refusalOf(() => room.redeem(challenge)))).to.equal(
      "UNAUTHORIZED Invalid challenge",
    );
  });

  it("is taken by exactly one of many who offer it at once", async () => {
    const { challenge } = await room.pair("worker-1");
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, () => room.redeem(challenge)),
    );
    expect(outcomes.filter(({ status }) => status === "fulfilled")).to.have.length(1);
  });

  it("that is none is refused", async () => {
    for (const none of ["", "x", "x".repeat(10_000), "\0"]) {
      expect(said(await refusalOf(() => room.redeem(none)))).to.equal(
        "UNAUTHORIZED Invalid challenge",
      );
    }
  });

  it("is not spent when the store refused to begin the session", async () => {
    const { challenge } = await room.pair("worker-1");
    room.documents.writeFaults.push({ kind: "refused" });
    expect((await refusalOf(() => room.redeem(challenge))).code).to.equal("unavailable");
    await room.connect((await room.redeem(challenge)).token);
  });

  it("is spent when nobody knows whether the session began; another approval helps", async () => {
    for (const applied of [true, false]) {
      const name = `worker-${applied}`;
      const asked = await request({ nodeName: name });
      const { challengeToken } = await approve(asked.pairingId);
      room.documents.writeFaults.push({ kind: "lost", applied });
      expect((await refusalOf(() => room.redeem(challengeToken))).code).to.equal("timeout");
      expect((await refusalOf(() => room.redeem(challengeToken))).code).to.equal("unauthorized");
      const again = await approve(asked.pairingId);
      await room.connect((await room.redeem(again.challengeToken)).token);
    }
  });

  it("given out before its node was cut off or removed is void", async () => {
    const methods = room.nodes.methods;
    const first = await room.pair("worker-1");
    await methods["node.revoke"]({ nodeId: first.nodeId }, operator());
    const second = await room.pair("worker-2");
    await methods["node.remove"]({ nodeId: second.nodeId }, operator());
    for (const { challenge } of [first, second]) {
      expect(said(await refusalOf(() => room.redeem(challenge)))).to.equal(
        "UNAUTHORIZED Invalid challenge",
      );
    }
  });
});
