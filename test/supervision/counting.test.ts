/** Proves the two counts behind every restart, over their whole space. */
import { expect } from "chai";
import fc from "fast-check";
import { BackoffDelay } from "../../supervision/backoff.ts";
import { RestartWindow } from "../../supervision/intensity.ts";

describe("the count of restarts", () => {
  it("allows exactly as many as it says in any window, as counting them all anew would", () => {
    const gaps = fc.array(fc.record({ gapMs: fc.nat(30), child: fc.constantFrom("a", "b") }));
    fc.assert(
      fc.property(fc.nat(4), fc.nat(60), gaps, (restarts, windowMs, steps) => {
        const window = new RestartWindow<string>({ restarts, windowMs });
        const all: { atMs: number; child: string }[] = [];
        let nowMs = 1_000;
        for (const { gapMs, child } of steps) {
          nowMs += gapMs;
          all.push({ atMs: nowMs, child });
          const counted = all.filter(({ atMs }) => nowMs - atMs <= windowMs);
          const allowed = window.spend(child, nowMs);
          expect(allowed).to.equal(counted.length <= restarts);
          if (!allowed) return;
          expect(window.spent(nowMs)).to.equal(counted.length);
          expect(window.spent(nowMs, "a")).to.equal(
            counted.filter((restart) => restart.child === "a").length,
          );
          expect(window.left(nowMs)).to.equal(restarts - counted.length);
        }
      }),
    );
  });

  it("starts anew when it is cleared", () => {
    const window = new RestartWindow<string>({ restarts: 1, windowMs: 100 });
    expect(window.spend("a", 0)).to.equal(true);
    window.clear();
    expect(window.left(0)).to.equal(1);
    expect(window.spend("a", 0)).to.equal(true);
    expect(window.spend("a", 100)).to.equal(false);
    expect(window.spent(100)).to.equal(2);
    expect(window.spent(101)).to.equal(1);
    expect(window.left(101)).to.equal(0);
  });
});

describe("the wait before a restart", () => {
  const policy = { firstMs: 100, maxMs: 1_000, resetAfterMs: 5_000 };

  it("lies between half of a doubling ceiling and the whole, whatever chance says", () => {
    fc.assert(
      fc.property(
        fc.record({
          firstMs: fc.nat(10_000),
          maxMs: fc.nat(10_000),
          resetAfterMs: fc.integer({ min: 1, max: 10_000 }),
        }),
        fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { maxLength: 40 }),
        ({ firstMs, maxMs, resetAfterMs }, chances) => {
          let chance = 0;
          const delay = new BackoffDelay({ firstMs, maxMs, resetAfterMs }, () => chance);
          let ceilingMs = Math.min(firstMs, maxMs);
          for (chance of chances) {
            const delayMs = delay.next(resetAfterMs - 1);
            expect(delayMs).to.be.within(ceilingMs / 2, ceilingMs);
            ceilingMs = Math.min(ceilingMs * 2, maxMs);
          }
        },
      ),
    );
  });

  it("spreads over the whole upper half", () => {
    expect(new BackoffDelay(policy, () => 0).next(0)).to.equal(50);
    expect(new BackoffDelay(policy, () => 0.5).next(0)).to.equal(75);
    expect(new BackoffDelay(policy, () => 1 - Number.EPSILON).next(0)).to.be.closeTo(100, 1e-9);
  });

  it("begins again only after a life that was long enough, to the millisecond", () => {
    for (const [uptimeMs, nextMs] of [
      [4_999, 400],
      [5_000, 100],
    ] as const) {
      const delay = new BackoffDelay(policy, () => 1);
      expect([delay.next(0), delay.next(0), delay.next(uptimeMs)]).to.deep.equal([
        100,
        200,
        nextMs,
      ]);
    }
  });
});
