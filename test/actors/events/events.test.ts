/** Proves what connections hear of each other and of the control plane, over real sockets. */
import { expect } from "chai";
import { PRESENCE_ROWS } from "../../../actors/events/announcer.ts";
import { openEvents } from "../../../actors/events/events.ts";
import { TOLD_MAX_BYTES } from "../../../actors/events/told.ts";
import type { Caller, Identity } from "../../../actors/session/handler.ts";
import { EVENTS } from "../../../protocol/events.ts";
import type { ConnectionId, NodeId } from "../../../protocol/ids.ts";
import { createActorSystem } from "../../../supervision/system.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { logLines } from "../../support/log-lines.ts";
import { type Frame, operator, WsClient } from "../../support/ws-client.ts";

const NODE: Identity = {
  role: "node",
  clientId: "node-1",
  node: { nodeId: "node-1" as NodeId, sessionGeneration: 1 },
};
const callerOf = (connectionId: string): Caller => ({
  role: "operator",
  clientId: null,
  node: null,
  connectionId: connectionId as ConnectionId,
  scopes: ["read"],
  remoteAddress: "127.0.0.1",
  closed: new AbortController().signal,
  close() {},
});

const REQUESTED = {
  pairingId: "p",
  code: "123456",
  nodeType: "server",
  nodeName: "n",
  expiresAtMs: 1,
};
const RESOLVED = { pairingId: "p", nodeId: "n", approved: true, rejected: false };

const NODE_TOKEN = "session-token-of-a-node";
const TICK_MS = 15_000;
/** More than a presence waits with the few connections of a test. */
const PRESENCE_MS = 100;

