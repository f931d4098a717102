import { expect } from "chai";
import { CallError } from "../../client/errors.ts";
import { METHODS, type MethodName } from "../../protocol/methods.ts";

/** What callers choose to be shown, in logs too. */
const IDS: readonly string[] = ["nodeId", "processId", "operationId"];

describe("a call whose answer was lost", () => {
  for (const [name, spec] of METHODS) {
    const { retrySafe } = spec;
    it(`of ${name} may ${retrySafe ? "" : "not "}be repeated, as its declaration says`, () => {
      const call = { spec: { ...spec, name }, method: name as MethodName, params: {} };
      for (const code of ["link_lost", "timeout", "aborted"] as const)
        expect(new CallError(code, call).retrySafe, code).to.equal(retrySafe);
    });
  }
});

describe("the text of an uncertain call", () => {
  for (const [name, spec] of METHODS) {
    if (spec.unsettled === null) continue;
    it(`of ${name} says that no read tells, and what to do`, () => {
      const call = { spec: { ...spec, name }, method: name as MethodName, params: {} };
      const error = new CallError("link_lost", call);
      expect(error.settledBy).to.equal(null);
      expect(error.message).to.match(
        new RegExp(`What became of ${name} is unknown, and no read tells: .{20,}$`),
      );
    });
  }

  for (const [name, spec] of METHODS) {
    if (spec.settledBy === null) continue;
    const { method, params } = spec.settledBy;
    it(`of ${name} names ${method} and ids, and nothing else that was sent`, () => {
      const given = Object.fromEntries(params.map((param) => [param, `canary-${param}`]));
      const call = { spec: { ...spec, name }, method: name as MethodName, params: given };
      const error = new CallError("link_lost", call);
      expect(error.settledBy).to.deep.equal({ method, params: given });
      expect(error.message).to.include(method);
      for (const param of params) {
        const shown = error.message.includes(`canary-${param}`);
        expect(shown, param).to.equal(IDS.includes(param));
      }
    });
  }
});
