import { assert } from "chai";
import { occasionally } from "../../supervision/occasionally.ts";
import { FakeClock } from "../support/fake-clock.ts";

describe("what happens too often to be said each time", () => {
  it("is said at once, then once in a while, with how often it was; none is left out", async () => {
    const clock = new FakeClock();
    const said: number[] = [];
    const happened = occasionally(clock, (times) => said.push(times), 10_000);
    happened();
    assert.deepEqual(said, [1]);
    await clock.advance(9_999);
    for (let time = 0; time < 1_000; time += 1) happened();
    assert.deepEqual(said, [1]);
    await clock.advance(1);
    assert.deepEqual(said, [1, 1_000]);
    happened();
    await clock.advance(9_999);
    assert.deepEqual(said, [1, 1_000]);
    await clock.advance(1);
    assert.deepEqual(said, [1, 1_000, 1]);
    await clock.advance(10_000);
    happened();
    assert.deepEqual(said, [1, 1_000, 1, 1]);
  });

  it("keeps no timer once it has stopped", async () => {
    const clock = new FakeClock();
    occasionally(clock, () => {}, 10_000)();
    assert.equal(clock.pending, 1);
    await clock.advance(10_000);
    assert.equal(clock.pending, 0);
  });
});
