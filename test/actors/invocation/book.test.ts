import { expect } from "chai";
import {
  InvocationBook,
  PENDING_IN_ALL,
  PENDING_PER_NODE,
  SETTLED_REMEMBERED,
} from "../../../actors/invocation/book.ts";
import type { ConnectionId, NodeId } from "../../../protocol/ids.ts";
import { refusalOf } from "../../support/refusal.ts";

const nodeId = (n: number) => `node-${n}` as NodeId;
const connectionId = (n: number) => `connection-${n}` as ConnectionId;
const addressee = (n: number) => ({
  nodeId: nodeId(n),
  connectionId: connectionId(n),
  sessionGeneration: 1,
});
/** The node's connection that was asked, as the caller of an answer. */
const answering = (n: number, sessionGeneration = 1) => ({
  connectionId: connectionId(n),
  node: { nodeId: nodeId(n), sessionGeneration },
});

describe("the book of invocations", () => {
  it("takes so many that wait for one node, and another when one of them is settled", async () => {
    const book = new InvocationBook<null>();
    for (let n = 0; n < PENDING_PER_NODE; n += 1) {
      book.refuseBeyondBounds(nodeId(1));
      book.begin(`i${n}`, addressee(1), null);
    }
    const refusal = await refusalOf(() => book.refuseBeyondBounds(nodeId(1)));
    expect(refusal.wire).to.equal("RATE_LIMITED");
    expect(refusal.details).to.deep.equal({ retryAfterMs: 1_000 });
    book.refuseBeyondBounds(nodeId(2));
    expect(book.settle("i0")).to.equal(true);
    expect(book.settle("i0")).to.equal(false);
    book.refuseBeyondBounds(nodeId(1));
    book.begin("again", addressee(1), null);
    expect((await refusalOf(() => book.refuseBeyondBounds(nodeId(1)))).code).to.equal(
      "rate_limited",
    );
  });

  it("takes so many that wait in all", async () => {
    const book = new InvocationBook<null>();
    for (let n = 0; n < PENDING_IN_ALL; n += 1) {
      book.refuseBeyondBounds(nodeId(n));
      book.begin(`i${n}`, addressee(n), null);
    }
    const refusal = await refusalOf(() => book.refuseBeyondBounds(nodeId(PENDING_IN_ALL)));
    expect(refusal.code).to.equal("rate_limited");
    book.settle("i7");
    book.refuseBeyondBounds(nodeId(PENDING_IN_ALL));
  });

  it("gives what waits to its node's connection alone", async () => {
    const book = new InvocationBook<string>();
    book.begin("i", addressee(1), "pending");
    expect(book.answeredBy("i", answering(1))).to.deep.equal({
      nodeId: nodeId(1),
      pending: "pending",
    });
    const told = async (by: ReturnType<typeof answering>, id = "i") => {
      const { wire, message } = await refusalOf(() => book.answeredBy(id, by));
      return `${wire}: ${message}`;
    };
    const other = "FORBIDDEN: Invocation belongs to a different node";
    const session = "FORBIDDEN: Invocation belongs to a different session of the node";
    expect(await told(answering(2))).to.equal(other);
    expect(await told({ ...answering(1), connectionId: connectionId(2) })).to.equal(session);
    expect(await told(answering(1, 2))).to.equal(session);
    expect(await told(answering(1), "none")).to.equal("NOT_FOUND: Invocation not found");
    book.settle("i");
    expect(await told(answering(1))).to.equal("CONFLICT: Invocation is no longer pending");
    expect(await told(answering(2))).to.equal(other);
  });

  it("remembers so many that are settled", async () => {
    const book = new InvocationBook<null>();
    for (let n = 0; n <= SETTLED_REMEMBERED; n += 1) {
      book.begin(`i${n}`, addressee(1), null);
      book.settle(`i${n}`);
      const oldest = await refusalOf(() => book.answeredBy("i0", answering(1)));
      if (n < SETTLED_REMEMBERED) expect(oldest.code).to.equal("invoke_settled");
      else expect(oldest.code).to.equal("invoke_not_found");
    }
    const second = await refusalOf(() => book.answeredBy("i1", answering(1)));
    expect(second.code).to.equal("invoke_settled");
  });
});
