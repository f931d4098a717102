/** Proves the local node of `lemon up`, and the accounts that no record names. */
import { expect } from "chai";
import type { NodeId } from "../../../protocol/ids.ts";
import { NodesRoom, opening, operator } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("the local node", () => {
  let room: NodesRoom;
  beforeEach(async () => {
    room = await NodesRoom.open();
  });
  afterEach(() => room.close());

  it("is enrolled once, and is the same after any number of starts, whatever it is called by then", async () => {
    const first = await room.nodes.enrolLocal({ name: "local" });
    expect(first.name).to.equal("local");
    await room.nodes.methods["node.rename"]({ nodeId: "local", name: "desk" }, operator());
    for (let start = 0; start < 3; start += 1) {
      room = await room.restart();
      const again = await room.nodes.enrolLocal({ name: "local" });
      expect([again.nodeId, again.name]).to.deep.equal([first.nodeId, "desk"]);
    }
    expect((await room.nodes.methods["node.list"]({}, operator())).nodes).to.have.length(1);
  });

  it("does not take the name of a node that is there", async () => {
    await room.join("local");
    const refusal = await refusalOf(() => room.nodes.enrolLocal({ name: "local" }));
    expect(refusal.code).to.equal("node_name_in_use");
    expect(refusal.message).to.match(/joined node has the name of the local one.*`lemon start`/);
  });

  it("is nobody's to cut off or to take over", async () => {
    const { nodeId } = await room.nodes.enrolLocal({ name: "local" });
    const shown = opening();
    const life = { ...shown, storeId: null, storeSequence: null };
    await room.nodes.openLocal(nodeId, life);
    const { methods } = room.nodes;
    for (const attempt of [
      () => methods["node.revoke"]({ nodeId: "local" }, operator()),
      () => room.pair("local", { nodeId, repair: true }),
      () => room.pair("local", { nodeId, recoveryToken: "x" }),
    ]) {
      const refusal = await refusalOf(attempt);
      expect(refusal).to.include({ code: "conflict", mutationMayHaveApplied: false });
    }
    expect((await room.nodes.openLocal(nodeId, life)).record.generation).to.equal(1);
  });

  it("is another one after it was removed, with accounts of its own", async () => {
    const first = await room.nodes.enrolLocal({ name: "local" });
    const life = { ...opening(), storeId: null, storeSequence: null };
    await room.nodes.openLocal(first.nodeId, life);
    await room.nodes.methods["node.remove"]({ nodeId: "local" }, operator());
    expect(room.link.accounts.size).to.equal(0);
    room = await room.restart();
    const next = await room.nodes.enrolLocal({ name: "local" });
    expect(next.nodeId).to.not.equal(first.nodeId);
    const { record } = await room.nodes.openLocal(next.nodeId, life);
    expect([record.generation, record.store]).to.deep.equal([1, null]);
    expect(room.link.accounts.size).to.equal(2);
  });

  it("has two accounts, credentials without end, and no session", async () => {
    const { nodeId } = await room.nodes.enrolLocal({ name: "local" });
    const life = { storeId: null, storeSequence: null, ...opening() };
    const opened = await room.nodes.openLocal(
      nodeId,
      life as Parameters<NodesRoom["nodes"]["openLocal"]>[1],
    );
    const kinds = [...room.link.accounts.values()].map(({ kind }) => kind);
    expect(kinds).to.deep.equal(["local-node", "local-store"]);
    expect(opened.linkJwt).to.match(/\.null$/);
    expect([opened.linkLifetimeMs, opened.session]).to.deep.equal([null, null]);
    expect(opened.record.storeKey).to.be.a("string").and.not.equal(opened.nodeKey);
    expect(opened.record.generation).to.equal(1);
    room = await room.restart();
    const next = await room.nodes.openLocal(nodeId, {
      ...life,
      linkKey: opening().linkKey,
    } as Parameters<NodesRoom["nodes"]["openLocal"]>[1]);
    expect(next.record.generation).to.equal(2);
    expect(next.record.storeKey).to.equal(opened.record.storeKey);
    expect(room.link.holders(next.nodeKey).size).to.equal(1);
  });
});

describe("accounts that no record names", () => {
  it("are removed at the next start; those that are named stay", async () => {
    let room = await NodesRoom.open();
    const { nodeKey } = await room.online("worker-1");
    const local = await room.nodes.enrolLocal({ name: "local" });
    await room.nodes.openLocal(local.nodeId as NodeId, {
      ...opening(),
      storeId: null,
      storeSequence: null,
    });
    await room.link.provision();
    const orphan = await room.link.provision();
    room = await room.restart();
    expect(room.link.accounts.has(orphan)).to.equal(false);
    expect(room.link.accounts.has(nodeKey)).to.equal(true);
    expect(room.link.accounts.size).to.equal(3);
    await room.close();
  });

  it("stay when there is no record at all: then it is the records that are missing", async () => {
    let room = await NodesRoom.open();
    const { nodeKey } = await room.online("worker-1");
    const { link } = room;
    await room.close();
    room = await NodesRoom.open(undefined, link);
    expect(room.link.accounts.has(nodeKey)).to.equal(true);
    expect(room.system.text()).to.include("there are accounts, and no node at all");
    await room.close();
  });

  it("do not keep the controller from starting while the hub is away", async () => {
    let room = await NodesRoom.open();
    await room.join("worker-1");
    const orphan = await room.link.provision();
    room.link.hubIsAway = true;
    room = await room.restart();
    expect(room.link.accounts.has(orphan)).to.equal(true);
    await room.close();
  });
});
