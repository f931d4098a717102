/** Proves how a machine becomes a node: the words, the lifetimes and the bounds of control-plane-wire.md 2.5. */
import { expect } from "chai";
import { NodesRoom, operator } from "../../support/nodes-room.ts";
import { pairingDesk, said } from "../../support/pairing-desk.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("pairing a machine", () => {
  let room: NodesRoom;
  beforeEach(async () => {
    room = await NodesRoom.open();
  });
  afterEach(() => room.close());

  const { request, approve, reject, verify, list } = pairingDesk(() => room);

  it("answers a request with an id, six digits and five minutes, and tells the operators", async () => {
    const asked = await request({ capabilities: { a: true, b: { version: 1 } } });
    expect(asked.code).to.match(/^[0-9]{6}$/);
    expect(asked.expiresAtMs).to.equal(room.clock.nowMs() + 300_000);
    expect(asked.summary).to.include({
      pairingId: asked.pairingId,
      nodeType: "coding_agent",
      capabilityCount: 2,
      expiresAtMs: asked.expiresAtMs,
    });
    const { pairingId, code, expiresAtMs } = asked;
    expect(room.events).to.deep.equal([
      {
        event: "node.pair.requested",
        payload: { pairingId, code, nodeType: "coding_agent", nodeName: "worker-1", expiresAtMs },
      },
    ]);
  });

  it("ignores the lifetime that an old client asks for", async () => {
    const { expiresAtMs } = await request({ expiresInMs: 5 });
    expect(expiresAtMs).to.equal(room.clock.nowMs() + 300_000);
  });

  it("lists what waits, oldest first, and nothing that was decided or expired", async () => {
    const first = await request({ nodeName: "a" });
    await room.clock.advance(1_000);
    const second = await request({ nodeName: "b", capabilities: { x: true } });
    const third = await request({ nodeName: "c" });
    const fourth = await request({ nodeName: "d" });
    await approve(third.pairingId);
    await reject(fourth.pairingId);
    const nodeType = "coding_agent";
    const startMs = first.expiresAtMs - 300_000;
    expect(await list()).to.deep.equal([
      { ...strip(first), nodeType, nodeName: "a", capabilities: {}, createdAtMs: startMs },
      {
        ...strip(second),
        nodeType,
        nodeName: "b",
        capabilities: { x: true },
        createdAtMs: startMs + 1_000,
      },
    ]);
    await room.clock.advance(299_000);
    expect((await list()).map(({ nodeName }) => nodeName)).to.deep.equal(["b"]);
    await room.clock.advance(1_000);
    expect(await list()).to.deep.equal([]);
  });

  it("enrols the machine on approval: offline, with a recovery token and a challenge of 60 s", async () => {
    const { pairingId } = await request({ capabilities: { x: true } });
    const approved = await approve(pairingId);
    expect(approved.nodeId).to.match(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-/);
    expect(approved.token).to.match(/^[A-Za-z0-9_-]{43}$/);
    expect(approved.challengeToken).to.match(/^[A-Za-z0-9_-]{43}$/);
    expect(approved.approved).to.equal(true);
    expect(approved.summary).to.include({
      pairingId,
      nodeId: approved.nodeId,
      approved: true,
      recovered: false,
      nodeType: "coding_agent",
      capabilityCount: 1,
      challengeExpiresAtMs: room.clock.nowMs() + 60_000,
    });
    expect(await room.row("worker-1")).to.deep.equal({
      nodeId: approved.nodeId,
      name: "worker-1",
      type: "coding_agent",
      capabilities: { x: true },
      status: "offline",
      pairedAtMs: room.clock.nowMs(),
      lastSeenMs: null,
    });
    expect(room.events.at(-1)).to.deep.equal({
      event: "node.pair.resolved",
      payload: { pairingId, nodeId: approved.nodeId, approved: true, rejected: false },
    });
  });

  it("rejects once, and tells so", async () => {
    const { pairingId, code } = await request();
    const rejected = await reject(pairingId);
    expect(rejected).to.deep.include({ pairingId, rejected: true });
    expect(room.events.at(-1)).to.deep.equal({
      event: "node.pair.resolved",
      payload: { pairingId, nodeId: null, approved: false, rejected: true },
    });
    for (const again of [reject, approve]) {
      expect(said(await refusalOf(() => again(pairingId)))).to.equal(
        "INVALID_REQUEST Pairing request is not pending",
      );
    }
    const verified = await verify(code);
    expect(verified).to.deep.equal({
      valid: false,
      status: "rejected",
      summary: { valid: false, status: "rejected" },
    });
    expect((await room.nodes.methods["node.list"]({}, operator())).nodes).to.deep.equal([]);
  });

  it("does not reject what was approved", async () => {
    const { pairingId } = await request();
    await approve(pairingId);
    expect(said(await refusalOf(() => reject(pairingId)))).to.equal(
      "INVALID_REQUEST Pairing request is not pending",
    );
  });

  it("decides nothing about a request that is unknown or five minutes old", async () => {
    for (const decide of [approve, reject]) {
      expect(said(await refusalOf(() => decide("no-such-id")))).to.equal(
        "NOT_FOUND Pairing request not found",
      );
    }
    const early = await request({ nodeName: "a" });
    await room.clock.advance(299_999);
    await approve(early.pairingId);
    const late = await request({ nodeName: "b" });
    await room.clock.advance(300_000);
    for (const decide of [approve, reject]) {
      expect(said(await refusalOf(() => decide(late.pairingId)))).to.equal(
        "INVALID_REQUEST Pairing request has expired",
      );
    }
  });

  it("verifies a code while it waits and after its approval", async () => {
    const { pairingId, code } = await request();
    expect(await verify(code)).to.deep.include({ valid: true, status: "pending", pairingId });
    await approve(pairingId);
    expect(await verify(code)).to.deep.include({ valid: true, status: "approved", pairingId });
  });

  it("tells an expired code from one that never was, for five minutes more", async () => {
    const { code } = await request();
    const other = code === "000000" ? "000001" : "000000";
    for (const never of [other, "", "123", `${code} `, code.repeat(50)]) {
      expect(said(await refusalOf(() => verify(never)))).to.equal("NOT_FOUND Invalid pairing code");
    }
    await room.clock.advance(300_000);
    expect(said(await refusalOf(() => verify(code)))).to.equal(
      "INVALID_REQUEST Pairing code has expired",
    );
    await room.clock.advance(299_999);
    expect((await refusalOf(() => verify(code))).code).to.equal("pairing_expired");
    await room.clock.advance(1);
    expect((await refusalOf(() => verify(code))).code).to.equal("pairing_not_found");
  });

  it("keeps a thousand requests waiting and refuses the next until one is decided or over", async () => {
    const first = await request({ nodeName: "n-0" });
    await room.clock.advance(60_000);
    for (let count = 1; count < 1_000; count += 1) await request({ nodeName: `n-${count}` });
    const refusal = await refusalOf(() => request({ nodeName: "one-more" }));
    expect(refusal.wire).to.equal("RATE_LIMITED");
    // Until the oldest is over.
    expect(refusal.details).to.deep.equal({ retryAfterMs: 240_000 });
    expect(new Set((await list()).map(({ code }) => code)).size).to.equal(1_000);
    await reject(first.pairingId);
    await request({ nodeName: "one-more" });
    expect((await refusalOf(() => request({ nodeName: "again" }))).code).to.equal("rate_limited");
    await room.clock.advance(300_000);
    await request({ nodeName: "later" });
    expect(await list()).to.have.length(1);
  });

  it("forgets the oldest decided requests beyond two thousand, and never one that waits", async () => {
    const waiting = await request({ nodeName: "waiting" });
    const decided: string[] = [];
    for (let count = 0; count < 2_000; count += 1) {
      const { pairingId, code } = await request({ nodeName: "x" });
      await reject(pairingId);
      decided.push(code);
    }
    expect((await verify(waiting.code)).status).to.equal("pending");
    expect((await refusalOf(() => verify(decided[0] ?? ""))).code).to.equal("pairing_not_found");
    expect((await verify(decided[1] ?? "")).status).to.equal("rejected");
  });

  describe("a name", () => {
    it("is the same with spaces around it and however its characters are composed", async () => {
      await room.join("caf\u00e9");
      for (const same of ["caf\u00e9", "  caf\u00e9\t", "cafe\u0301"]) {
        const refusal = await refusalOf(() => request({ nodeName: same }));
        expect(said(refusal)).to.equal("CONFLICT Node name is already in use");
      }
      await room.pair("Caf\u00e9");
    });

    it("goes to one of two requests that are approved at once; the other is a conflict", async () => {
      const first = await request();
      const second = await request();
      const outcomes = await Promise.allSettled([
        approve(first.pairingId),
        approve(second.pairingId),
      ]);
      expect(outcomes.map(({ status }) => status)).to.deep.equal(["fulfilled", "rejected"]);
      const refusal = await refusalOf(() => approve(second.pairingId));
      expect(said(refusal)).to.equal("CONFLICT Node name is already in use");
      expect(refusal.code).to.equal("node_name_in_use");
      // It is still pending: the name may become free.
      expect((await verify(second.code)).status).to.equal("pending");
    });

    it("whose machine never came with its challenge goes to the next that is approved", async () => {
      const { nodeId, recoveryToken, challenge } = await room.pair("worker-1");
      await room.clock.advance(59_999);
      const held = await refusalOf(() => request());
      expect(held.code).to.equal("node_name_in_use");
      expect(held.details["retryAfterMs"]).to.equal(1);
      await room.clock.advance(1);
      const next = await room.pair("worker-1");
      expect(next.nodeId).to.equal(nodeId);
      expect(next.recoveryToken).to.not.equal(recoveryToken);
      expect((await refusalOf(() => room.redeem(challenge))).code).to.equal("unauthorized");
      await room.redeem(next.challenge);
      await room.clock.advance(60_000);
      expect((await refusalOf(() => request())).code).to.equal("node_name_in_use");
    });

    it("of an enrolment that an earlier controller did not live to answer goes to the next", async () => {
      const { nodeId } = await room.pair("worker-1");
      room = await room.restart();
      expect((await room.pair("worker-1")).nodeId).to.equal(nodeId);
    });
  });

  it("measures its lifetimes on a clock that does not jump", async () => {
    const waiting = await request({ nodeName: "waiting" });
    const { challenge } = await room.pair("approved");
    room.clock.jumpWallClock(3_600_000);
    expect((await verify(waiting.code)).status).to.equal("pending");
    await room.redeem(challenge);
    room.clock.jumpWallClock(-7_200_000);
    await room.clock.advance(300_000);
    expect((await refusalOf(() => approve(waiting.pairingId))).code).to.equal("pairing_expired");
    expect(await list()).to.deep.equal([]);
  });

  it("is forgotten by a controller that restarts, except for the node", async () => {
    const waiting = await request({ nodeName: "waiting" });
    const { challenge, nodeId } = await room.pair("approved");
    room = await room.restart();
    expect(await list()).to.deep.equal([]);
    expect((await refusalOf(() => approve(waiting.pairingId))).code).to.equal("pairing_not_found");
    expect((await refusalOf(() => room.redeem(challenge))).code).to.equal("unauthorized");
    expect((await room.row("approved")).nodeId).to.equal(nodeId);
  });

  it("refuses what a machine says of itself beyond 16 KiB, a name without substance, or too long", async () => {
    const fits = { x: "y".repeat(16_384 - '{"x":""}'.length) };
    await request({ nodeName: "fits", capabilities: fits });
    await request({ nodeName: "n".repeat(128) });
    for (const bad of [
      { capabilities: { x: `${fits.x}y` } },
      { capabilities: { "a\u001b[2J": true } },
      { nodeName: " \t " },
      { nodeName: "n".repeat(129) },
      { nodeName: "a\u0000b" },
      { nodeName: "a\u202eb" },
      { nodeType: "" },
      { nodeType: "t".repeat(129) },
      { nodeType: " " },
      { nodeType: "a\u001b[2J" },
      { nodeId: "n".repeat(257) },
    ]) {
      expect((await refusalOf(() => request(bad))).wire).to.equal("INVALID_REQUEST");
    }
  });

  it("keeps no code, challenge or token in the store or the log", async () => {
    const secrets: string[] = [];
    const { pairingId, code } = await request();
    const approved = await approve(pairingId);
    const redeemed = await room.redeem(approved.challengeToken);
    secrets.push(code, approved.token ?? "", approved.challengeToken, redeemed.token);
    await refusalOf(() => room.redeem(approved.challengeToken));
    const stored = room.documents.text();
    for (const secret of secrets) {
      expect(secret).to.not.equal("");
      expect(room.system.text()).to.not.include(secret);
      // Six digits can stand in a time by chance; as a JSON text they can not.
      expect(stored).to.not.include(secret.length === 6 ? `"${secret}"` : secret);
    }
  });
});

function strip({
  pairingId,
  code,
  expiresAtMs,
}: {
  pairingId: string;
  code: string;
  expiresAtMs: number;
}) {
  return { pairingId, code, expiresAtMs };
}
