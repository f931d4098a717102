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
    http.serve(new Map());
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
});
