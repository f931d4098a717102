import { expect } from "chai";
import fc from "fast-check";
import { LemonError } from "../../../protocol/errors.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import { FlowControl, type FlowLimits, type Passage } from "../../../transport/rpc/flow.ts";

const A = "A" as NodeKey;
const B = "B" as NodeKey;
const C = "C" as NodeKey;
const D = "D" as NodeKey;

const LIMITS: FlowLimits = {
  totalBytes: 100,
  nodeBytes: 50,
  waitingCalls: 20,
  waitingBytes: 1_000,
  waitingCallsPerCaller: 10,
  waitingCallsPerNode: 15,
  waitingBytesPerNode: 600,
};

/** A flow whose passages note in `started` when they start. */
function flowWith(limits: Partial<FlowLimits> = {}) {
  const flow = new FlowControl({ ...LIMITS, ...limits });
  const started: string[] = [];
  const passages = new Map<string, Passage>();
  return {
    flow,
    started,
    enter(name: string, node: NodeKey, bytes: number, caller = name): void {
      const passage = { node, caller, bytes, waitingBytes: bytes, start: () => started.push(name) };
      passages.set(name, passage);
      flow.enter(passage);
    },
    leave(name: string): void {
      const passage = passages.get(name);
      if (passage !== undefined) flow.leave(passage);
    },
  };
}

function refusal(attempt: () => unknown): string {
  try {
    attempt();
  } catch (error) {
    if (error instanceof LemonError) return error.code;
    throw error;
  }
  return "taken";
}

