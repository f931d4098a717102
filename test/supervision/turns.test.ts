import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import { Turns } from "../../supervision/turns.ts";
import { settle } from "../support/fake-clock.ts";
import { refusalOf } from "../support/refusal.ts";

describe("turns", () => {
  const turnsOf = (limit: number) =>
    new Turns({ limit, refusal: () => new LemonError("rate_limited") });

  it("are taken one at a time for one key, in order, whatever came of the one before", async () => {
    const turns = turnsOf(10);
    const events: string[] = [];
    const gates = new Map<string, PromiseWithResolvers<void>>();
    const take = (key: string, name: string) => {
      const gate = Promise.withResolvers<void>();
      gates.set(name, gate);
      return turns.take(key, async () => {
        events.push(`${name} begins`);
        await gate.promise;
        events.push(`${name} ends`);
        return name;
      });
    };
    const first = take("a", "a1");
    const second = take("a", "a2");
    const other = take("b", "b1");
    await settle();
    expect(events).to.deep.equal(["a1 begins", "b1 begins"]);
    gates.get("b1")?.resolve();
    expect(await other).to.equal("b1");
    gates.get("a1")?.reject(new LemonError("conflict"));
    expect((await refusalOf(() => first)).code).to.equal("conflict");
    gates.get("a2")?.resolve();
    expect(await second).to.equal("a2");
    expect(events.slice(2)).to.deep.equal(["b1 ends", "a2 begins", "a2 ends"]);
    // One that comes when nothing is under way does not wait.
    expect(await turns.take("a", async () => "a3")).to.equal("a3");
  });

  it("are so many over all keys; one more is refused, and comes again when one has ended", async () => {
    const turns = turnsOf(2);
    const gate = Promise.withResolvers<void>();
    const taken = [turns.take("a", () => gate.promise), turns.take("b", () => gate.promise)];
    let begun = false;
    const more = () =>
      turns.take("c", async () => {
        begun = true;
      });
    expect((await refusalOf(more)).code).to.equal("rate_limited");
    expect(begun).to.equal(false);
    gate.resolve();
    await Promise.all(taken);
    await more();
    expect(begun).to.equal(true);
  });
});
