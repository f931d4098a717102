import { expect } from "chai";
import fc from "fast-check";
import { Attempts, NETWORKS_OF_A_SITE } from "../../../actors/session/attempts.ts";
import { NAMES_MAX } from "../../../actors/session/buckets.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import { refusalOf } from "../../support/refusal.ts";

const BOUND = { burst: 3, refillMs: 1_000 };
const ADDRESS = "192.0.2.1";

const isGuess = (failure: unknown): boolean =>
  failure instanceof LemonError && failure.code === "unauthorized";
const wrong = async (): Promise<never> => {
  throw new LemonError("unauthorized");
};
const right = async (): Promise<string> => "in";

describe("the attempts of an address", () => {
  let clock: FakeClock;
  let attempts: Attempts;

  beforeEach(() => {
    clock = new FakeClock();
    attempts = new Attempts(clock, BOUND);
  });

  /** What a call with this end is answered. */
  const outcome = (work: () => Promise<string>, address = ADDRESS): Promise<string> =>
    attempts.guard(address, work, isGuess).catch((failure: unknown) => {
      if (failure instanceof LemonError) return failure.code;
      throw failure;
    });
  const outcomes = async (count: number, work: () => Promise<string>): Promise<string[]> => {
    const found: string[] = [];
    for (let n = 0; n < count; n += 1) found.push(await outcome(work));
    return found;
  };

  it("are so many at once, and one more after each refill", async () => {
    const spent = async (): Promise<number | null> => {
      try {
        attempts.spend(ADDRESS);
        return null;
      } catch (failure) {
        if (!(failure instanceof LemonError)) throw failure;
        return Number(failure.details["retryAfterMs"]);
      }
    };
    for (let n = 0; n < BOUND.burst; n += 1) expect(await spent()).to.equal(null);
    expect(await spent()).to.equal(1_000);
    await clock.advance(999);
    expect(await spent()).to.equal(1);
    await clock.advance(1);
    expect(await spent()).to.equal(null);
    expect(await spent()).to.equal(1_000);
    await clock.advance(1_000 * BOUND.burst * 10);
    for (let n = 0; n < BOUND.burst; n += 1) expect(await spent()).to.equal(null);
    expect(await spent()).to.equal(1_000);
  });

  it("are spent by wrong guesses alone; when none is left a right one is not heard either", async () => {
    expect(await outcomes(10, right)).to.deep.equal(Array(10).fill("in"));
    const other = async (): Promise<never> => {
      throw new LemonError("unavailable");
    };
    expect(new Set(await outcomes(10, other))).to.deep.equal(new Set(["unavailable"]));
    expect(new Set(await outcomes(BOUND.burst, wrong))).to.deep.equal(new Set(["unauthorized"]));
    let heard = false;
    const refusal = await refusalOf(() =>
      attempts.guard(
        ADDRESS,
        async () => {
          heard = true;
        },
        isGuess,
      ),
    );
    expect(heard).to.equal(false);
    expect(refusal.wire).to.equal("RATE_LIMITED");
    expect(refusal.details).to.deep.equal({ retryAfterMs: 1_000 });
    await clock.advance(1_000);
    expect(await outcome(right)).to.equal("in");
    expect(await outcome(wrong)).to.equal("unauthorized");
    expect(await outcome(right)).to.equal("rate_limited");
  });

  it("are not given back by a success", async () => {
    await outcomes(BOUND.burst - 1, wrong);
    expect(await outcome(right)).to.equal("in");
    expect(await outcomes(2, wrong)).to.deep.equal(["unauthorized", "rate_limited"]);
  });

  it("are no more when many are tried at once", async () => {
    const found = await Promise.all(Array.from({ length: 50 }, () => outcome(wrong)));
    expect(found.filter((code) => code === "unauthorized")).to.have.length(BOUND.burst);
    expect(found.filter((code) => code === "rate_limited")).to.have.length(50 - BOUND.burst);
  });

  it("let any number of honest callers through at once, each in its turn", async () => {
    const ends: (() => void)[] = [];
    const slow = () => new Promise<string>((resolve) => ends.push(() => resolve("in")));
    const all = Promise.all(Array.from({ length: 50 }, () => outcome(slow)));
    for (let round = 0; ends.length > 0 || round === 0; round += 1) {
      await settle();
      expect(ends.length).to.be.at.most(BOUND.burst);
      for (const end of ends.splice(0)) end();
      await settle();
    }
    expect(await all).to.deep.equal(Array(50).fill("in"));
  });

  it("are each address's own, but one for a whole IPv6 network and one for a mapped address", async () => {
    const same = (a: string, b: string): Promise<boolean> => {
      const fresh = new Attempts(clock, { burst: 1, refillMs: 1_000 });
      fresh.spend(a);
      return Promise.resolve().then(() => {
        try {
          fresh.spend(b);
          return false;
        } catch {
          return true;
        }
      });
    };
    for (const [a, b, isSame] of [
      ["192.0.2.1", "192.0.2.1", true],
      ["192.0.2.1", "192.0.2.2", false],
      ["127.0.0.1", "127.0.0.1", true],
      ["::ffff:192.0.2.1", "192.0.2.1", true],
      ["::ffff:192.0.2.1", "::ffff:192.0.2.2", false],
      ["2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true],
      ["2001:db8:1:2::1", "2001:db8:1:3::1", false],
      ["2001:db8::1:2:3:4:5", "2001:db8:0:1::9", true],
      ["2001:db8::1", "2001:db8:0:0:1::", true],
      ["::1", "::2", true],
      ["::1", "127.0.0.1", false],
      ["", "", true],
    ] as const) {
      expect(await same(a, b), `${a} ${b}`).to.equal(isSame);
    }
  });

  it("are sixteen networks' worth for a whole IPv6 site, and each network's own besides", async () => {
    const network = (n: number, site = "2001:db8:1") => `${site}:${n.toString(16)}::1`;
    const guesses = async (address: string, count: number): Promise<string[]> => {
      const found: string[] = [];
      for (let n = 0; n < count; n += 1) found.push(await outcome(wrong, address));
      return found;
    };
    // What it may not try any more costs the others nothing.
    const first = await guesses(network(0), 1_000);
    expect(first.filter((code) => code === "unauthorized")).to.have.length(BOUND.burst);
    for (let n = 1; n < NETWORKS_OF_A_SITE; n += 1) {
      expect(new Set(await guesses(network(n), BOUND.burst))).to.deep.equal(
        new Set(["unauthorized"]),
      );
    }
    const fresh = network(0xffff);
    expect(await outcome(wrong, fresh)).to.equal("rate_limited");
    expect(await outcome(right, fresh)).to.equal("rate_limited");
    expect(await outcome(wrong, network(0, "2001:db8:2"))).to.equal("unauthorized");
    expect(await outcome(wrong)).to.equal("unauthorized");
    await clock.advance(BOUND.refillMs / NETWORKS_OF_A_SITE);
    expect(await outcome(right, fresh)).to.equal("in");
    expect(await outcome(wrong, fresh)).to.equal("unauthorized");
    expect(await outcome(wrong, network(0xfffe))).to.equal("rate_limited");
  });

  it("are no more for a site when many of its networks try at once, and none of them waits for ever", async () => {
    const allowed = BOUND.burst * NETWORKS_OF_A_SITE;
    const all = Array.from({ length: 4 * allowed }, (_, n) =>
      outcome(n % 2 === 0 ? wrong : right, `2001:db8:1:${(n >> 2).toString(16)}::1`),
    );
    const found = await Promise.all(all);
    const count = (code: string) => found.filter((each) => each === code).length;
    expect(count("unauthorized")).to.equal(allowed);
    expect(count("unauthorized") + count("rate_limited") + count("in")).to.equal(all.length);
  });

  it("are spent by asking, too, for the network and the site", async () => {
    const one = new Attempts(clock, { burst: 1, refillMs: 16_000 });
    for (let n = 0; n < NETWORKS_OF_A_SITE; n += 1) one.spend(`2001:db8:1:${n.toString(16)}::`);
    const refused = await refusalOf(() => one.spend("2001:db8:1:ff::"));
    expect(refused.details).to.deep.equal({ retryAfterMs: 1_000 });
    one.spend("2001:db8:2::");
    const charged = one.charge("2001:db8:1:fe::", wrong, isGuess);
    expect((await refusalOf(() => charged)).code).to.equal("rate_limited");
  });

  it("are remembered for so many addresses, the one used last longest, and for none that has all", async () => {
    const one = new Attempts(clock, { burst: 1, refillMs: 1_000_000 });
    const address = (n: number): string => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    for (let n = 0; n < NAMES_MAX; n += 1) one.spend(address(n));
    expect(one.addresses).to.equal(NAMES_MAX);
    expect((await refusalOf(() => one.spend(address(0)))).code).to.equal("rate_limited");
    one.spend(address(NAMES_MAX));
    expect(one.addresses).to.equal(NAMES_MAX);
    expect((await refusalOf(() => one.spend(address(0)))).code).to.equal("rate_limited");
    // The second was the one that had been quiet longest.
    one.spend(address(1));
    await outcomes(5, right);
    expect(attempts.addresses).to.equal(0);
  });

  it("are not forgotten while one of them is under way", async () => {
    const one = new Attempts(clock, { burst: 1, refillMs: 1_000_000 });
    const end = Promise.withResolvers<string>();
    const first = one.guard(ADDRESS, () => end.promise, isGuess);
    for (let n = 0; n <= NAMES_MAX; n += 1) one.spend(`address ${n}`);
    let heard = false;
    const second = one.guard(
      ADDRESS,
      async () => {
        heard = true;
      },
      isGuess,
    );
    await settle();
    expect(heard).to.equal(false);
    end.resolve("in");
    await Promise.all([first, second]);
    expect(heard).to.equal(true);
  });

  it("never let more wrong guesses through than their time allows", async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("wrong"), count: fc.integer({ min: 1, max: 6 }) }),
      fc.record({ kind: fc.constant("right"), count: fc.integer({ min: 1, max: 6 }) }),
      fc.record({ kind: fc.constant("pass"), count: fc.integer({ min: 1, max: 2_500 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        clock = new FakeClock();
        attempts = new Attempts(clock, BOUND);
        const sinceMs = clock.monotonicMs();
        let guessed = 0;
        for (const { kind, count } of steps) {
          if (kind === "pass") {
            clock.stall(count);
            continue;
          }
          const work = kind === "wrong" ? wrong : right;
          const found = await Promise.all(Array.from({ length: count }, () => outcome(work)));
          guessed += found.filter((code) => code === "unauthorized").length;
          const allowed = BOUND.burst + (clock.monotonicMs() - sinceMs) / BOUND.refillMs;
          expect(guessed).to.be.at.most(allowed);
        }
      }),
    );
  });
});
