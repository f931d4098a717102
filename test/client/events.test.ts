import { expect } from "chai";
import {
  type Client,
  type ClientEvent,
  type ConnectOptions,
  connect,
  isEvent,
} from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import { FakeControlPlane, type PeerConnection } from "../support/fake-control-plane.ts";
import { ManualTimers } from "../support/manual-timers.ts";
import { refusalOf } from "../support/refusal.ts";

const STATE = { presence: 1, health: 0, cron: 0 };

describe("the events of a client", () => {
  let peer: FakeControlPlane;
  let timers: ManualTimers;
  let client: Client;

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    timers = new ManualTimers();
  });
  afterEach(async () => {
    client.close();
    await client.ended;
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
  });

  async function start(options: Partial<ConnectOptions> = {}): Promise<void> {
    const openSocket = socketOpener();
    client = await connect({ url: peer.url, clientId: "test", openSocket, timers, ...options });
  }

  function line(number: number): PeerConnection {
    const connection = peer.connections[number - 1];
    if (connection === undefined) throw new Error(`there is no connection ${number}`);
    return connection;
  }

  function send(connection: PeerConnection, seq: number, payload?: unknown): void {
    connection.frame({ type: "event", event: "custom", seq, payload, stateVersion: STATE });
  }

  /** Resolves when the client has read everything that was sent to it before. */
  async function caughtUp(): Promise<void> {
    peer.on("health", () => {
      const summary = { action: "health" };
      return { ok: true, uptime_ms: 1, memory_mb: 1, schedulers: 1, summary };
    });
    await client.call("health", {});
  }

  async function take(
    events: AsyncIterableIterator<ClientEvent, undefined>,
    count: number,
  ): Promise<(number | string)[]> {
    const taken: (number | string)[] = [];
    while (taken.length < count) {
      const { value, done } = await events.next();
      if (done === true) return [...taken, "done"];
      taken.push("missed" in value ? value.missed : value.seq);
    }
    return taken;
  }

  it("come in order, with what they say; frames that are none are passed over", async () => {
    await start();
    const events = client.events();
    const connection = line(1);
    send(connection, 1, { a: 1 });
    connection.frame({ type: "event", event: "", seq: 2 });
    connection.frame({ type: "event", event: "custom", seq: "3" });
    connection.frame({ type: "event", event: "later", seq: 4 });
    expect((await events.next()).value).to.deep.equal({
      event: "custom",
      seq: 1,
      payload: { a: 1 },
      stateVersion: STATE,
    });
    expect((await events.next()).value).to.deep.equal({
      event: "later",
      seq: 4,
      payload: null,
      stateVersion: {},
    });
  });

  it("are each reader's own, from when it began; a loop that is left ends its reader", async () => {
    await start();
    const connection = line(1);
    const early = client.events();
    send(connection, 1);
    await caughtUp();
    const late = client.events();
    send(connection, 2);
    send(connection, 3);
    expect(await take(late, 2)).to.deep.equal([2, 3]);
    const seen: number[] = [];
    for await (const event of early) {
      if ("missed" in event) continue;
      seen.push(event.seq);
      if (event.seq === 2) break;
    }
    expect(seen).to.deep.equal([1, 2]);
    expect(await take(early, 1)).to.deep.equal(["done"]);
  });

  it("wait for a slow reader up to a limit; beyond it the reader is told that some are missing", async () => {
    await start();
    const connection = line(1);
    const events = client.events({ limit: 3 });
    for (let seq = 1; seq <= 3; seq += 1) send(connection, seq);
    await caughtUp();
    expect(await take(events, 3)).to.deep.equal([1, 2, 3]);
    for (let seq = 4; seq <= 9; seq += 1) send(connection, seq);
    await caughtUp();
    expect(await take(events, 2)).to.deep.equal([4, 5]);
    send(connection, 10);
    await caughtUp();
    expect(await take(events, 3)).to.deep.equal([6, "behind", 10]);
  });

  it("go on with the next connection, and say that some may be missing", async () => {
    await start({ reconnect: true, random: () => 1 });
    const first = line(1);
    const events = client.events();
    send(first, 1);
    await caughtUp();
    first.drop();
    const delayMs = await timers.armed((delay) => delay <= 30_000);
    const ready = client.ready();
    timers.advance(delayMs);
    await ready;
    send(line(2), 1);
    expect(await take(events, 3)).to.deep.equal([1, "reconnected", 1]);
  });

  it("end when the client is closed, after what waits was read", async () => {
    await start();
    const events = client.events();
    send(line(1), 1);
    await caughtUp();
    client.close();
    expect(await take(events, 2)).to.deep.equal([1, "done"]);
    expect(await take(client.events(), 1)).to.deep.equal(["done"]);
  });

  it("of a new connection come behind the word that some are missing, also when they stand in its first bytes", async () => {
    const timers = new ManualTimers();
    await start({ reconnect: { firstMs: 1, maxMs: 1, resetAfterMs: 1 }, timers });
    const events = client.events();
    peer.onConnect((_params, connection) => {
      // Behind the welcome, and before the client reads it.
      setImmediate(() => send(connection, 1));
      return undefined;
    });
    line(1).drop();
    timers.advance(await timers.armed((delayMs) => delayMs <= 1));
    expect(await take(events, 2)).to.deep.equal(["reconnected", 1]);
  });

  it("fail once, when the connection ended and none follows", async () => {
    await start();
    const events = client.events();
    const reading = events.next();
    line(1).drop();
    expect((await refusalOf(() => reading)).code).to.equal("link_lost");
    expect(await take(events, 1)).to.deep.equal(["done"]);
  });

  it("end with the caller's signal, also one that was given before", async () => {
    await start();
    const stop = new AbortController();
    const events = client.events({ signal: stop.signal });
    const reading = events.next();
    stop.abort();
    expect((await reading).done).to.equal(true);
    expect(await take(client.events({ signal: stop.signal }), 1)).to.deep.equal(["done"]);
  });

  it("are known by name and payload; a newer peer's additions do no harm, its changes are seen", async () => {
    await start();
    const events = client.events();
    const presence = (payload: unknown): void =>
      line(1).frame({ type: "event", event: "presence", seq: 1, payload, stateVersion: STATE });
    presence({ connections: [], count: 3, more: true });
    presence({ connections: [], count: "three" });
    send(line(1), 2, { type: "custom", payload: {}, timestampMs: 1 });
    line(1).drop();
    const verdicts: unknown[] = [];
    for await (const event of events) {
      verdicts.push(isEvent(event, "presence") ? event.payload.count : isEvent(event, "custom"));
      if (verdicts.length === 3) break;
    }
    expect(verdicts).to.deep.equal([3, false, true]);
    expect(isEvent({ missed: "behind" }, "custom")).to.equal(false);
  });
});
