import { expect } from "chai";
import fc from "fast-check";
import { Subscription, TOPICS_MAX } from "../../../actors/events/subscription.ts";
import type { Topic } from "../../../protocol/events.ts";
import { refusalOf } from "../../support/refusal.ts";

const SOME: readonly Topic[] = ["all", "system", "nodes", "run:1", "run:2", "session:a"];
const topics = fc.subarray([...SOME]);

describe("a subscription", () => {
  it("hears everything until it is first changed, then its topics alone", () => {
    const subscription = new Subscription();
    expect(subscription.hears(["run:1"])).to.equal(true);
    expect(subscription.topics).to.deep.equal(["all"]);
    subscription.add(["nodes"]);
    expect(subscription.hears(["run:1"])).to.equal(false);
    expect(subscription.hears(["system", "nodes"])).to.equal(true);
  });

  it("is silent when everything was taken from one that heard everything", () => {
    for (const silence of [
      (subscription: Subscription) => subscription.clear(),
      (subscription: Subscription) => subscription.remove(["nodes"]),
    ]) {
      const subscription = new Subscription();
      silence(subscription);
      expect(subscription.hears(["system"])).to.equal(false);
      expect(subscription.topics).to.deep.equal([]);
    }
  });

  it("has at most a thousand topics; one more changes nothing", async () => {
    const subscription = new Subscription();
    const runs = Array.from({ length: TOPICS_MAX }, (_, n): Topic => `run:${n}`);
    subscription.add(runs);
    subscription.add(runs);
    const refused = await refusalOf(async () => subscription.add(["session:one-more"]));
    expect(refused.code).to.equal("invalid_params");
    expect(subscription.topics).to.have.length(TOPICS_MAX);
    expect(subscription.hears(["session:one-more"])).to.equal(false);
    expect(subscription.hears(["run:999"])).to.equal(true);
  });

  it("does as a set of topics does, whatever is added and taken in whatever order", () => {
    const change = fc.record({ kind: fc.constantFrom("add", "remove", "clear"), topics });
    fc.assert(
      fc.property(fc.array(change), topics, (changes, heard) => {
        const subscription = new Subscription();
        let model: Set<Topic> | null = null;
        for (const { kind, topics } of changes) {
          model ??= new Set();
          if (kind === "add") {
            subscription.add(topics);
            model = new Set([...model, ...topics]);
          } else if (kind === "remove") {
            subscription.remove(topics);
            model = new Set([...model].filter((one) => !topics.includes(one)));
          } else {
            subscription.clear();
            model = new Set();
          }
        }
        const wanted = model === null || model.has("all") || heard.some((one) => model.has(one));
        expect(subscription.hears(heard)).to.equal(wanted);
        expect(subscription.topics).to.deep.equal(model === null ? ["all"] : [...model].sort());
      }),
    );
  });
});
