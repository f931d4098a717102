/**
 * Proves the one promise of an invocation against every order of what can befall it: its caller is told its
 * outcome exactly once, and that is the answer that was taken, when one was.
 */
import { getEventListeners } from "node:events";
import { expect } from "chai";
import fc from "fast-check";
import { openInvocations } from "../../../actors/invocation/invocations.ts";
import { LemonError } from "../../../protocol/errors.ts";
import type { PrivateEventName } from "../../../protocol/events.ts";
import type { ConnectionId, NodeId } from "../../../protocol/ids.ts";
import { settle } from "../../support/fake-clock.ts";
import { caller } from "../../support/nodes-room.ts";
import { testSystem } from "../../support/supervision.ts";

const INVOCATIONS = 3;
const TIMEOUT_MS = 100;

/** What can happen, to the invocation of that number where it is one's alone. */
type Step =
  | { readonly kind: "answer"; readonly of: number; readonly result: number }
  | { readonly kind: "fail" | "oversized" | "foreign"; readonly of: number }
  | { readonly kind: "pass"; readonly byMs: number }
  | { readonly kind: "socketEnds" | "callerLeaves" | "stop" | "rest" };

const of = fc.integer({ min: 0, max: INVOCATIONS - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("answer"), of, result: fc.nat() }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constantFrom("fail", "oversized", "foreign"), of }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("pass"),
      byMs: fc.constantFrom(1, TIMEOUT_MS - 1, TIMEOUT_MS),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: "rest" }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom("socketEnds", "callerLeaves", "stop") }),
  },
) as fc.Arbitrary<Step>;

const nodeId = "node-1" as NodeId;
const nodeOf = (id: NodeId) =>
  caller({ role: "node", clientId: id, node: { nodeId: id, sessionGeneration: 1 } });

/** The room, with invocations of one node that has just been asked. */
async function asked() {
  const system = testSystem();
  const told: { to: ConnectionId; event: PrivateEventName; payload: object }[] = [];
  const gone = new Set<ConnectionId>();
  const node = nodeOf(nodeId);
  const operator = caller({ role: "operator", clientId: null, node: null });
  const { connectionId, closed } = node;
  const { methods, stop } = await openInvocations({
    parent: system.root,
    socketOf: () => ({
      record: { nodeId, name: "n", life: null },
      socket: { connectionId, sessionGeneration: 1, closed },
    }),
    broadcast: {
      tell(to, event, payload) {
        if (gone.has(to)) return false;
        told.push({ to, event, payload });
        return true;
      },
    },
  });
  const ids: string[] = [];
  for (let n = 0; n < INVOCATIONS; n += 1) {
    const params = { nodeId, method: "m", timeoutMs: TIMEOUT_MS };
    ids.push((await methods["node.invoke"](params, operator)).invokeId);
  }
  return { system, told, gone, node, operator, methods, stop, ids };
}

async function live(steps: readonly Step[]): Promise<void> {
  const { system, told, gone, node, operator, methods, stop, ids } = await asked();
  const foreign = nodeOf("node-2" as NodeId);

  /** By invocation: the results that were taken. Nothing waits for an answer before the next step. */
  const taken = new Map<string, unknown[]>();
  const refused: string[] = [];
  const answers: Promise<unknown>[] = [];
  const answer = (number: number, more: object, by = node): void => {
    const invokeId = ids[number] ?? "";
    const call = async () => await methods["node.invoke.result"]({ invokeId, ...more }, by);
    const ended = call().then(
      () => taken.set(invokeId, [...(taken.get(invokeId) ?? []), more]),
      (failure: unknown) => {
        if (!(failure instanceof LemonError)) throw failure;
        refused.push(failure.code);
      },
    );
    answers.push(ended);
  };
  for (const now of steps) {
    if (now.kind === "answer") answer(now.of, { result: now.result });
    else if (now.kind === "fail") answer(now.of, { error: "failed" });
    else if (now.kind === "oversized") answer(now.of, { result: Number.POSITIVE_INFINITY });
    else if (now.kind === "foreign") answer(now.of, { result: "foreign" }, foreign);
    else if (now.kind === "pass") await system.clock.advance(now.byMs);
    else if (now.kind === "socketEnds") node.end();
    else if (now.kind === "callerLeaves") gone.add(operator.connectionId);
    else if (now.kind === "stop") void stop();
    else await settle();
  }
  await system.clock.advance(TIMEOUT_MS);
  await Promise.all(answers);

  const allowed = ["forbidden", "invoke_settled", "invalid_request"];
  expect(refused.filter((code) => !allowed.includes(code))).to.deep.equal([]);
  for (const invokeId of ids) {
    const about = told.filter(({ payload }) => Object(payload).invokeId === invokeId);
    const completed = about.filter(({ event }) => event === "node.invoke.completed");
    for (const { to } of completed) expect(to).to.equal(operator.connectionId);
    if (gone.size === 0) expect(completed).to.have.length(1);
    else expect(completed.length).to.be.at.most(1);
    const [accepted, ...more] = taken.get(invokeId) ?? [];
    expect(more).to.deep.equal([]);
    const outcome = Object(completed[0]?.payload);
    if (accepted !== undefined && completed.length === 1) {
      const { result = null, error = null } = Object(accepted);
      expect(outcome).to.deep.include({ ok: error === null, result, error });
    } else if (completed.length === 1) {
      expect(outcome).to.deep.include({ ok: false, result: null });
      expect(outcome.error.mutationMayHaveApplied).to.equal(true);
    }
    // It is over: whatever comes now is too late.
    const late = methods["node.invoke.result"]({ invokeId, result: "late" }, node);
    expect(await Promise.resolve(late).catch(({ code }) => code)).to.equal("invoke_settled");
  }
  expect(told.filter(({ event }) => event === "node.invoke.request")).to.have.length(INVOCATIONS);
  expect(getEventListeners(node.closed, "abort")).to.deep.equal([]);
  await system.shutdown();
  expect(system.clock.pending).to.equal(0);
}

describe("the life of an invocation", () => {
  it("is over at once when the node's connection has ended before its actor was there", async () => {
    const { system, told, node, ids } = await asked();
    node.end();
    await settle();
    const completed = told.filter(({ event }) => event === "node.invoke.completed");
    expect(completed.map(({ payload }) => Object(payload).invokeId)).to.have.members(ids);
    for (const { payload } of completed) {
      expect(Object(payload).error).to.include({ code: "link_lost" });
    }
    await system.shutdown();
  });

  it("ends once, whatever comes in whatever order", async () => {
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), live), {
      numRuns: 150,
    });
  });
});