describe("the flow of calls", () => {
  it("starts what fits at once, to the byte", () => {
    const { started, enter } = flowWith();
    enter("1", A, 40);
    enter("2", A, 10);
    enter("3", B, 50);
    expect(started).to.deep.equal(["1", "2", "3"]);
  });

  it("lets a node's calls wait beyond its share, and another node's pass", () => {
    const { started, enter, leave } = flowWith();
    enter("1", A, 40);
    enter("2", A, 11);
    enter("3", B, 30);
    expect(started).to.deep.equal(["1", "3"]);
    leave("1");
    expect(started).to.deep.equal(["1", "3", "2"]);
  });

  it("does not let a small call overtake a larger one to the same node", () => {
    const { started, enter, leave } = flowWith();
    enter("1", A, 40);
    enter("large", A, 45, "one");
    enter("small", A, 5, "other");
    expect(started).to.deep.equal(["1"]);
    leave("1");
    expect(started).to.deep.equal(["1", "large", "small"]);
  });

  it("lets what is larger than a bound by itself go alone", () => {
    const { started, enter, leave } = flowWith();
    enter("large", A, 500);
    enter("small", B, 1);
    expect(started).to.deep.equal(["large"]);
    leave("large");
    expect(started).to.deep.equal(["large", "small"]);
  });

  it("waits for a large call whose turn it is instead of letting small ones pass it for ever", () => {
    const { started, enter, leave } = flowWith();
    enter("1", A, 50);
    enter("2", B, 45);
    enter("large", C, 50);
    enter("small", D, 5);
    expect(started).to.deep.equal(["1", "2"]);
    leave("2");
    expect(started).to.deep.equal(["1", "2", "large"]);
    leave("1");
    expect(started).to.deep.equal(["1", "2", "large", "small"]);
  });

  it("takes turns between callers, however much each has waiting", () => {
    const { started, enter, leave } = flowWith();
    enter("first", A, 50);
    for (const name of ["a1", "a2", "a3"]) enter(name, A, 50, "greedy");
    enter("b1", A, 50, "modest");
    for (let turn = 0; turn < 4; turn++) leave(started.at(-1) ?? "");
    expect(started).to.deep.equal(["first", "a1", "b1", "a2", "a3"]);
  });

  it("takes turns between the nodes of one caller", () => {
    const { started, enter, leave } = flowWith({ totalBytes: 50 });
    enter("first", A, 50);
    for (const name of ["a1", "a2"]) enter(name, A, 50, "x");
    for (const name of ["b1", "b2"]) enter(name, B, 50, "x");
    for (let turn = 0; turn < 4; turn++) leave(started.at(-1) ?? "");
    expect(started).to.deep.equal(["first", "a1", "b1", "a2", "b2"]);
  });

  it("refuses the caller whose own queue is full, and only that one", () => {
    const { flow, enter } = flowWith();
    enter("flying", A, 50);
    for (let call = 0; call < LIMITS.waitingCallsPerCaller; call++) {
      enter(`g${call}`, A, 1, "greedy");
    }
    expect(refusal(() => enter("over", A, 1, "greedy"))).to.equal("rate_limited");
    expect(refusal(() => enter("other", A, 1, "modest"))).to.equal("taken");
    expect(flow.waiting).to.equal(LIMITS.waitingCallsPerCaller + 1);
  });

  it("keeps one node's calls from using up the waiting room of all", () => {
    const { enter } = flowWith();
    enter("flying a", A, 50);
    enter("flying b", B, 50);
    for (let call = 0; call < LIMITS.waitingCallsPerNode; call++) enter(`a${call}`, A, 1);
    expect(refusal(() => enter("over", A, 1))).to.equal("unavailable");
    expect(refusal(() => enter("b", B, 1))).to.equal("taken");
  });

  it("keeps one node's bytes from using it up, as its calls", () => {
    const { enter, leave } = flowWith();
    enter("flying a", A, 50);
    enter("flying b", B, 50);
    for (const [name, bytes] of [
      ["a1", 400],
      ["a2", 200],
    ] as const) {
      expect(refusal(() => enter(name, A, bytes))).to.equal("taken");
    }
    expect(refusal(() => enter("over", A, 1))).to.equal("unavailable");
    expect(refusal(() => enter("b1", B, 400))).to.equal("taken");
    leave("a2");
    expect(refusal(() => enter("a3", A, 200))).to.equal("taken");
  });

  it("bounds what waits in calls and in bytes", () => {
    const calls = flowWith({ waitingCalls: 3 });
    calls.enter("flying", A, 50);
    for (const name of ["1", "2", "3"]) calls.enter(name, A, 1);
    expect(refusal(() => calls.enter("4", A, 1))).to.equal("unavailable");

    const bytes = flowWith({ waitingBytes: 30 });
    bytes.enter("flying", A, 50);
    bytes.enter("1", A, 30);
    expect(refusal(() => bytes.enter("2", A, 1))).to.equal("unavailable");
  });

  it("holds no bound of waiting against a call that need not wait", () => {
    const { started, enter } = flowWith({ waitingCalls: 1 });
    enter("flying", A, 50);
    enter("waiting", A, 1);
    expect(refusal(() => enter("free", B, 1))).to.equal("taken");
    expect(started).to.deep.equal(["flying", "free"]);
  });

  it("starts nothing towards a held node until it is released", () => {
    const { flow, started, enter } = flowWith();
    flow.hold(A);
    enter("a", A, 1);
    enter("b", B, 1);
    expect(started).to.deep.equal(["b"]);
    flow.release(A);
    expect(started).to.deep.equal(["b", "a"]);
  });

  it("never starts what has left before its turn", () => {
    const { flow, started, enter, leave } = flowWith();
    enter("1", A, 50);
    enter("2", A, 50);
    leave("2");
    leave("2");
    leave("1");
    expect(started).to.deep.equal(["1"]);
    expect([flow.waiting, flow.flyingBytes]).to.deep.equal([0, 0]);
  });

  it("keeps its bounds, its order within a lane, and starts everything in the end", () => {
    const step = fc.oneof(
      fc.record({
        enter: fc.constant(true),
        node: fc.constantFrom(A, B, C),
        caller: fc.constantFrom("x", "y", "z"),
        bytes: fc.integer({ min: 1, max: 60 }),
      }),
      fc.record({ enter: fc.constant(false), at: fc.nat() }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const flow = new FlowControl(LIMITS);
        const flying: Passage[] = [];
        const lanes = new Map<string, Passage[]>();
        const check = (): void => {
          const total = flying.reduce((sum, { bytes }) => sum + bytes, 0);
          expect(flow.flyingBytes).to.equal(total);
          if (flying.length > 1) expect(total).to.be.at.most(LIMITS.totalBytes);
          for (const node of [A, B, C]) {
            const own = flying.filter((passage) => passage.node === node);
            const bytes = own.reduce((sum, passage) => sum + passage.bytes, 0);
            if (own.length > 1) expect(bytes).to.be.at.most(LIMITS.nodeBytes);
          }
        };
        const end = (at: number): void => {
          const [passage] = flying.splice(at % flying.length, 1);
          if (passage !== undefined) flow.leave(passage);
          check();
        };
        for (const action of steps) {
          if ("at" in action) {
            if (flying.length > 0) end(action.at);
            continue;
          }
          const { node, caller, bytes } = action;
          const lane = lanes.get(`${node} ${caller}`) ?? [];
          lanes.set(`${node} ${caller}`, lane);
          const passage: Passage = {
            node,
            caller,
            bytes,
            waitingBytes: bytes,
            start() {
              expect(lane.shift()).to.equal(passage);
              flying.push(passage);
            },
          };
          lane.push(passage);
          try {
            flow.enter(passage);
          } catch {
            lane.splice(lane.indexOf(passage), 1);
          }
          check();
        }
        while (flying.length > 0) end(0);
        expect([...lanes.values()].flat()).to.deep.equal([]);
        expect([flow.waiting, flow.flyingBytes]).to.deep.equal([0, 0]);
      }),
    );
  });
});
