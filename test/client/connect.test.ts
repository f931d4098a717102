import { createServer } from "node:net";
import { expect } from "chai";
import { type Client, ConnectError, type ConnectOptions, connect } from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import { LemonError } from "../../protocol/errors.ts";
import { FakeControlPlane, SILENCE } from "../support/fake-control-plane.ts";
import { ManualTimers } from "../support/manual-timers.ts";
import { nodeList } from "../support/node-rows.ts";
import { refusalOf } from "../support/refusal.ts";

async function connectError(options: Partial<ConnectOptions> & { url: string }) {
  const error = await refusalOf(async () => {
    const client = await connect({ clientId: "test", openSocket: socketOpener(), ...options });
    client.close();
  });
  if (!(error instanceof ConnectError)) throw error;
  return error;
}

describe("connecting", () => {
  let peer: FakeControlPlane;

  afterEach(async () => {
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
  });

  for (const [name, openSocket] of [
    ["ws", socketOpener()],
    ["the platform's WebSocket", undefined],
  ] as const) {
    it(`says who it is and learns who the peer is, on ${name}`, async () => {
      peer = await FakeControlPlane.start({ token: "secret", clientId: "node-7" });
      const client: Client = await connect({
        url: peer.url,
        token: "secret",
        clientId: "me",
        role: "operator",
        scopes: ["operator.read"],
        ...(openSocket === undefined ? {} : { openSocket }),
      });
      expect(peer.connects).to.deep.equal([
        { token: "secret", clientId: "me", role: "operator", scopes: ["operator.read"] },
      ]);
      expect(client.hello).to.deep.include({
        protocol: 1,
        version: "2026.11.0",
        connectionId: "conn-1",
        clientId: "node-7",
        role: "operator",
      });
      expect(client.hello.methods).to.include("node.process.run");
      peer.on("node.list", () => nodeList());
      await client.call("node.list", {});
      client.close(1000, "client closed");
      expect(await client.ended).to.equal(null);
      expect(await peer.connections[0]?.closed.promise).to.deep.equal({
        code: 1000,
        reason: "client closed",
      });
    });
  }

  it("asks for no role and no scopes unless it is told to, and sends no token it has not", async () => {
    peer = await FakeControlPlane.start();
    const client = await connect({ url: peer.url, clientId: "me", openSocket: socketOpener() });
    client.close();
    expect(peer.connects).to.deep.equal([
      { token: null, clientId: "me", role: undefined, scopes: undefined },
    ]);
  });

  it("is refused with the peer's words when the token is wrong", async () => {
    peer = await FakeControlPlane.start({ token: "secret" });
    const error = await connectError({ url: peer.url, token: "guess" });
    expect(error).to.include({
      code: "unauthorized",
      reason: "refused",
      message: "Operator token is invalid",
      retrySafe: false,
    });
  });

  it("is not final when the peer only asks for patience", async () => {
    peer = await FakeControlPlane.start();
    peer.onConnect(() => {
      throw new LemonError("rate_limited", { details: { retryAfterMs: 5 } });
    });
    const error = await connectError({ url: peer.url });
    expect(error).to.include({ code: "rate_limited", reason: "refused", retrySafe: true });
    expect(error.details).to.include({ retryAfterMs: 5 });
  });

  it("ends after its bound when the peer takes the socket and says nothing", async () => {
    peer = await FakeControlPlane.start();
    peer.onConnect(() => SILENCE);
    const timers = new ManualTimers();
    const failed = connectError({ url: peer.url, timers, handshakeMs: 3_000 });
    await peer.connected();
    timers.advance(2_999);
    expect(timers.delaysMs).to.deep.equal([1]);
    timers.advance(1);
    expect(await failed).to.include({ code: "unavailable", reason: "unreachable" });
    await peer.connections[0]?.closed.promise;
  });

  it("ends after its bound when the peer takes the connection and never answers the upgrade", async () => {
    peer = await FakeControlPlane.start();
    const taken = Promise.withResolvers<void>();
    const mute = createServer((socket) => {
      socket.on("error", () => {});
      taken.resolve();
    });
    await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
    const address = mute.address();
    if (typeof address !== "object" || address === null) throw new Error("no address");
    const timers = new ManualTimers();
    const failed = connectError({ url: `ws://127.0.0.1:${address.port}/ws`, timers });
    await taken.promise;
    timers.advance(10_000);
    expect((await failed).reason).to.equal("unreachable");
    await new Promise<void>((resolve) => mute.close(() => resolve()));
  });

  it("says why when nobody listens", async () => {
    peer = await FakeControlPlane.start();
    const { url } = peer;
    await peer.stop();
    const error = await connectError({ url });
    expect(error).to.include({ code: "unavailable", reason: "unreachable", retrySafe: true });
    expect(error.close?.failure).to.equal("ECONNREFUSED");
    expect(error.message).to.include("ECONNREFUSED");
  });

  it("says why when the address serves something else", async () => {
    peer = await FakeControlPlane.start();
    const error = await connectError({ url: peer.url.replace("/ws", "/other") });
    expect(error.close?.failure).to.match(/^HTTP 4\d\d$/);
  });

  it("does not take a peer of another protocol", async () => {
    peer = await FakeControlPlane.start({ protocol: 2 });
    const error = await connectError({ url: peer.url });
    expect(error).to.include({ code: "not_implemented", reason: "refused", retrySafe: false });
    expect(error.message).to.include("protocol 2");
  });

  for (const [name, text] of [
    ["no JSON", "hello"],
    ["half a hello", `{"type":"hello-ok","protocol":1}`],
    ["a success that is no hello", `{"type":"res","id":"connect","ok":true,"payload":{}}`],
  ] as const) {
    it(`does not take ${name} for a welcome`, async () => {
      peer = await FakeControlPlane.start();
      peer.onConnect((_params, connection) => {
        connection.raw(text);
        return SILENCE;
      });
      const error = await connectError({ url: peer.url });
      expect(error).to.include({ code: "unavailable", reason: "unreachable" });
    });
  }

  it("takes a welcome that lacks what only newer peers say, with the contract's limits", async () => {
    peer = await FakeControlPlane.start();
    peer.onConnect((_params, connection) => {
      connection.frame({
        type: "hello-ok",
        protocol: 1,
        server: { version: "2026.8.1", connId: "x" },
        features: { methods: ["health"] },
        auth: { role: "operator" },
      });
      return SILENCE;
    });
    const client = await connect({ url: peer.url, clientId: "me", openSocket: socketOpener() });
    client.close();
    expect(client.hello.policy).to.deep.equal({
      maxPayload: 4_194_304,
      maxBufferedBytes: 8_388_608,
      tickIntervalMs: 15_000,
    });
    expect(client.hello.clientId).to.equal(null);
  });

  it("tells the code when the peer closes instead of a welcome", async () => {
    peer = await FakeControlPlane.start();
    peer.onConnect((_params, connection) => {
      connection.close(4003, "revoked");
      return SILENCE;
    });
    const error = await connectError({ url: peer.url });
    expect(error.close).to.deep.equal({ code: 4003, reason: "revoked", failure: null });
  });

  for (const url of ["", "http://127.0.0.1", "127.0.0.1:4040"]) {
    it(`refuses the address ${JSON.stringify(url)} before anything else`, async () => {
      peer = await FakeControlPlane.start();
      const refused = await refusalOf(() => connect({ url, clientId: "t", reconnect: true }));
      expect(refused.code).to.equal("invalid_params");
    });
  }

  it("is unreachable when no socket can be made", async () => {
    peer = await FakeControlPlane.start();
    const error = await connectError({
      url: peer.url,
      openSocket: () => {
        throw new TypeError("no sockets here");
      },
    });
    expect(error).to.include({ code: "unavailable", reason: "unreachable" });
    expect(error.cause).to.be.instanceOf(TypeError);
  });

  it("ends when its caller stops, and leaves no socket behind", async () => {
    peer = await FakeControlPlane.start();
    peer.onConnect(() => SILENCE);
    const stop = new AbortController();
    const failed = connectError({ url: peer.url, signal: stop.signal });
    await peer.connected();
    stop.abort();
    expect(await failed).to.include({ code: "aborted", reason: "aborted" });
    await peer.connections[0]?.closed.promise;
  });

  it("does not begin for a caller that had already stopped", async () => {
    peer = await FakeControlPlane.start();
    const error = await connectError({ url: peer.url, signal: AbortSignal.abort() });
    expect(error.code).to.equal("aborted");
    expect(peer.connections).to.deep.equal([]);
  });
});
