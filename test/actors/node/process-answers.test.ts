/** Proves what is believed of a node about its processes: nothing that is no receipt. */
import { expect } from "chai";
import fc from "fast-check";
import { errorText } from "../../../protocol/frames.ts";
import { AskedProcesses, PROCESS_METHODS } from "../../support/asked-processes.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a process method", () => {
  let asked: AskedProcesses;

  beforeEach(async () => {
    asked = await AskedProcesses.open();
  });
  afterEach(() => asked.close());

  describe("whose answer is no receipt", () => {
    const lies: Record<string, () => unknown> = {
      nothing: () => undefined,
      null: () => null,
      text: () => "completed",
      "a list": () => [asked.receipt()],
      "another node's": () => asked.receipt({ nodeId: "0d6f2f5e-8d51-4b0f-9a55-2f1f3f1f7a10" }),
      "another process's": () => asked.receipt({ processId: "probe:2" }),
      "an unknown state": () => ({ ...asked.receipt(), state: "finished" }),
      "a field more": () => ({ ...asked.receipt(), argv: ["secret"] }),
      "a field less": () => ({ ...asked.receipt(), outputTruncated: undefined }),
      "output as text": () => ({ ...asked.receipt(), stdout: "AQL/" }),
      "a completion without exit": () => asked.receipt({ exitCode: null }),
      "half an exit": () => asked.receipt({ exitCode: 0.5 }),
      "a run with an exit": () => ({ ...asked.bare("running"), exitCode: 0 }),
      "a run with output": () => ({ ...asked.bare("running"), stdout: Uint8Array.of(1) }),
      "an unknown outcome with output": () => ({
        ...asked.bare("outcome_unknown"),
        stderr: new Uint8Array(),
      }),
      "an absence with an exit": () => ({ ...asked.bare("not_found"), exitCode: 1 }),
      "half of its output gone, and not called cut off": () => asked.receipt({ stderr: null }),
    };
    for (const [what, lie] of Object.entries(lies)) {
      it(`because it is ${what}: unknown for a mutation, an error for a read`, async () => {
        asked.answer = lie;
        for (const method of PROCESS_METHODS) {
          const refusal = await refusalOf(() => asked.call(method));
          expect(refusal.wire).to.equal("UNAVAILABLE");
          expect(refusal.mutationMayHaveApplied).to.equal(method !== "node.process.get");
          expect(refusal.code).to.equal(
            method === "node.process.get" ? "invalid_remote_payload" : "process_outcome_unknown",
          );
        }
      });
    }

    it("because it holds a byte more than was asked for; one byte less is fine", async () => {
      const holding = (bytes: number) =>
        asked.receipt({ stdout: new Uint8Array(bytes - 1), stderr: Uint8Array.of(1) });
      asked.answer = () => holding(100);
      await asked.call("node.process.run");
      asked.answer = () => holding(101);
      await refusalOf(() => asked.call("node.process.run"));
      await asked.call("node.process.get");
      asked.answer = () => holding(1_048_577);
      await refusalOf(() => asked.call("node.process.get"));
    });

    it("whatever it is, no crash and no content of it in an error or a log", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.anything(),
          fc.constantFrom(...PROCESS_METHODS),
          async (anything, method) => {
            asked.answer = () => ({ ...Object(anything), canary: "canary-7f3a" });
            const refusal = await refusalOf(() => asked.call(method));
            expect(errorText("1", refusal, true)).to.not.include("canary-7f3a");
          },
        ),
        { numRuns: 100 },
      );
      expect(asked.room.system.text()).to.not.include("canary-7f3a");
    });
  });
});
