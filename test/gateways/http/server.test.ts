import { once } from "node:events";
import { createServer } from "node:net";
import { assert } from "chai";
import { type HttpServer, listenHttp } from "../../../gateways/http/server.ts";
import { systemClock } from "../../../host/clock.ts";
import { logLines } from "../../support/log-lines.ts";
import { refusalOf } from "../../support/refusal.ts";
import { RawClient, upgradeRequest } from "../../support/ws-client.ts";

describe("the control plane's port", () => {
  let http: HttpServer;
  let upgraded: string[];

  beforeEach(async () => {
    upgraded = [];
    const { log } = logLines();
    http = await listenHttp({ host: "127.0.0.1", port: 0, clock: systemClock, log });
  });
  afterEach(() => http.close(0));

  const serve = (): void => {
    http.serve(
      new Map(
        ["/ws", "/leafnode"].map((path) => [
          path,
          (_request, socket) => {
            upgraded.push(path);
            socket.end("HTTP/1.1 101 Switching Protocols\r\n\r\n");
          },
        ]),
      ),
    );
  };
  const get = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`http://127.0.0.1:${http.port}${path}`, init);
  const exchange = async (bytes: string): Promise<string> => {
    const client = await RawClient.open(http.port);
    client.socket.write(bytes);
    return client.all();
  };

  it("takes a free port for 0 and says which", () => {
    assert.isAbove(http.port, 0);
  });

  it("answers 503 to everything until its services are there", async () => {
    const response = await get("/healthz");
    assert.equal(response.status, 503);
    assert.equal(response.headers.get("retry-after"), "1");
    assert.deepEqual(await response.json(), {
      error: { code: "UNAVAILABLE", message: "The control plane is starting" },
    });
    const answer = await exchange(upgradeRequest(http.port, "/ws"));
    assert.match(answer, /^HTTP\/1\.1 503 /);
  });

  describe("once it serves", () => {
    beforeEach(serve);

    it("answers GET /healthz with 200 and nothing but ok", async () => {
      const response = await get("/healthz");
      assert.equal(response.status, 200);
      assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
      assert.equal(await response.text(), '{"ok":true}');
    });

    it("ignores the query of /healthz, and answers HEAD without a body", async () => {
      assert.equal((await get("/healthz?probe=1")).status, 200);
      const head = await get("/healthz", { method: "HEAD" });
      assert.equal(head.status, 200);
      assert.equal(head.headers.get("content-length"), "11");
      assert.equal(await head.text(), "");
    });

    it("answers GET /readyz as it is at that moment: 200, or 503 with what is missing", async () => {
      const missing: string[] = [];
      http.serve(new Map(), () => missing);
      const ready = await get("/readyz");
      assert.equal(ready.status, 200);
      assert.equal(await ready.text(), '{"ok":true}');
      missing.push("hub", "documents");
      const unready = await get("/readyz?probe=1");
      assert.equal(unready.status, 503);
      assert.equal(unready.headers.get("retry-after"), "1");
      assert.deepEqual(await unready.json(), {
        error: {
          code: "UNAVAILABLE",
          message: "The control plane can not do its work now: hub, documents",
          details: { missing: ["hub", "documents"] },
        },
      });
      const head = await get("/readyz", { method: "HEAD" });
      assert.equal(head.status, 503);
      assert.equal(await head.text(), "");
      assert.equal((await get("/healthz")).status, 200);
      assert.equal((await get("/readyz", { method: "POST" })).status, 405);
      missing.length = 0;
      assert.equal((await get("/readyz")).status, 200);
    });

    it("answers any other path with 404 in the envelope", async () => {
      for (const path of [
        "/",
        "/health",
        "/healthz/",
        "/readyz/",
        "/HEALTHZ",
        "//healthz",
        "/%68ealthz",
      ]) {
        const response = await get(path);
        assert.equal(response.status, 404, path);
        assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
        assert.deepEqual(await response.json(), {
          error: { code: "NOT_FOUND", message: "Nothing is served here" },
        });
      }
    });

    it("never says a path back", async () => {
      assert.notInclude(await (await get("/s3cr3t?s3cr3t")).text(), "s3cr3t");
    });

    it("answers a wrong method with 405 and what is allowed", async () => {
      for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
        const response = await get("/healthz", { method });
        assert.equal(response.status, 405, method);
        assert.equal(response.headers.get("allow"), "GET, HEAD");
        assert.equal(Object(await response.json()).error.code, "INVALID_REQUEST");
      }
      const response = await get("/ws", { method: "POST" });
      assert.equal(response.status, 405);
      assert.equal(response.headers.get("allow"), "GET, HEAD");
    });

    it("answers HEAD as GET, without a body, wherever it is asked", async () => {
      for (const path of ["/healthz", "/ws", "/nothing"]) {
        const [head, whole] = [await get(path, { method: "HEAD" }), await get(path)];
        assert.equal(head.status, whole.status, path);
        assert.equal(await head.text(), "");
        assert.equal(head.headers.get("content-length"), String((await whole.text()).length));
      }
    });

    it("upgrades GET alone", async () => {
      const asked = (method: string) =>
        exchange(upgradeRequest(http.port, "/ws").replace(/^GET/, method));
      assert.match(await asked("POST"), /^HTTP\/1\.1 405 [\s\S]*\r\nAllow: GET, HEAD\r\n/);
      assert.match(await asked("HEAD"), /^HTTP\/1\.1 426 [\s\S]*\r\n\r\n$/);
      assert.deepEqual(upgraded, []);
    });

    it("is no proxy, and says so", async () => {
      const answer = await exchange(
        "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
      );
      assert.match(answer, /^HTTP\/1\.1 501 [\s\S]*\{"error":\{"code":"NOT_IMPLEMENTED",/);
    });

    it("asks for an upgrade where only upgrades are served", async () => {
      for (const path of ["/ws", "/leafnode"]) {
        const response = await get(path);
        assert.equal(response.status, 426, path);
        assert.equal(response.headers.get("upgrade"), "websocket");
        await response.body?.cancel();
      }
    });

    it("forbids with every answer to sniff, cache, frame or share it", async () => {
      for (const path of ["/healthz", "/nothing"]) {
        const { headers, body } = await get(path);
        assert.equal(headers.get("x-content-type-options"), "nosniff");
        assert.equal(headers.get("cache-control"), "no-store");
        assert.include(headers.get("content-security-policy") ?? "", "default-src 'none'");
        assert.equal(headers.get("x-frame-options"), "DENY");
        assert.equal(headers.get("cross-origin-resource-policy"), "same-origin");
        assert.isNull(headers.get("access-control-allow-origin"));
        assert.isNull(headers.get("server"));
        await body?.cancel();
      }
    });

    it("gives an upgrade to the handler of its exact path, whatever its query", async () => {
      assert.match(await exchange(upgradeRequest(http.port, "/ws?token=x")), /^HTTP\/1\.1 101 /);
      assert.match(await exchange(upgradeRequest(http.port, "/leafnode")), /^HTTP\/1\.1 101 /);
      assert.deepEqual(upgraded, ["/ws", "/leafnode"]);
    });

    it("answers any other upgrade with 404 in the envelope and closes", async () => {
      const paths = [
        "/",
        "/wss",
        "/ws/",
        "/WS",
        "//ws",
        "/%77s",
        "/x/../ws",
        "/healthz",
        "http://h/ws",
      ];
      for (const path of paths) {
        const answer = await exchange(upgradeRequest(http.port, path));
        assert.match(answer, /^HTTP\/1\.1 404 Not Found\r\n/, path);
        assert.match(answer, /\r\nConnection: close\r\n/);
        assert.match(answer, /\r\n\r\n\{"error":\{"code":"NOT_FOUND","message":"[^"]+"\}\}$/);
      }
      assert.deepEqual(upgraded, []);
    });

    it("ignores an upgrade to anything but WebSocket", async () => {
      const h2c = { Upgrade: "h2c", "HTTP2-Settings": "AAMAAABk" };
      assert.match(
        await exchange(upgradeRequest(http.port, "/healthz", h2c)),
        /^HTTP\/1\.1 200 OK\r\n[\s\S]*\{"ok":true\}$/,
      );
      assert.match(await exchange(upgradeRequest(http.port, "/ws", h2c)), /^HTTP\/1\.1 426 /);
      assert.deepEqual(upgraded, []);
    });

    it("answers as ever whatever is expected of it", async () => {
      for (const expected of ["100-continue", "a miracle"]) {
        const head = `GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: ${expected}\r\nConnection: close\r\n\r\n`;
        const answer = await exchange(head);
        assert.include(answer, "HTTP/1.1 200 OK\r\n");
        assert.include(answer, "X-Content-Type-Options: nosniff");
        assert.isTrue(answer.endsWith('{"ok":true}'), answer);
      }
    });

    it("answers what is no HTTP with 400, and a head that is too large with 431", async () => {
      assert.match(await exchange("hello\r\n\r\n"), /^HTTP\/1\.1 400 [\s\S]*"INVALID_REQUEST"/);
      assert.match(await exchange("GET /healthz HTTP/1.1\r\n\r\n"), /^HTTP\/1\.1 400 /);
      const large = `GET /healthz HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(17_000)}\r\n\r\n`;
      assert.match(await exchange(large), /^HTTP\/1\.1 431 /);
    });

    it("sees every header of a request, however many there are", async () => {
      let proxied = false;
      http.serve(
        new Map([
          [
            "/ws",
            (request, socket) => {
              proxied = request.headers["x-forwarded-for"] !== undefined;
              socket.destroy();
            },
          ],
        ]),
      );
      const client = await RawClient.open(http.port);
      client.socket.write(shortHeaders(http.port, 2_500));
      await client.all();
      assert.isTrue(proxied);
    });

    it("outlives a peer that resets its connection in the middle of an upgrade", async () => {
      http.serve(new Map([["/ws", (_request, socket) => void socket.resume()]]));
      const client = await RawClient.open(http.port);
      client.socket.write(upgradeRequest(http.port, "/ws"));
      client.socket.write("x");
      client.socket.resetAndDestroy();
      await client.ended;
      assert.equal((await get("/healthz")).status, 200);
    });
  });

  it("answers a request head that does not come in time with 408", async () => {
    const { log } = logLines();
    const limits = { headMs: 50, requestMs: 50, checkMs: 20 };
    const hasty = await listenHttp({ host: "127.0.0.1", port: 0, clock: systemClock, log, limits });
    try {
      const begun = await RawClient.open(hasty.port);
      begun.socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n");
      assert.match(await begun.all(), /^HTTP\/1\.1 408 [\s\S]*"TIMEOUT"/);
      const silent = await RawClient.open(hasty.port);
      await silent.ended;
    } finally {
      await hasty.close(0);
    }
  });

  it("turns away who comes when its connections are at their limit, and serves again afterwards", async () => {
    const { log, text } = logLines();
    const limits = { connections: 2 };
    const small = await listenHttp({ host: "127.0.0.1", port: 0, clock: systemClock, log, limits });
    try {
      const first = await RawClient.open(small.port);
      const second = await RawClient.open(small.port);
      const third = await RawClient.open(small.port);
      await third.ended;
      assert.equal(third.received, "");
      assert.include(text(), "connection limit reached");
      first.socket.destroy();
      second.socket.end("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      assert.match(await second.all(), /^HTTP\/1\.1 503 /);
    } finally {
      await small.close(0);
    }
  });

  it("says in one line that a port is in use", async () => {
    const { log } = logLines();
    const taken = await refusalOf(() =>
      listenHttp({ host: "127.0.0.1", port: http.port, clock: systemClock, log }),
    );
    assert.equal(taken.code, "port_in_use");
    assert.match(
      taken.message,
      new RegExp(`^Port ${http.port} is already in use on 127\\.0\\.0\\.1; .*--port$`),
    );
  });

  it("says in one line that an address can not be listened on", async () => {
    const { log } = logLines();
    // TEST-NET-1 (RFC 5737) is nobody's address.
    const refused = await refusalOf(() =>
      listenHttp({ host: "192.0.2.1", port: 0, clock: systemClock, log }),
    );
    assert.equal(refused.code, "listen_refused");
    assert.match(refused.message, /EADDRNOTAVAIL.*--host/);
  });

  it("leaves no socket and frees its port when it closes", async () => {
    http.serve(new Map([["/ws", () => {}]]));
    const plain = await RawClient.open(http.port);
    const upgrade = await RawClient.open(http.port);
    upgrade.socket.write(upgradeRequest(http.port, "/ws"));
    await http.close(0);
    await Promise.all([plain.ended, upgrade.ended]);
    const again = createServer().listen(http.port, "127.0.0.1");
    await once(again, "listening");
    again.close();
    await once(again, "close");
  });
});

/** An upgrade with so many one-byte headers before the one that names the proxy's client. */
function shortHeaders(port: number, count: number): string {
  const lines = upgradeRequest(port, "/ws").trimEnd().split("\r\n");
  return [...lines, ...Array<string>(count).fill("a:"), "X-Forwarded-For: 192.0.2.1", "", ""].join(
    "\r\n",
  );
}
