/** Proves that "online" means an answer a moment ago, both sides of each bound, on a bent clock. */
import { expect } from "chai";
import fc from "fast-check";
import {
  PING_DEADLINE_MS,
  PING_EVERY_MS,
  Presence,
  SILENCE_MS,
  type Status,
} from "../../../actors/node/presence.ts";
import { type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import type { NodePing } from "../../../protocol/node-link.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { ping } from "../../support/nodes-room.ts";

/** What the node does with a ping now: its facts, a failure, or silence. */
type Answer = NodePing | ErrorCode | "silence";

class Watched {
  readonly clock = new FakeClock();
  readonly seen: Status[] = [];
  /** What was seen last at each silence. */
  readonly silences: (Status | undefined)[] = [];
  facts: NodePing | null = null;
  answer: Answer = ping();
  /** When each ping was sent, in ms from the start. */
  readonly sentMs: number[] = [];
  inFlight = 0;
  mostInFlight = 0;
  readonly #startMs = this.clock.monotonicMs();
  readonly presence = new Presence({
    clock: this.clock,
    ping: () => {
      this.sentMs.push(this.clock.monotonicMs() - this.#startMs);
      const { answer } = this;
      if (answer === "silence") return this.#silence();
      return typeof answer === "string"
        ? Promise.reject(new LemonError(answer))
        : Promise.resolve(answer);
    },
    onChange: (status, facts) => {
      if (this.seen.at(-1) !== status) this.seen.push(status);
      this.facts = facts;
    },
    onSilence: () => this.silences.push(this.seen.at(-1)),
  });

  /** What a frozen node gives: nothing, until the ping's own deadline. */
  #silence(): Promise<NodePing> {
    this.inFlight += 1;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
    return new Promise((_, reject) => {
      this.clock.after(PING_DEADLINE_MS, () => {
        this.inFlight -= 1;
        reject(new LemonError("timeout"));
      });
    });
  }
}

describe("a node's presence", () => {
  it("is offline while there is no worker life, and asks nobody", async () => {
    const node = new Watched();
    node.presence.expect();
    node.presence.answered(node.presence.watch);
    node.presence.gone();
    await node.clock.advance(60_000);
    expect(node.presence.status).to.equal("offline");
    expect(node.sentMs).to.deep.equal([]);
    expect(node.clock.pending).to.equal(0);
  });

  it("is online with the first answer, and shows its facts", async () => {
    const node = new Watched();
    node.presence.begin("offline");
    await node.clock.advance(0);
    expect(node.presence.status).to.equal("online");
    expect(node.facts).to.deep.equal(ping());
  });

  it("asks at once when its worker says that it serves, and tells what came of it", async () => {
    const node = new Watched();
    expect(await node.presence.prove(2_000), "no worker life").to.equal("offline");
    node.answer = "node_offline";
    node.presence.begin("offline");
    await node.clock.advance(20_000);
    node.answer = ping();
    expect(await node.presence.prove(2_000)).to.equal("online");
    expect(node.sentMs.at(-1)).to.equal(20_000);
  });

  it("asks again when its worker says so before calls reach it, and tells no sooner than it answers", async () => {
    const node = new Watched();
    node.answer = "node_offline";
    node.presence.begin("offline");
    await node.clock.advance(20_000);
    let told: Status | null = null;
    const proof = node.presence.prove(2_000).then((status) => {
      told = status;
    });
    await node.clock.advance(1_800);
    expect(told).to.equal(null);
    node.answer = ping();
    await node.clock.advance(100);
    await proof;
    expect(told).to.equal("online");
  });

  it("tells what is known of a node that does not answer in time, or whose life ended", async () => {
    const node = new Watched();
    node.answer = "silence";
    node.presence.begin("offline");
    for (const end of [() => node.clock.advance(2_000), async () => node.presence.end()]) {
      const proof = node.presence.prove(2_000);
      await end();
      expect(await proof).to.equal("offline");
    }
    await node.clock.advance(PING_DEADLINE_MS);
    expect(node.clock.pending).to.equal(0);
  });

  it("asks a node that answers every two seconds", async () => {
    const node = new Watched();
    node.presence.begin("offline");
    await node.clock.advance(100 + 5 * PING_EVERY_MS);
    const gaps = node.sentMs.slice(2).map((at, index) => at - (node.sentMs[index + 1] ?? 0));
    expect(new Set(gaps)).to.deep.equal(new Set([PING_EVERY_MS]));
  });

  it("freezes into offline within seven seconds of the last answer, and not before", async () => {
    const node = new Watched();
    node.presence.begin("offline");
    await node.clock.advance(10_000);
    const lastSentMs = node.sentMs.at(-1) ?? 0;
    node.answer = "silence";
    const nowMs = 10_000;
    await node.clock.advance(lastSentMs + SILENCE_MS - nowMs - 1);
    expect(node.presence.status).to.equal("online");
    await node.clock.advance(1);
    expect(node.presence.status).to.equal("offline");
    expect(node.facts).to.equal(null);
  });

  it("is offline within eight seconds of a freeze at any moment, for any answers before", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 20_000 }), async (freezeAtMs) => {
        const node = new Watched();
        node.presence.begin("offline");
        await node.clock.advance(freezeAtMs);
        expect(node.presence.status).to.equal("online");
        node.answer = "silence";
        await node.clock.advance(8_000);
        expect(node.presence.status).to.equal("offline");
        // Thawed, it is online again with the next ping.
        node.answer = ping();
        await node.clock.advance(PING_EVERY_MS);
        expect(node.presence.status).to.equal("online");
      }),
      { numRuns: 25 },
    );
  });

  it("keeps at most three pings without an answer, and asks on when they have ended", async () => {
    const node = new Watched();
    node.answer = "silence";
    node.presence.begin("offline");
    await node.clock.advance(60_000);
    expect(node.mostInFlight).to.equal(3);
    expect(node.sentMs.length).to.be.greaterThan(20);
  });

  it("takes any answer for a proof of life while it is online, and none when it is not", async () => {
    const node = new Watched();
    node.presence.begin("offline");
    await node.clock.advance(0);
    node.answer = "timeout";
    for (let second = 0; second < 30; second += 1) {
      await node.clock.advance(1_000);
      node.presence.answered(node.presence.watch);
    }
    expect(node.presence.status).to.equal("online");
    await node.clock.advance(SILENCE_MS);
    expect(node.presence.status).to.equal("offline");
    node.presence.answered(node.presence.watch);
    expect(node.presence.status).to.equal("offline");
  });

  for (const [code, status] of [
    ["node_offline", "offline"],
    ["unavailable", "unknown"],
    ["timeout", "online"],
    ["link_lost", "online"],
    ["node_superseded", "online"],
    ["invalid_remote_payload", "online"],
    ["internal_error", "online"],
  ] as const) {
    it(`is ${status} at once after a ping that failed with ${code}`, async () => {
      const node = new Watched();
      node.presence.begin("offline");
      await node.clock.advance(200);
      node.answer = code;
      await node.clock.advance(PING_EVERY_MS);
      expect(node.presence.status).to.equal(status);
      await node.clock.advance(SILENCE_MS);
      expect(node.presence.status).to.equal(status === "unknown" ? "unknown" : "offline");
    });
  }

  it("is offline at once when it is certain that nobody is there", async () => {
    const node = new Watched();
    node.presence.begin("offline");
    await node.clock.advance(1_000);
    node.presence.gone();
    expect(node.presence.status).to.equal("offline");
  });

  it("is online again at the first ping that is answered after a link is seen", async () => {
    const node = new Watched();
    node.answer = "node_offline";
    node.presence.begin("offline");
    await node.clock.advance(60_000);
    node.presence.expect();
    // The link is there before the worker listens on it.
    await node.clock.advance(450);
    node.answer = ping();
    await node.clock.advance(100);
    expect(node.presence.status).to.equal("online");
  });

  it("asks often for five seconds after a link is seen, and seldom after", async () => {
    const node = new Watched();
    node.answer = "node_offline";
    node.presence.begin("offline");
    await node.clock.advance(5_000);
    expect(node.sentMs.length).to.be.within(49, 52);
    node.sentMs.length = 0;
    await node.clock.advance(60_000);
    expect(node.sentMs).to.have.length(6);
  });

  it("is unknown while the controller can not ask, for as long as that is so", async () => {
    const node = new Watched();
    node.answer = "unavailable";
    node.presence.begin("unknown");
    await node.clock.advance(60_000);
    expect(node.seen).to.deep.equal(["unknown"]);
    node.answer = ping();
    await node.clock.advance(500);
    expect(node.presence.status).to.equal("online");
  });

  it("that begins unknown is offline when nobody answered for seven seconds", async () => {
    const node = new Watched();
    node.answer = "silence";
    node.presence.begin("unknown");
    await node.clock.advance(SILENCE_MS - 1);
    expect(node.presence.status).to.equal("unknown");
    await node.clock.advance(1);
    expect(node.presence.status).to.equal("offline");
  });

  it("does not take the answer of an earlier life for the present one's", async () => {
    const clock = new FakeClock();
    const answers: ((facts: NodePing) => void)[] = [];
    const presence = new Presence({
      clock,
      ping: () => new Promise((resolve) => answers.push(resolve)),
      onChange: () => {},
      onSilence: () => {},
    });
    presence.begin("offline");
    const earlier = presence.watch;
    presence.begin("offline");
    presence.answered(earlier);
    expect(answers.length).to.equal(2);
    answers[0]?.(ping());
    await clock.advance(0);
    expect(presence.status).to.equal("offline");
    answers[1]?.(ping());
    await clock.advance(0);
    expect(presence.status).to.equal("online");
    presence.refused(earlier);
    expect(presence.status).to.equal("online");
    presence.end();
    expect(presence.status).to.equal("offline");
    expect(clock.pending).to.equal(0);
  });

  it("says once that it fell silent, when it is offline already, and not when nobody is there", async () => {
    const node = new Watched();
    node.presence.begin("offline");
    await node.clock.advance(0);
    node.answer = "silence";
    await node.clock.advance(SILENCE_MS - 1);
    expect(node.silences).to.deep.equal([]);
    await node.clock.advance(60_000);
    expect(node.silences).to.deep.equal(["offline"]);
    node.answer = ping();
    await node.clock.advance(PING_EVERY_MS);
    node.answer = "node_offline";
    await node.clock.advance(60_000);
    expect(node.silences).to.deep.equal(["offline"]);
  });

  it("is asked at once when it answers something while it is offline, and is online by that alone", async () => {
    const node = new Watched();
    node.presence.begin("offline");
    await node.clock.advance(0);
    node.answer = "silence";
    // Between two pings, with room for one more.
    await node.clock.advance(13_500);
    expect(node.presence.status).to.equal("offline");
    const asked = node.sentMs.length;
    node.answer = ping();
    node.presence.answered(node.presence.watch);
    expect(node.presence.status).to.equal("offline");
    expect(node.sentMs.length).to.equal(asked + 1);
    await node.clock.advance(0);
    expect(node.presence.status).to.equal("online");
  });

  it("that is offline by silence is not held for absent by what was not sent to it for that reason", async () => {
    const node = new Watched();
    node.presence.begin("offline");
    await node.clock.advance(0);
    const { watch } = node.presence;
    node.answer = "silence";
    await node.clock.advance(SILENCE_MS);
    node.presence.refused(watch);
    node.answer = ping();
    await node.clock.advance(PING_EVERY_MS);
    expect(node.presence.status).to.equal("online");
  });
});
