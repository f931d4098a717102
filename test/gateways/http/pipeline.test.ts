import { once } from "node:events";
import { assert } from "chai";
import { type HttpServer, listenHttp } from "../../../gateways/http/server.ts";
import { systemClock } from "../../../host/clock.ts";
import { logLines } from "../../support/log-lines.ts";
import { RawClient } from "../../support/ws-client.ts";

describe("a client that does not wait for its answers", () => {
  let http: HttpServer;

  beforeEach(async () => {
    const { log } = logLines();
    http = await listenHttp({ host: "127.0.0.1", port: 0, clock: systemClock, log });
    http.serve(
      new Map([["/ws", (_request, socket) => void socket.end("HTTP/1.1 101 Taken over\r\n\r\n")]]),
    );
  });
  afterEach(() => http.close(0));

  const exchange = async (bytes: string): Promise<string> => {
    const client = await RawClient.open(http.port);
    client.socket.write(bytes);
    return client.all();
  };

  it("is answered 16 requests that come in one piece, in their order, and cut with one more", async () => {
    const one = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
    const last = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    const paths = Array.from({ length: 15 }, (_, n) => (n % 2 === 0 ? "/v1/x" : "/x"));
    const answers = await exchange(`${paths.map(one).join("")}${last}`);
    const statuses = [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    assert.deepEqual(statuses, [...paths.map((path) => (path === "/x" ? "404" : "401")), "200"]);
    assert.equal(await exchange(one("/x").repeat(17)), "");
    const client = await RawClient.open(http.port);
    // Not at once, but one after the other, there may be as many as one likes.
    for (let n = 1; n <= 40; n += 1) {
      client.socket.write(one("/healthz"));
      while (client.received.split('{"ok":true}').length <= n) await once(client.socket, "data");
    }
    client.socket.destroy();
  });

  it("is told in their turn of what is no request: nobody takes that for his answer", async () => {
    const [probe, guarded] = ["/healthz", "/v1/x"].map(
      (path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`,
    );
    const upgrade = (path: string, to: string): string =>
      `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${to}\r\n\r\n`;
    const endings = [
      ["CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "501"],
      ["nonsense\r\n\r\n", "400"],
      ["nonsense\r\n\r\n".repeat(1_000), "400"],
      [upgrade("/ws", "websocket"), "101"],
      [upgrade("/x", "websocket"), "404"],
      [upgrade("/healthz", "h2c"), "200"],
    ] as const;
    for (const [ending, status] of endings) {
      const answers = await exchange(`${probe}${guarded}${probe}${ending}`);
      const statuses = [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, each]) => each);
      assert.deepEqual(statuses, ["200", "401", "200", status], ending.slice(0, 60));
    }
  });

  it("whose own body can not be read hears of that", async () => {
    const body = "POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    assert.match(await exchange(body), /^HTTP\/1\.1 4\d\d /);
  });
});
