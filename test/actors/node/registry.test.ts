/** Proves that the registry's records stay one truth, whatever the store does to its writes. */
import { expect } from "chai";
import { NODE_DOCUMENTS } from "../../../actors/node/nodes.ts";
import type { NodeRecord } from "../../../actors/node/record.ts";
import { MemoryDocuments } from "../../support/memory-documents.ts";
import { NodesRoom, operator } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";
import { testSystem } from "../../support/supervision.ts";

describe("the node registry", () => {
  let room: NodesRoom;
  beforeEach(async () => {
    room = await NodesRoom.open();
  });
  afterEach(() => room.close());

  const rename = async (nodeId: string, name: string) =>
    await room.nodes.methods["node.rename"]({ nodeId, name }, operator());
  const names = async () => {
    const { nodes } = await room.nodes.methods["node.list"]({}, operator());
    return nodes.map(({ name }) => name);
  };

  it("does not start on a store that can not be read, or holds what is not its own", async () => {
    const documents = new MemoryDocuments<NodeRecord>(NODE_DOCUMENTS.parse);
    documents.deaf = true;
    const system = testSystem();
    const refusal = await refusalOf(() => NodesRoom.open(documents, room.link, system));
    expect(refusal.code).to.equal("unavailable");
    await system.shutdown();
  });

  it("shows nothing of a change that the store refused", async () => {
    const { nodeId } = await room.join("a");
    room.documents.writeFaults.push({ kind: "refused" });
    expect((await refusalOf(() => rename(nodeId, "b"))).code).to.equal("unavailable");
    expect(await names()).to.deep.equal(["a"]);
    await rename(nodeId, "b");
    expect(await names()).to.deep.equal(["b"]);
  });

  for (const applied of [true, false]) {
    const what = applied ? "applied" : "not applied yet";
    it(`shows what became of an unanswered change that was ${what} within a second`, async () => {
      const { nodeId } = await room.join("a");
      room.documents.writeFaults.push({ kind: "lost", applied });
      const refusal = await refusalOf(() => rename(nodeId, "b"));
      expect(refusal).to.include({ code: "timeout", mutationMayHaveApplied: true });
      await room.clock.advance(1_000);
      expect(await names()).to.deep.equal(["b"]);
      expect((await room.documents.get(nodeId))?.value.name).to.equal("b");
    });

    it(`never has two nodes of one name after an unanswered change that was ${what}`, async () => {
      const { nodeId: first } = await room.join("a");
      const { nodeId: second } = await room.join("b");
      room.documents.writeFaults.push({ kind: "lost", applied });
      await refusalOf(() => rename(first, "c"));
      // Nobody else can take the name while it is in doubt, nor when it is settled.
      expect((await refusalOf(() => rename(second, "c"))).code).to.equal("node_name_in_use");
      room.documents.landGhosts();
      await rename(second, "a");
      expect(await names()).to.deep.equal(["a", "c"]);
    });

    it(`settles an unanswered enrolment that was ${what} to one node`, async () => {
      const { methods } = room.nodes;
      const asked = { nodeType: "t", nodeName: "a" };
      const { pairingId } = await methods["node.pair.request"](asked, operator());
      room.documents.writeFaults.push({ kind: "lost", applied });
      await refusalOf(() => methods["node.pair.approve"]({ pairingId }, operator()));
      await room.clock.advance(1_000);
      room.documents.landGhosts();
      expect(await names()).to.deep.equal(["a"]);
      await methods["node.pair.approve"]({ pairingId }, operator());
      expect(await names()).to.deep.equal(["a"]);
    });

    it(`completes an unanswered removal that was ${what}`, async () => {
      const { nodeId } = await room.join("a");
      room.documents.beforeWrite = () => {
        // The first write marks the removal, the second deletes.
        room.documents.beforeWrite = () => {
          room.documents.writeFaults.push({ kind: "lost", applied });
          room.documents.beforeWrite = () => Promise.resolve();
          return Promise.resolve();
        };
        return Promise.resolve();
      };
      const remove = () => room.nodes.methods["node.remove"]({ nodeId }, operator());
      expect((await refusalOf(remove)).code).to.equal("timeout");
      await room.clock.advance(1_000);
      room.documents.landGhosts();
      expect(await room.documents.get(nodeId)).to.equal(null);
      expect(await names()).to.deep.equal([]);
      const [nodes] = room.system.snapshot().children;
      const enrolled = nodes?.children.find(({ path }) => path.endsWith("/enrolled"));
      expect(enrolled?.children).to.deep.equal([]);
    });
  }

  it("keeps trying to settle while the store stays silent, and is not held up for other nodes", async () => {
    const { nodeId } = await room.join("a");
    const other = await room.join("b");
    room.documents.writeFaults.push(
      ...Array.from({ length: 6 }, () => ({ kind: "lost", applied: false }) as const),
    );
    await refusalOf(() => rename(nodeId, "c"));
    await room.clock.advance(3_000);
    expect(room.documents.writeFaults).to.have.length(2);
    expect((await room.connect(other.token)).node?.nodeId).to.equal(other.nodeId);
    await room.clock.advance(3_000);
    expect(await names()).to.deep.equal(["b", "c"]);
    expect(room.clock.pending).to.equal(0);
  });

  it("yields to what somebody else wrote, and refuses its own change as a conflict", async () => {
    const { nodeId } = await room.join("a");
    const document = await room.documents.get(nodeId);
    if (document === null) throw new Error("no document");
    await room.documents.update(document, { ...document.value, name: "theirs" });
    expect((await refusalOf(() => rename(nodeId, "mine"))).code).to.equal("revision_conflict");
    await room.clock.advance(1_000);
    expect(await names()).to.deep.equal(["theirs"]);
    await rename(nodeId, "mine");
  });

  it("comes back from a crash with everything that was durable", async () => {
    const { nodeId, token } = await room.join("a");
    room.documents.beforeWrite = () => {
      room.documents.beforeWrite = () => Promise.resolve();
      throw new TypeError("a bug");
    };
    expect((await refusalOf(() => rename(nodeId, "b"))).code).to.equal("actor_crashed");
    await room.clock.advance(1_000);
    expect(await names()).to.deep.equal(["a"]);
    expect((await room.connect(token)).node?.nodeId).to.equal(nodeId);
    await rename(nodeId, "b");
  });
});
