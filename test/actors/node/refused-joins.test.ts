import { expect } from "chai";
import { LOCAL_NODE } from "../../../cli/roles/home.ts";
import { NodesRoom, opening, operator } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

const WHY = "No node can join: --nats-leaf-url is not given";

describe("a controller that nobody can join", () => {
  let room: NodesRoom;
  afterEach(() => room.close());

  const refusing = async (): Promise<NodesRoom> =>
    (await NodesRoom.open()).restart({ joinsRefused: WHY });

  it("refuses the approval of a pairing, saying why, and has enrolled nobody by it", async () => {
    room = await refusing();
    const refused = await refusalOf(() => room.pair("worker-1"));
    expect([refused.code, refused.message, refused.mutationMayHaveApplied]).to.deep.equal([
      "unavailable",
      WHY,
      false,
    ]);
    expect((await room.nodes.methods["node.list"]({}, operator())).nodes).to.deep.equal([]);
    const { requests } = await room.nodes.methods["node.pair.list"]({}, operator());
    expect(requests.map(({ nodeName }) => nodeName)).to.deep.equal(["worker-1"]);
  });

  it("refuses a new worker of a node it knows, and leaves the one that serves alone", async () => {
    const before = await NodesRoom.open();
    const { token, opening: serving, nodeKey, nodeId } = await before.online("worker-1");
    room = await before.restart({ joinsRefused: WHY });
    const session = await room.connect(token);
    const refused = await refusalOf(() => room.nodes.methods["node.link.open"](opening(), session));
    expect([refused.code, refused.message]).to.deep.equal(["unavailable", WHY]);
    expect(room.link.holders(nodeKey)).to.include(serving.linkKey);
    expect((await room.row("worker-1")).nodeId).to.equal(nodeId);
    const renewed = await room.nodes.methods["node.link.open"](serving, session);
    expect(renewed.generation).to.equal(1);
  });
});

describe("a controller whose hub is somebody else's", () => {
  let room: NodesRoom;
  afterEach(() => room.close());

  it("tells its workers where the hub takes their leafs", async () => {
    const before = await NodesRoom.open();
    room = await before.restart({ leafUrl: "tls://nats.example:7422" });
    const { opened } = await room.online("worker-1");
    expect(opened.leafUrl).to.equal("tls://nats.example:7422");
  });

  it("makes no account for the receipts of its local node, which keeps them itself", async () => {
    room = await NodesRoom.open();
    room.link.keepsStores = false;
    const { nodeId } = await room.nodes.enrolLocal({ name: LOCAL_NODE });
    const { record } = await room.nodes.openLocal(nodeId, {
      ...opening(),
      storeId: null,
      storeSequence: null,
    });
    expect(record.storeKey).to.equal(null);
    expect([...room.link.accounts.values()].map(({ kind }) => kind)).to.deep.equal(["local-node"]);
  });
});