describe("events", () => {
  let gateway: TestGateway;
  let clock: FakeClock;

  beforeEach(async () => {
    clock = new FakeClock();
    gateway = await testGateway({
      clock,
      announces: true,
      sessionTokens: { identify: async (token) => (token === NODE_TOKEN ? NODE : null) },
    });
  });
  afterEach(() => gateway.close());

  /** A connection that hears nothing but what it asks for. */
  async function listener(...topics: string[]): Promise<WsClient> {
    const client = await WsClient.connect(gateway.url);
    await answer(client, "events.unsubscribe");
    if (topics.length > 0) await answer(client, "events.subscribe", { topics });
    return client;
  }

  /** The answer to a call, past events that came before it. */
  async function answer(client: WsClient, method: string, params?: unknown): Promise<Frame> {
    client.request(method, params);
    for (;;) {
      const frame = await client.next();
      if (frame["type"] === "res") return frame;
    }
  }

  const eventOf = ({ event, seq, payload }: Frame) => ({ event, seq, payload });

  /** What a connection has been told so far; it is asked something, so that everything before has come. */
  async function heard(client: WsClient): Promise<Frame[]> {
    const frames: Frame[] = [];
    client.request("health");
    for (;;) {
      const frame = await client.next();
      if (frame["type"] === "res") return frames;
      frames.push(frame);
    }
  }

  it("are advertised by name, and come after hello-ok", async () => {
    const client = await WsClient.open(gateway.url);
    const hello = await client.call("connect", operator({ client: { id: "first" } }));
    expect(Object(hello["features"]).events).to.deep.equal(EVENTS);
    await clock.advance(PRESENCE_MS);
    const { connId } = Object(hello["server"]);
    expect(await client.next()).to.deep.equal({
      type: "event",
      event: "presence",
      seq: 1,
      payload: {
        connections: [
          {
            conn_id: connId,
            role: "operator",
            client_id: "first",
            connected_at: Date.UTC(2026, 0, 1),
          },
        ],
        count: 1,
      },
      stateVersion: { presence: 1, health: 0, cron: 0 },
    });
  });

  it("tell in one presence of all who came and went meanwhile, and again of the next", async () => {
    const watcher = await listener("presence");
    const others = await Promise.all(
      Array.from({ length: 20 }, () => WsClient.connect(gateway.url)),
    );
    await others[0]?.close();
    while (gateway.roster.counts().active > 20) await new Promise((go) => setImmediate(go));
    await clock.advance(PRESENCE_MS);
    const [first, ...rest] = await heard(watcher);
    expect(rest).to.deep.equal([]);
    expect(Object(first?.payload).count).to.equal(20);
    const late = await WsClient.connect(gateway.url);
    await clock.advance(PRESENCE_MS);
    const [second] = await heard(watcher);
    expect(Object(second?.payload).count).to.equal(21);
    expect(second?.["stateVersion"]).to.deep.equal({ presence: 2, health: 0, cron: 0 });
    await late.close();
  });

  it("take it however many come, go and are cut at once", async () => {
    const system = createActorSystem({ name: "crowd", log: logLines().log, clock });
    const crowd = await openEvents({ parent: system.root, clock });
    const told: unknown[] = [];
    const heard = callerOf("watcher");
    crowd.broadcast.join(heard, { event: (text) => told.push(JSON.parse(text)), answer() {} });
    for (let n = 0; n < 5_000; n += 1) crowd.roster.enter(callerOf(`${n}`), clock.nowMs());
    await clock.advance(PRESENCE_MS + 5_000);
    for (let n = 0; n < 5_000; n += 1) crowd.roster.leave(`${n}` as ConnectionId);
    await clock.advance(PRESENCE_MS);
    const counts = told.map((frame) => Object(frame).payload.count);
    expect(counts).to.deep.equal([5_000, 0]);
    await system.shutdown({ withinMs: 0 });
    // Who ends after the announcer did is no failure either.
    crowd.roster.enter(callerOf("late"), clock.nowMs());
    crowd.roster.leave("late" as ConnectionId);
  });

  it("list at most two hundred in a presence, and count them all", async () => {
    const watcher = await listener("presence");
    const joined = PRESENCE_ROWS + 5;
    await Promise.all(Array.from({ length: joined }, () => WsClient.connect(gateway.url)));
    await clock.advance(PRESENCE_MS + joined);
    const presence = Object((await heard(watcher)).at(-1)?.payload);
    expect(presence.count).to.equal(joined + 1);
    expect(presence.connections).to.have.length(PRESENCE_ROWS);
    const { payload } = await answer(watcher, "system-presence");
    expect(Object(payload).connections).to.have.length(joined + 1);
    expect(Object(payload).count).to.equal(joined + 1);
    expect(Object(payload).summary.operatorCount).to.equal(joined + 1);
  });

  it("tick every tickIntervalMs, and not before", async () => {
    const client = await listener("cron");
    await clock.advance(TICK_MS - 1);
    expect(await heard(client)).to.deep.equal([]);
    await clock.advance(1);
    const [tick] = await heard(client);
    expect(tick?.["event"]).to.equal("tick");
    expect(tick?.payload).to.deep.equal({ timestampMs: clock.nowMs() });
    await clock.advance(2 * TICK_MS);
    expect((await heard(client)).map(({ seq }) => seq)).to.deep.equal([2, 3]);
  });

  it("come in the order they were published, numbered without a gap by what is heard alone", async () => {
    const all = await WsClient.connect(gateway.url);
    const some = await listener("run:1");
    await clock.advance(PRESENCE_MS);
    await heard(all);
    for (let n = 1; n <= 200; n += 1)
      gateway.broadcast.publish("metrics", { payload: { n }, timestampMs: n, runId: `${n % 2}` });
    const told = await heard(all);
    expect(told.map(({ payload }) => Object(payload).payload.n)).to.deep.equal(
      Array.from({ length: 200 }, (_, n) => n + 1),
    );
    expect(told.map(({ seq }) => Number(seq) - Number(told[0]?.["seq"]))).to.deep.equal(
      Array.from({ length: 200 }, (_, n) => n),
    );
    const odd = await heard(some);
    expect(odd.map(({ payload }) => Object(payload).payload.n)).to.deep.equal(
      Array.from({ length: 100 }, (_, n) => 2 * n + 1),
    );
    expect(odd.map(({ seq }) => seq)).to.deep.equal(Array.from({ length: 100 }, (_, n) => n + 1));
  });

  it("are subscribed to before the next frame of the socket is handled", async () => {
    const client = await listener();
    client.request("events.subscribe", { topics: ["session:s"] }, "a");
    client.request("events.ingest", { eventType: "custom", target: "session:s" }, "b");
    client.request("events.unsubscribe", { topics: ["session:s"] }, "c");
    client.request("events.ingest", { eventType: "custom", target: "session:s" }, "d");
    const order = (await client.take(5)).map(({ id, event }) => id ?? event);
    expect(order).to.deep.equal(["a", "custom", "b", "c", "d"]);
  });

  describe("by the topics of a connection", () => {
    it("are all when it names none, and the run's alone when it names that", async () => {
      const client = await listener();
      expect((await answer(client, "events.subscribe", { runId: "r" })).payload).to.deep.equal({
        subscribed: true,
        topics: ["run:r"],
        runId: "r",
        summary: { subscriptionCount: 1 },
      });
      expect((await answer(client, "events.subscribe")).payload).to.deep.equal({
        subscribed: true,
        topics: ["all"],
        runId: null,
        summary: { subscriptionCount: 2 },
      });
    });

    it("are listed, sorted; all of them for a connection that never said", async () => {
      const fresh = await WsClient.connect(gateway.url);
      expect((await answer(fresh, "events.subscriptions.list")).payload).to.deep.equal({
        subscriptions: ["all"],
        runSubscriptions: [],
        count: 1,
        summary: { subscriptionCount: 1 },
      });
      const client = await listener("system", "run:2", "channels", "run:1");
      expect((await answer(client, "events.subscriptions.list")).payload).to.deep.equal({
        subscriptions: ["channels", "run:1", "run:2", "system"],
        runSubscriptions: ["1", "2"],
        count: 4,
        summary: { subscriptionCount: 4 },
      });
    });

    it("are none after an unsubscribe without any, and fewer after one that names some", async () => {
      const client = await listener("system", "nodes", "run:1");
      const fewer = await answer(client, "events.unsubscribe", { topics: ["system"], runId: "1" });
      expect(fewer.payload).to.deep.equal({
        unsubscribed: true,
        topics: ["system", "run:1"],
        runId: "1",
        summary: { subscriptionCount: 1 },
      });
      const none = await answer(client, "events.unsubscribe");
      expect(Object(none.payload).topics).to.equal(null);
      gateway.broadcast.publish("node.pair.resolved", RESOLVED);
      expect(await heard(client)).to.deep.equal([]);
    });

    it("are refused when there is no such topic, and nothing changes", async () => {
      const client = await listener("nodes");
      for (const method of ["events.subscribe", "events.unsubscribe"]) {
        const topics = ["system", "nope", "run:", `bad\u0007${"x".repeat(100)}`];
        const { error } = await answer(client, method, { topics });
        expect([error?.code, error?.message]).to.deep.equal([
          "INVALID_REQUEST",
          `Invalid topics: nope, run:, bad?${"x".repeat(60)}`,
        ]);
      }
      const { payload } = await answer(client, "events.subscriptions.list");
      expect(Object(payload).subscriptions).to.deep.equal(["nodes"]);
    });
  });

  describe("that somebody ingests", () => {
    const cases: readonly [string, object, string, object][] = [
      ["custom", { a: 1 }, "custom", { type: "custom", payload: { a: 1 } }],
      ["custom_mine", { a: 1 }, "custom", { type: "custom_mine", payload: { a: 1 } }],
      ["metrics", { cpu: 2 }, "metrics", { payload: { cpu: 2 } }],
      [
        "heartbeat",
        { agentId: "a", status: "ok", response: "fine", other: 1 },
        "heartbeat",
        { agentId: "a", status: "ok", response: "fine" },
      ],
      ["heartbeat", {}, "heartbeat", { agentId: null, status: null }],
      ["log", { level: "warn", message: "m" }, "log", { level: "warn", message: "m" }],
      ["log", { message: "x".repeat(501) }, "log", { level: "info", message: "x".repeat(500) }],
    ];
    for (const [eventType, payload, event, told] of cases) {
      it(`are told as they are declared (${eventType} ${Object.keys(payload)})`, async () => {
        const client = await listener("system");
        client.request("events.ingest", { eventType, payload }, "i");
        const [frame, done] = await client.take(2);
        const timestampMs = clock.nowMs();
        expect(eventOf(frame ?? {})).to.deep.equal({
          event,
          seq: 1,
          payload: { ...told, timestampMs },
        });
        expect(done?.payload).to.deep.equal({
          ingested: true,
          eventType,
          target: "system",
          timestampMs,
          summary: { event, target: "system" },
        });
      });
    }

    it("reach who hears the target, and name the run or session they are for", async () => {
      const [run, session, nodes, goals] = await Promise.all([
        listener("run:r"),
        listener("session:s"),
        listener("nodes"),
        listener("goals"),
      ]);
      const sender = await listener();
      for (const target of ["run:r", "session:s", "nodes"]) {
        await answer(sender, "events.ingest", { eventType: "metrics", target });
      }
      const [toRun, toSession, toNodes] = await Promise.all([run, session, nodes].map(heard));
      expect(Object(toRun?.[0]?.payload).runId).to.equal("r");
      expect(Object(toSession?.[0]?.payload).sessionKey).to.equal("s");
      for (const told of [toRun, toSession, toNodes]) expect(told).to.have.length(1);
      expect(await heard(goals)).to.deep.equal([]);
    });

    it("are refused to all at once, to an unknown target and of an unknown type", async () => {
      const client = await listener("system");
      for (const [params, message] of [
        [{ eventType: "custom", target: "all" }, "Invalid topics: all"],
        [{ eventType: "custom", target: "x" }, "Invalid topics: x"],
        [
          { eventType: "tick" },
          "Invalid params: eventType: must be custom, heartbeat, metrics, log or custom_<name>",
        ],
        [{ payload: {} }, "Missing required fields: eventType"],
        [{ eventType: "custom", payload: [] }, "Type errors: payload: expected map, got list"],
      ] as const) {
        const { error } = await answer(client, "events.ingest", params);
        expect([error?.code, error?.message]).to.deep.equal(["INVALID_REQUEST", message]);
      }
      expect(await heard(client)).to.deep.equal([]);
    });

    it("are at most 64 KiB", async () => {
      const client = await listener();
      const overhead = JSON.stringify({ text: "" }).length;
      const text = "x".repeat(TOLD_MAX_BYTES - overhead);
      const ingest = (payload: object) =>
        answer(client, "events.ingest", { eventType: "custom", payload });
      expect((await ingest({ text })).ok).to.equal(true);
      const { error } = await ingest({ text: `${text}x` });
      expect(error?.details?.["code"]).to.equal("too_large");
    });
  });

  describe("are kept from", () => {
    it("a node, which hears what is addressed to it alone", async () => {
      const node = await WsClient.connect(gateway.url, { auth: { token: NODE_TOKEN } });
      await clock.advance(2 * TICK_MS);
      gateway.broadcast.publish("node.pair.requested", REQUESTED);
      expect(await heard(node)).to.deep.equal([]);
      const { error } = await answer(node, "events.subscribe");
      expect(error?.code).to.equal("FORBIDDEN");
    });

    it("who has no right to them, though not the end of the control plane or the time", async () => {
      const pairing = await WsClient.connect(
        gateway.url,
        operator({ scopes: ["operator.pairing"] }),
      );
      const writer = await WsClient.connect(gateway.url, operator({ scopes: ["write"] }));
      gateway.broadcast.publish("metrics", { payload: {}, timestampMs: 1 });
      gateway.broadcast.publish("node.pair.requested", REQUESTED);
      gateway.broadcast.publish("shutdown", { reason: "stopping" });
      expect((await heard(pairing)).map(({ event }) => event)).to.deep.equal([
        "node.pair.requested",
        "shutdown",
      ]);
      expect((await heard(writer)).map(({ event }) => event)).to.deep.equal(["shutdown"]);
    });

    it("an operator that asked for no right to read", async () => {
      const writer = await WsClient.connect(gateway.url, operator({ scopes: ["write"] }));
      const watcher = await listener("nodes");
      gateway.broadcast.publish("node.pair.requested", REQUESTED);
      await answer(writer, "events.ingest", { eventType: "custom", target: "nodes" });
      expect(writer.unread).to.deep.equal([]);
      expect(await heard(watcher)).to.have.length(2);
      const { error } = await answer(writer, "events.subscribe");
      expect(error?.code).to.equal("FORBIDDEN");
    });

    it("a connection that has not said hello", async () => {
      const stranger = await WsClient.open(gateway.url);
      await clock.advance(9_000);
      gateway.broadcast.publish("custom", { type: "custom", payload: {}, timestampMs: 1 });
      stranger.request("health", {}, "h");
      expect((await stranger.next()).error?.code).to.equal("HANDSHAKE_REQUIRED");
      expect(stranger.unread).to.deep.equal([]);
    });
  });
});
