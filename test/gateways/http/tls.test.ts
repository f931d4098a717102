import { once } from "node:events";
import { get, request } from "node:https";
import { connect, type TLSSocket } from "node:tls";
import { assert } from "chai";
import type { ServerCertificate } from "../../../gateways/http/certificate.ts";
import type { HttpLimits } from "../../../gateways/http/limits.ts";
import { type HttpServer, listenHttp } from "../../../gateways/http/server.ts";
import { systemClock } from "../../../host/clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { logLines } from "../../support/log-lines.ts";
import { TEST_ISSUED, TEST_TLS } from "../../support/tls-fixture.ts";
import { OPCODE, operator, RawClient, upgradeRequest, wsFrame } from "../../support/ws-client.ts";

const served = (pair: { cert: string; key: string }): ServerCertificate => ({
  chain: pair.cert,
  key: pair.key,
  leaf: pair.cert,
  expiresAtMs: Number.MAX_SAFE_INTEGER,
});
const OURS = served(TEST_TLS);
const RENEWED = served(TEST_ISSUED.near);
const TRUST = { ca: [TEST_TLS.cert, TEST_ISSUED.authority] };

async function shake(port: number, more: object = {}): Promise<TLSSocket> {
  const socket = connect({ port, host: "127.0.0.1", ...TRUST, ...more });
  await once(socket, "secureConnect");
  socket.on("error", () => {});
  return socket;
}

const failureOf = (port: number, more: object): Promise<string> =>
  shake(port, more).then(
    () => "connected",
    (failure: Error & { code?: string }) => failure.code ?? failure.message,
  );

describe("the control plane's port with TLS", () => {
  let http: HttpServer;
  const servers: HttpServer[] = [];

  async function listen(limits: Partial<HttpLimits>, log = logLines().log): Promise<HttpServer> {
    const place = { host: "127.0.0.1", port: 0, clock: systemClock, log };
    const server = await listenHttp({ ...place, certificate: OURS, limits });
    servers.push(server);
    return server;
  }

  beforeEach(async () => {
    http = await listen({});
    http.serve(new Map([["/ws", (_request, socket) => void socket.end()]]));
  });
  afterEach(async () => {
    for (const server of servers.splice(0)) await server.close(0);
  });

  it("speaks TLS 1.2 and 1.3, and nothing older", async () => {
    for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
      const socket = await shake(http.port, { minVersion: version, maxVersion: version });
      assert.equal(socket.getProtocol(), version);
      socket.destroy();
    }
    const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" };
    assert.equal(await failureOf(http.port, old), "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION");
  });

  it("tells browsers to come back by TLS alone, but not of the name that all of a machine's servers share", async () => {
    const headersFor = async (host: string) => {
      const options = {
        port: http.port,
        path: "/healthz",
        headers: { host },
        servername: "localhost",
        agent: false,
        ...TRUST,
      };
      const [response] = await once(get({ host: "127.0.0.1", ...options }), "response");
      response.resume();
      assert.equal(response.statusCode, 200);
      assert.equal(response.headers["x-content-type-options"], "nosniff");
      return response.headers["strict-transport-security"];
    };
    assert.equal(await headersFor("controller.example"), "max-age=31536000");
    assert.equal(await headersFor(`127.0.0.1:${http.port}`), "max-age=31536000");
    assert.isUndefined(await headersFor(`localhost:${http.port}`));
  });

  it("cuts a peer that dawdles over its handshake, however it does it", async () => {
    const hasty = await listen({ tlsHandshakeMs: 200 });
    const silent = await RawClient.open(hasty.port);
    const dribbling = await RawClient.open(hasty.port);
    // A record that announces more than ever comes, a byte at a time.
    dribbling.socket.write(Buffer.from([0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xf0]));
    const dribble = setInterval(() => dribbling.socket.write(Buffer.from([0])), 20);
    await Promise.all([silent.ended, dribbling.ended]);
    clearInterval(dribble);
    assert.equal(silent.received, "");
    assert.equal(dribbling.received, "");
  });

  it("cuts one that shook hands and then dawdles over its request", async () => {
    const hasty = await listen({ headMs: 200, checkMs: 20 });
    const socket = await shake(hasty.port);
    socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n");
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    await once(socket, "end");
    assert.match(answer, /^HTTP\/1\.1 408 /);
  });

  it("closes on whoever speaks no TLS, and serves the others", async () => {
    const plain = await RawClient.open(http.port);
    plain.socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    await plain.ended;
    const noise = await RawClient.open(http.port);
    noise.socket.write(Buffer.alloc(1_000, 0xff));
    await noise.ended;
    assert.notInclude(plain.received, "HTTP/");
    const [response] = await once(
      get({ host: "127.0.0.1", port: http.port, path: "/healthz", ...TRUST }),
      "response",
    );
    response.resume();
    assert.equal(response.statusCode, 200);
  });

  it("turns away who comes when one address has its limit, and serves it again afterwards", async () => {
    const { log, text } = logLines();
    const small = await listen({ perAddress: 2, countLoopback: true }, log);
    const first = await shake(small.port);
    const second = await shake(small.port);
    const third = await RawClient.open(small.port);
    await third.ended;
    assert.include(text(), "connection limit of one address reached");
    first.destroy();
    second.destroy();
    const again = await untilServed(small.port);
    again.destroy();
  });

  it("leaves no socket when it closes, nor one that is still shaking hands", async () => {
    const shaking = await RawClient.open(http.port);
    const idle = await shake(http.port);
    // `once` would give up at a reset, which is an end like any other.
    const closed = new Promise((resolve) => idle.once("close", resolve));
    idle.resume();
    await http.close(0);
    await Promise.all([shaking.ended, closed]);
  });
});

