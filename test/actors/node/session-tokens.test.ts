/** Proves the session tokens of nodes: whose they are, for how long, and what a newer one does to an older. */
import { expect } from "chai";
import { NodesRoom, opening, operator, type TestCaller } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

const WEEK_MS = 604_800_000;

describe("a session token", () => {
  let room: NodesRoom;
  beforeEach(async () => {
    room = await NodesRoom.open();
  });
  afterEach(() => room.close());

  const identify = (token: string) => room.nodes.sessionTokens.identify(token);

  it("stands for its node for seven days, and is then deleted", async () => {
    const { token, nodeId } = await room.join("worker-1");
    room.clock.stall(WEEK_MS - 1);
    expect((await room.connect(token)).node?.nodeId).to.equal(nodeId);
    room.clock.stall(1);
    expect(await identify(token)).to.equal("expired");
    expect(await identify(token)).to.equal(null);
  });

  it("is nobody's when it was never given out", async () => {
    const { token } = await room.join("worker-1");
    for (const none of ["", "x", token.slice(1), `${token}a`, token.toUpperCase(), "\0"]) {
      expect(await identify(none)).to.equal(null);
    }
  });

  it("outlives the controller", async () => {
    const { token, nodeId } = await room.join("worker-1");
    room = await room.restart();
    expect((await room.connect(token)).node).to.deep.equal({ nodeId, sessionGeneration: 1 });
  });

  it("is refused as superseded once a newer session was begun, and connections of older ones end", async () => {
    const first = await room.join("worker-1");
    const back = await room.pair("worker-1", {
      nodeId: first.nodeId,
      recoveryToken: first.recoveryToken,
    });
    const { token } = await room.redeem(back.challenge);
    expect(room.ended.at(-1)).to.deep.equal({ nodeId: first.nodeId, olderThan: 2, code: 4001 });
    const refusal = await refusalOf(() => identify(first.token));
    expect([refusal.code, refusal.wire]).to.deep.equal(["node_superseded", "UNAUTHORIZED"]);
    expect((await room.connect(token)).node?.sessionGeneration).to.equal(2);
  });

  it("is nobody's once its node was removed", async () => {
    const { token, nodeId } = await room.join("worker-1");
    await room.nodes.methods["node.remove"]({ nodeId }, operator());
    expect(await identify(token)).to.equal(null);
  });

  it("is unavailable, not unknown, while a write of its record is in doubt and can not be read", async () => {
    const { challenge } = await room.pair("worker-1");
    room.documents.writeFaults.push({ kind: "lost", applied: true });
    await refusalOf(() => room.redeem(challenge));
    room.documents.deaf = true;
    expect((await refusalOf(() => identify("x".repeat(43)))).code).to.equal("unavailable");
    room.documents.deaf = false;
    expect(await identify("x".repeat(43))).to.equal(null);
  });

  describe("given with each opening of a link", () => {
    const open = async (session: TestCaller, life: ReturnType<typeof opening>): Promise<string> =>
      (await room.nodes.methods["node.link.open"](life, session)).sessionToken;

    it("leaves the one before good until it is used itself", async () => {
      const { token, session } = await room.join("worker-1");
      const renewed = await open(session, opening());
      await room.connect(token);
      await room.connect(renewed);
      expect((await refusalOf(() => identify(token))).code).to.equal("node_superseded");
      await room.connect(renewed);
    });

    it("strands nobody, whichever answers were lost", async () => {
      const { token, session } = await room.join("worker-1");
      const life = opening();
      const given: string[] = [token];
      for (let count = 0; count < 8; count += 1) given.push(await open(session, life));
      // The machine kept any one of them, and only that one.
      for (const kept of given) await room.connect(kept);
    });

    it("is bounded: of many that were never used the newest eight and the used one are good", async () => {
      const { token, session, nodeId } = await room.join("worker-1");
      const life = opening();
      const given: string[] = [];
      for (let count = 0; count < 100; count += 1) given.push(await open(session, life));
      expect(await identify(given.at(-9) ?? "")).to.equal(null);
      await room.connect(token);
      await room.connect(given.at(-8) ?? "");
      const stored = (await room.documents.get(nodeId))?.value.sessions ?? [];
      expect(stored.length).to.be.at.most(9);
      for (let count = 0; count < 100; count += 1) {
        const next = await open(await room.connect(given.at(-1) ?? ""), life);
        given.push(next);
      }
      const after = (await room.documents.get(nodeId))?.value.sessions ?? [];
      expect(after.length).to.be.at.most(16 + 1 + 8);
    });

    it("ends the connections of older ones when it is used", async () => {
      const { session, nodeId } = await room.join("worker-1");
      const renewed = await open(session, opening());
      expect(room.ended.filter(({ olderThan }) => olderThan === 2)).to.deep.equal([]);
      await room.connect(renewed);
      expect(room.ended.at(-1)).to.deep.equal({ nodeId, olderThan: 2, code: 4001 });
    });

    it("keeps a node that never goes away enrolled for years without an operator", async () => {
      let { token, session } = await room.join("worker-1");
      const life = opening();
      for (let week = 0; week < 100; week += 1) {
        token = await open(session, life);
        room.clock.stall(WEEK_MS - 1);
        session = await room.connect(token);
      }
    });
  });
});
