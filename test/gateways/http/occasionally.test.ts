import { assert } from "chai";
import { occasionally } from "../../../gateways/http/occasionally.ts";
import { FakeClock } from "../../support/fake-clock.ts";

describe("what happens too often to be said each time", () => {
  it("is said at once, then once in a while, with how often it was", async () => {
    const clock = new FakeClock();
    const said: number[] = [];
    const happened = occasionally(clock, (times) => said.push(times), 10_000);
    happened();
    assert.deepEqual(said, [1]);
    await clock.advance(9_999);
    for (let time = 0; time < 1_000; time += 1) happened();
    assert.deepEqual(said, [1]);
    await clock.advance(1);
    happened();
    assert.deepEqual(said, [1, 1_001]);
    await clock.advance(10_000);
    happened();
    assert.deepEqual(said, [1, 1_001, 1]);
  });
});
