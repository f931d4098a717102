import { expect } from "chai";
import fc from "fast-check";
import { Backoff, DEFAULT_BACKOFF } from "../../client/backoff.ts";

describe("the back-off between connections", () => {
  it("stays between half of its ceiling and the ceiling, whatever chance says", () => {
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.array(chance, { minLength: 1, maxLength: 20 }), (draws) => {
        const rest = [...draws];
        const backoff = new Backoff(DEFAULT_BACKOFF, () => rest.shift() ?? 0);
        for (const index of draws.keys()) {
          const ceilingMs = Math.min(DEFAULT_BACKOFF.firstMs * 2 ** index, DEFAULT_BACKOFF.maxMs);
          const delayMs = backoff.next();
          expect(delayMs)
            .to.be.at.least(ceilingMs / 2)
            .and.at.most(ceilingMs);
        }
      }),
    );
  });
});
