import { expect } from "chai";
import { FakeJournal } from "../../../host/fake/journal.ts";
import { FakeClock } from "../../support/fake-clock.ts";

describe("A fake host's journal", () => {
  async function linesOf(resumed: boolean, count: number): Promise<readonly string[]> {
    const clock = new FakeClock();
    const over = new AbortController();
    const lines = await new FakeJournal(clock).follow("web", { resumed, signal: over.signal });
    const times: string[] = [];
    const read = (async () => {
      for await (const { ts } of lines) {
        times.push(ts);
        if (times.length === count) over.abort();
      }
    })();
    while (!over.signal.aborted) await clock.advance(500);
    await read;
    const beganAtMs = new FakeClock().nowMs();
    return times.map((ts) => (Date.parse(ts) <= beganAtMs ? "earlier" : "live"));
  }

  it("begins with a few earlier lines, then gives two a second", async () => {
    const earlier = Array.from({ length: 5 }, () => "earlier");
    expect(await linesOf(false, 7)).to.deep.equal([...earlier, "live", "live"]);
  });

  it("gives live lines alone to one who was there before", async () => {
    expect(await linesOf(true, 3)).to.deep.equal(["live", "live", "live"]);
  });
});
