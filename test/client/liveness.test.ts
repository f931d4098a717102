import { expect } from "chai";
import { type Client, type ConnectionEnd, connect } from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import { FakeControlPlane, SILENCE } from "../support/fake-control-plane.ts";
import { ManualTimers } from "../support/manual-timers.ts";
import { nodeList } from "../support/node-rows.ts";
import { refusalOf } from "../support/refusal.ts";

const HEALTH = {
  ok: true,
  uptime_ms: 1,
  memory_mb: 1,
  schedulers: 1,
  summary: { action: "health" },
} as const;

describe("the watch on a silent peer", () => {
  let peer: FakeControlPlane;
  let timers: ManualTimers;
  let client: Client;

  async function start(tickIntervalMs: number, maxInFlight = 256): Promise<void> {
    peer = await FakeControlPlane.start({ policy: { tickIntervalMs } });
    timers = new ManualTimers();
    client = await connect({
      url: peer.url,
      clientId: "t",
      openSocket: socketOpener(),
      timers,
      maxInFlight,
    });
  }

  afterEach(async () => {
    client.close();
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
  });

  it("asks for health after three ticks of silence, and is content with an answer", async () => {
    await start(15_000);
    const answered = Promise.withResolvers<void>();
    peer.on("health", () => {
      answered.resolve();
      return HEALTH;
    });
    timers.advance(44_999);
    expect(peer.count("health")).to.equal(0);
    timers.advance(1);
    await answered.promise;
    // The answer is on its way; the next look finds it and begins a new silence.
    await timers.armed((delayMs) => delayMs === 10_000);
    peer.on("node.list", () => nodeList());
    await client.call("node.list", {});
    timers.advance(10_000);
    expect(client.connected).to.equal(true);
    expect(timers.delaysMs).to.deep.equal([35_000]);
  });

  it("never asks before 10 s, however short the ticks", async () => {
    await start(1_000);
    expect(timers.delaysMs).to.deep.equal([10_000]);
  });

  it("takes any frame for a sign of life, and asks nothing", async () => {
    await start(15_000);
    peer.on("node.list", () => nodeList());
    timers.advance(40_000);
    await client.call("node.list", {});
    timers.advance(5_000);
    expect(peer.count("health")).to.equal(0);
    expect(timers.delaysMs).to.deep.equal([40_000]);
  });

  it("asks also while the bound of calls in flight is reached: waiting for answers is no death", async () => {
    await start(15_000, 1);
    peer.on("node.list", () => SILENCE).on("health", () => HEALTH);
    const waiting = refusalOf(() => client.call("node.list", {}, { timeoutMs: 1_000_000 }));
    await peer.seen("node.list");
    timers.advance(45_000);
    await peer.seen("health");
    client.close();
    expect((await waiting).code).to.equal("link_lost");
  });

  it("blames nobody when the timer itself comes far too late: we were asleep", async () => {
    await start(15_000);
    peer.on("health", () => HEALTH);
    timers.advance(45_000);
    await peer.seen("health");
    timers.oversleep(60_000);
    expect(client.connected).to.equal(true);
    await peer.seen("health", 2);
  });

  it("gives up with 4000 when the question stays unanswered, and settles what waits", async () => {
    await start(15_000);
    peer.on("health", () => SILENCE).on("node.list", () => SILENCE);
    const ended = new Promise<ConnectionEnd>((resolve) => client.onClose(resolve));
    const waiting = refusalOf(() => client.call("node.list", {}, { timeoutMs: 1_000_000 }));
    await peer.seen("node.list");
    timers.advance(45_000);
    await peer.seen("health");
    timers.advance(9_999);
    expect(client.connected).to.equal(true);
    timers.advance(1);
    expect((await waiting).code).to.equal("link_lost");
    expect(await ended).to.include({ code: 4000, reason: "liveness" });
  });
});
