/** Proves the arithmetic and the words of a benchmark's report. */
import { expect } from "chai";
import { median, percentile, Report } from "../../bench/report.ts";

describe("a benchmark's report", () => {
  it("takes percentiles by nearest rank, and nothing of nothing", () => {
    const numbers = [50, 10, 40, 20, 30];
    expect(median(numbers)).to.equal(30);
    expect(median([2, 1])).to.equal(1);
    expect([0, 0.2, 0.21, 0.99, 1].map((p) => percentile(numbers, p))).to.deep.equal([
      10, 10, 20, 50, 50,
    ]);
    expect(median([7])).to.equal(7);
    expect(median([])).to.be.NaN;
    expect(numbers[0]).to.equal(50);
  });

  it("divides by the median of its yardstick, or by the sum of several", () => {
    const report = new Report("test");
    for (const ms of [1, 2, 9]) report.sample("floor", ms, { unit: "ms" });
    for (const ms of [3, 4, 5]) report.sample("call", ms, { unit: "ms", of: "floor" });
    report.sample("far call", 9, { unit: "ms", of: ["floor", "floor", "call"] });
    const [floor, call, far] = report.figures();
    expect(floor).to.include({ median: 2, p99: 9, samples: 3, of: null, ratio: null, kept: null });
    expect(call).to.include({ median: 4, of: "floor", ratio: 2, promise: null, kept: null });
    expect(far).to.include({ of: "floor + floor + call", ratio: 9 / 8 });
  });

  it("says whether a promised ratio was kept, the bound itself included", () => {
    const report = new Report("test");
    report.sample("floor", 2, { unit: "ms" });
    const kept = (value: number, bounds: { atMost?: number; atLeast?: number }) => {
      const name = JSON.stringify([value, bounds]);
      report.sample(name, value, { unit: "ms", of: "floor", ...bounds });
      return report.figures().at(-1)?.kept;
    };
    expect(kept(5, { atMost: 2.5 })).to.equal(true);
    expect(kept(5.01, { atMost: 2.5 })).to.equal(false);
    expect(kept(16, { atLeast: 8 })).to.equal(true);
    expect(kept(15.9, { atLeast: 8 })).to.equal(false);
    expect(report.table()).to.match(/BROKEN: at most 2.5\n.*kept: at least 8/);
  });

  it("does not take a promise for kept whose yardstick was never measured", () => {
    const report = new Report("test");
    report.sample("call", 1, { unit: "ms", of: "nothing", atMost: 2 });
    expect(report.figures()[0]?.kept).to.equal(false);
  });

  it("is the same as JSON", () => {
    const report = new Report("test");
    report.sample("rate", 1_234_567, { unit: "/s" });
    const { bench, figures } = JSON.parse(JSON.stringify(report));
    expect(bench).to.equal("test");
    expect(figures).to.deep.equal(report.figures());
    expect(report.table()).to.contain("1,234,567 /s");
  });
});
