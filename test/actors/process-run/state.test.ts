import { expect } from "chai";
import fc from "fast-check";
import {
  ADMITTED,
  CANCELLED,
  cancelled,
  completed,
  intentOf,
  isFinal,
  NO_INTENT,
  OUTCOME_UNKNOWN,
  processRuns,
  TOMBSTONE,
} from "../../../actors/process-run/state.ts";
import { processRunRequest } from "../../../protocol/process.ts";

const request = fc
  .record({
    cwd: fc.string({ minLength: 1, maxLength: 4 }),
    argv: fc.array(fc.string({ maxLength: 3 }), { minLength: 1, maxLength: 4 }),
    stdin: fc.uint8Array({ maxLength: 4 }),
    timeoutMs: fc.integer({ min: 1_000, max: 1_003 }),
    maxOutputBytes: fc.integer({ min: 1, max: 3 }),
  })
  .map((fields) => ({ ...fields, processId: "p" }))
  .filter((fields) => processRunRequest.safeParse(fields).success)
  .map((fields) => processRunRequest.parse(fields));

describe("the state of a run", () => {
  const all = [
    ADMITTED,
    CANCELLED,
    TOMBSTONE,
    OUTCOME_UNKNOWN,
    completed(0),
    completed(255),
    cancelled(137),
  ];

  it("is read back as it was stored", () => {
    for (const state of all)
      expect(processRuns.parse(JSON.parse(JSON.stringify(state)))).to.deep.equal(state);
  });

  it("is refused when it is foreign, or holds anything more", () => {
    for (const foreign of [
      null,
      {},
      { ...ADMITTED, state: "running" },
      { ...ADMITTED, exitCode: 0.5 },
      { ...ADMITTED, exitCode: undefined },
      { ...ADMITTED, argv: ["x"] },
    ])
      expect(() => processRuns.parse(foreign), JSON.stringify(foreign)).to.throw();
  });

  it("moves from the fence to one end, and no further", () => {
    for (const state of all) {
      expect(isFinal(state)).to.equal(state !== ADMITTED);
      expect(processRuns.rank(state)).to.equal(state === ADMITTED ? 0 : 1);
      expect(processRuns.interrupted(state)).to.equal(state === ADMITTED ? OUTCOME_UNKNOWN : null);
    }
  });
});

describe("the intent of a run", () => {
  it("is the same exactly for the same request, whatever its id", () => {
    fc.assert(
      fc.property(request, request, (a, b) => {
        const same =
          a.cwd === b.cwd &&
          JSON.stringify(a.argv) === JSON.stringify(b.argv) &&
          Buffer.from(a.stdin).equals(b.stdin) &&
          a.timeoutMs === b.timeoutMs &&
          a.maxOutputBytes === b.maxOutputBytes;
        expect(Buffer.from(intentOf(a)).equals(intentOf(b))).to.equal(same);
        expect(
          Buffer.from(intentOf(a)).equals(intentOf({ ...a, stdin: Uint8Array.from(a.stdin) })),
        ).to.equal(true);
        expect(Buffer.from(intentOf(a)).equals(NO_INTENT)).to.equal(false);
      }),
      { numRuns: 2_000 },
    );
  });

  it("tells where one argument ends and the next, or the input, begins", () => {
    const base = processRunRequest.parse({
      processId: "p",
      cwd: ".",
      argv: ["a"],
      stdin: new Uint8Array(0),
      timeoutMs: 1_000,
      maxOutputBytes: 1,
    });
    const variants = [
      { ...base, argv: ["a", "b"] },
      { ...base, argv: ["ab"] },
      { ...base, argv: ["a,b"] },
      { ...base, argv: ['a","b'] },
      { ...base, argv: ["a", ""] },
      { ...base, stdin: Uint8Array.from(Buffer.from("\n")) },
    ].map((variant) => Buffer.from(intentOf(variant)).toString("hex"));
    expect(new Set(variants).size).to.equal(variants.length);
  });
});
