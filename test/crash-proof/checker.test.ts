import { expect } from "chai";
import { type Answer, type Call, check, type LedgerLine, type Observed } from "./checker.ts";

const completed: Answer = { state: "completed", exitCode: 3 };
const cancelled: Answer = { state: "cancelled", exitCode: null };
const absent: Answer = { state: "not_found", exitCode: null };
const unknown: Answer = { state: "outcome_unknown", exitCode: null };

function call(operation: Call["operation"], sentAt: number, answer: Answer | null = null): Call {
  return { operation, id: "a", sentAt, answer: answer && { ...answer, receivedAt: sentAt + 1 } };
}
const ran: LedgerLine[] = [
  { id: "a", event: "began" },
  { id: "a", event: "exits" },
];

function promises(observed: Partial<Observed> & { final?: Answer }): number[] {
  const finals = observed.finals ?? new Map([["a", observed.final ?? completed]]);
  return check({ calls: [], ledger: [], expectedExit: () => 3, ...observed, finals }).map(
    (violation) => violation.promise,
  );
}

describe("the crash checker", () => {
  it("accepts a run that completed and reads so ever after", () => {
    const calls = [call("run", 0, completed), call("get", 5, completed)];
    expect(promises({ calls, ledger: ran })).to.deep.equal([]);
  });

  it("accepts an interrupted run that ends unknown, and an id that was never admitted", () => {
    expect(
      promises({ calls: [call("run", 0)], ledger: ran.slice(0, 1), final: unknown }),
    ).to.deep.equal([]);
    expect(promises({ calls: [call("run", 0)], final: absent })).to.deep.equal([]);
  });

  it("accepts a read that was sent before the acknowledgement came", () => {
    const calls = [call("get", 0, absent), { ...call("run", 0, completed), sentAt: 0 }];
    expect(promises({ calls, ledger: ran })).to.deep.equal([]);
  });

  it("finds an id that ran twice", () => {
    expect(promises({ calls: [call("run", 0)], ledger: [...ran, ...ran] })).to.deep.equal([1]);
  });

  it("finds a run without a receipt, and an id that was never read back", () => {
    expect(promises({ calls: [call("run", 0)], ledger: ran, final: absent })).to.deep.equal([2]);
    expect(promises({ calls: [call("run", 0)], finals: new Map() })).to.deep.equal([2]);
  });

  it("finds a not_found after an acknowledgement, also in the last read", () => {
    const calls = [call("cancel", 0, cancelled), call("get", 5, absent)];
    expect(promises({ calls, final: cancelled })).to.deep.equal([3]);
    expect(promises({ calls: [call("cancel", 0, cancelled)], final: absent })).to.deep.equal([3]);
  });

  it("finds a final receipt that changed or went back to running", () => {
    expect(
      promises({ calls: [call("run", 0, completed)], ledger: ran, final: unknown }),
    ).to.deep.equal([4]);
    const calls = [call("run", 0, completed), call("get", 5, { state: "running", exitCode: null })];
    expect(promises({ calls, ledger: ran })).to.deep.equal([4]);
  });

  it("finds a tombstoned id that ran", () => {
    const calls = [call("cancel", 0, cancelled), call("run", 5)];
    expect(promises({ calls, ledger: ran, final: cancelled })).to.deep.equal([5]);
  });

  it("finds an exit that the command never had", () => {
    expect(promises({ ledger: ran, final: { state: "completed", exitCode: 4 } })).to.deep.equal([
      6,
    ]);
    expect(promises({ ledger: ran.slice(0, 1), final: completed })).to.deep.equal([6]);
    expect(
      promises({ ledger: ran, final: { state: "outcome_unknown", exitCode: 0 } }),
    ).to.deep.equal([6]);
  });

  it("finds a run that never stops running", () => {
    expect(
      promises({
        calls: [call("run", 0)],
        ledger: ran,
        final: { state: "running", exitCode: null },
      }),
    ).to.deep.equal([7]);
  });
});