/** The server learns of an end a moment after whoever ended it. */
async function untilServed(port: number): Promise<TLSSocket> {
  for (;;) {
    try {
      return await shake(port);
    } catch {
      // Not yet.
    }
  }
}

describe("/ws over TLS", () => {
  let gateway: TestGateway;
  beforeEach(async () => {
    gateway = await testGateway({ certificate: OURS });
  });
  afterEach(() => gateway.close());

  const client = async (more: object = {}) => {
    const socket = await shake(gateway.port, more);
    const raw = new RawClient(socket);
    socket.write(upgradeRequest(gateway.port, "/ws"));
    await raw.until("\r\n\r\n");
    socket.write(
      wsFrame(
        OPCODE.text,
        JSON.stringify({ type: "req", id: "c", method: "connect", params: operator() }),
      ),
    );
    assert.include(await raw.until("hello-ok"), "hello-ok");
    return raw;
  };
  const health = async (raw: RawClient, id: string) => {
    raw.socket.write(wsFrame(OPCODE.text, JSON.stringify({ type: "req", id, method: "health" })));
    assert.include(await raw.until(`"id":"${id}"`), `"id":"${id}"`);
  };

  it("shows a renewed certificate to whoever comes next, and goes on with whoever is there", async () => {
    const before = await client({ ca: TEST_TLS.cert });
    gateway.http.renew(RENEWED);
    const after = await client({ ca: TEST_ISSUED.authority });
    assert.equal(
      await failureOf(gateway.port, { ca: TEST_TLS.cert }),
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    );
    await health(before, "old");
    await health(after, "new");
    before.socket.destroy();
    after.socket.destroy();
  });

  it("carries answers of every size", async () => {
    const raw = await client();
    const pad = "x".repeat(2_000_000);
    raw.socket.write(
      wsFrame(
        OPCODE.text,
        JSON.stringify({ type: "req", id: "large", method: "health", params: { pad } }),
      ),
    );
    assert.include(await raw.until('"id":"large"'), '"ok":true');
    raw.socket.destroy();
  });

  it("answers an upgrade it does not serve, and closes", async () => {
    const sent = request({ host: "127.0.0.1", port: gateway.port, path: "/nothing", ...TRUST });
    sent.setHeader("Connection", "Upgrade").setHeader("Upgrade", "websocket");
    sent.end();
    const [response] = await once(sent, "response");
    response.resume();
    assert.equal(response.statusCode, 404);
  });
});
