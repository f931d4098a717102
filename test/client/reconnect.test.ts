import { expect } from "chai";
import {
  type Client,
  type ConnectionEnd,
  type ConnectOptions,
  connect,
  DEFAULT_BACKOFF,
  type Hello,
} from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import { FakeControlPlane, SILENCE } from "../support/fake-control-plane.ts";
import { ManualTimers } from "../support/manual-timers.ts";
import { bare, NODE_ID, nodeList } from "../support/node-rows.ts";
import { refusalOf } from "../support/refusal.ts";

/** The longest that the back-off ever waits; timers of other purposes are armed for longer. */
const isBackoff = (delayMs: number) => delayMs <= DEFAULT_BACKOFF.maxMs;

describe("a client that reconnects", () => {
  let peer: FakeControlPlane;
  let timers: ManualTimers;
  let client: Client;

  async function start(options: Partial<ConnectOptions> = {}, url = peer.url): Promise<void> {
    client = await connect({
      url,
      clientId: "test",
      openSocket: socketOpener(),
      reconnect: true,
      timers,
      random: () => 1,
      ...options,
    });
  }

  const nextEnd = () =>
    new Promise<ConnectionEnd>((resolve) => {
      const stop = client.onClose((end) => {
        stop();
        resolve(end);
      });
    });

  /** Lets the back-off pass and waits for the next connection. */
  async function comeBack(): Promise<number> {
    const delayMs = await timers.armed(isBackoff);
    const ready = client.ready();
    timers.advance(delayMs);
    await ready;
    return delayMs;
  }

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

  it("comes back after the line is cut, and says so", async () => {
    await start();
    const heard: string[] = [];
    client.onReconnect(({ connectionId }) => heard.push(connectionId));
    const end = nextEnd();
    peer.connections[0]?.drop();
    expect(await end).to.include({ code: 1006, reconnecting: true });
    await comeBack();
    expect(client.hello.connectionId).to.equal("conn-2");
    expect(heard).to.deep.equal(["conn-2"]);
    peer.on("node.list", () => nodeList());
    await client.call("node.list", {});
  });

  for (const [code, reason] of [
    [4003, "revoked"],
    [4004, "superseded"],
  ] as const) {
    it(`tells close ${code} with its reason before another attempt, and close there is the last word`, async () => {
      await start();
      const end = nextEnd();
      client.onClose(() => client.close());
      peer.connections[0]?.close(code, reason);
      expect(await end).to.include({ code, reason, reconnecting: true });
      expect(await client.ended).to.equal(null);
      expect(timers.delaysMs).to.deep.equal([]);
      expect(peer.connections).to.have.length(1);
    });
  }

  it("never sends a call again: the one that was cut off is uncertain, the next connection is silent", async () => {
    await start();
    peer.on("node.process.cancel", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
    const cut = await refusalOf(() =>
      client.call("node.process.cancel", { nodeId: NODE_ID, processId: "t:1" }),
    );
    expect(cut.mutationMayHaveApplied).to.equal(true);
    await comeBack();
    peer.on("node.process.get", ({ processId }) => bare(processId, "cancelled"));
    await client.call("node.process.get", { nodeId: NODE_ID, processId: "t:1" });
    expect(
      peer.requests.map(({ method, connection }) => [connection.number, method]),
    ).to.deep.equal([
      [1, "node.process.cancel"],
      [2, "node.process.get"],
    ]);
  });

  it("refuses calls at once while there is no connection", async () => {
    await start();
    const end = nextEnd();
    peer.connections[0]?.drop();
    await end;
    const refused = await refusalOf(() => client.call("node.list", {}));
    expect(refused).to.include({ code: "unavailable", mutationMayHaveApplied: false });
    expect(client.connected).to.equal(false);
    await comeBack();
    expect(client.connected).to.equal(true);
  });

  it("waits longer each time, up to the bound", async () => {
    await start();
    const { port } = peer;
    const end = nextEnd();
    await peer.stop();
    await end;
    const delays: number[] = [];
    for (let attempt = 0; attempt < 6; attempt += 1) {
      const delayMs = await timers.armed(isBackoff);
      delays.push(delayMs);
      timers.advance(delayMs);
    }
    expect(delays).to.deep.equal([500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    await timers.armed(isBackoff);
    peer = await FakeControlPlane.start({ port });
    await comeBack();
  });

  it("is not put back to short delays by a connection that dies right after its handshake", async () => {
    await start();
    peer.connections[0]?.drop();
    expect(await comeBack()).to.equal(500);
    timers.advance(DEFAULT_BACKOFF.resetAfterMs - 1);
    peer.connections[1]?.drop();
    expect(await comeBack()).to.equal(1_000);
    timers.advance(DEFAULT_BACKOFF.resetAfterMs);
    peer.connections[2]?.drop();
    expect(await comeBack()).to.equal(500);
  });

  it("does not call itself ready in the moment between the end and the next connection", async () => {
    const open = socketOpener();
    const asked = Promise.withResolvers<Hello>();
    await start({
      openSocket: (url, events) =>
        open(url, {
          ...events,
          closed(close) {
            events.closed(close);
            asked.resolve(client.ready());
          },
        }),
    });
    peer.connections[0]?.drop();
    timers.advance(await timers.armed(isBackoff));
    expect((await asked.promise).connectionId).to.equal("conn-2");
  });

  it("asks for its token before each connection", async () => {
    const tokens = ["first", "second"];
    await start({ token: () => Promise.resolve(tokens.shift() ?? "none") });
    peer.connections[0]?.drop();
    await comeBack();
    expect(peer.connects.map(({ token }) => token)).to.deep.equal(["first", "second"]);
  });

  it("asks again when there is no token for the next connection", async () => {
    const answers = [
      async () => "first",
      () => Promise.reject(new Error("no network")),
      () => "third",
    ];
    await start({ token: () => answers.shift()?.() ?? null });
    peer.connections[0]?.drop();
    timers.advance(await timers.armed(isBackoff));
    await comeBack();
    expect(peer.connects.map(({ token }) => token)).to.deep.equal(["first", "third"]);
  });

  it("does not try without end to get the very first token", async () => {
    const failure = new Error("no such file");
    const error = await start({ token: () => Promise.reject(failure) }).then(null, (e) => e);
    expect(error).to.equal(failure);
    await start();
  });

  it("ends for good when it is refused, and everyone who waits is told", async () => {
    await start();
    peer.connections[0]?.drop();
    const delayMs = await timers.armed(isBackoff);
    const waiting = refusalOf(() => client.ready());
    const { port } = peer;
    await peer.stop();
    peer = await FakeControlPlane.start({ token: "another", port });
    timers.advance(delayMs);
    expect(await client.ended).to.include({ code: "unauthorized", reason: "refused" });
    expect((await waiting).code).to.equal("unauthorized");
    expect((await refusalOf(() => client.ready())).code).to.equal("unauthorized");
  });

  it("waits for a controller that is not there yet", async () => {
    const { port, url } = peer;
    await peer.stop();
    const started = start({}, url);
    const delayMs = await timers.armed(isBackoff);
    peer = await FakeControlPlane.start({ port });
    timers.advance(delayMs);
    await started;
    expect(client.connected).to.equal(true);
  });

  it("stops waiting for the first connection when its caller does", async () => {
    await start();
    const { url } = peer;
    await peer.stop();
    const stop = new AbortController();
    const other = new ManualTimers();
    const failed = refusalOf(() =>
      connect({
        url,
        clientId: "test",
        openSocket: socketOpener(),
        reconnect: true,
        timers: other,
        signal: stop.signal,
      }),
    );
    await other.armed(isBackoff);
    stop.abort();
    expect((await failed).code).to.equal("aborted");
    expect(other.delaysMs).to.deep.equal([]);
  });

  it("lets one who waits for the next connection stop alone", async () => {
    await start();
    const end = nextEnd();
    peer.connections[0]?.drop();
    await end;
    const stop = new AbortController();
    const stopped = refusalOf(() => client.ready(stop.signal));
    const other = client.ready();
    stop.abort();
    expect((await stopped).code).to.equal("aborted");
    timers.advance(await timers.armed(isBackoff));
    expect((await other).connectionId).to.equal("conn-2");
  });

  it("stays closed when it is closed in the very moment in which it came back", async () => {
    const open = socketOpener();
    let welcomes = 0;
    await start({
      openSocket: (url, events) =>
        open(url, {
          ...events,
          text(data) {
            events.text(data);
            welcomes += 1;
            if (welcomes === 2) queueMicrotask(() => client.close());
          },
        }),
    });
    peer.connections[0]?.drop();
    timers.advance(await timers.armed(isBackoff));
    expect(await client.ended).to.equal(null);
    expect(client.connected).to.equal(false);
    expect((await peer.connections[1]?.closed.promise)?.code).to.equal(1000);
  });

  it("arms nothing more once it is closed", async () => {
    await start();
    client.close();
    await client.ended;
    await peer.connections[0]?.closed.promise;
    const refused = await refusalOf(() => client.ready());
    expect(refused).to.be.an("error");
    // Only the bound on the peer's part of the closing handshake may remain, and it passes.
    timers.advance(2_000);
    expect(timers.delaysMs).to.deep.equal([]);
  });
});

describe("a client that does not reconnect", () => {
  it("ends with its one connection and says how", async () => {
    const peer = await FakeControlPlane.start();
    const client = await connect({ url: peer.url, clientId: "t", openSocket: socketOpener() });
    peer.connections[0]?.close(1013, "slow consumer");
    const end = await client.ended;
    expect(end?.close).to.deep.equal({ code: 1013, reason: "slow consumer", failure: null });
    await peer.stop();
  });
});
