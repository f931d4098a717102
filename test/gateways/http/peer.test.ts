import { assert } from "chai";
import { type TestGatewayOptions, testGateway } from "../../support/gateway.ts";
import { WsClient } from "../../support/ws-client.ts";

describe("the loopback opt-in", () => {
  const admitted = async (
    headers: Record<string, string>,
    allowUnauthenticatedLoopback = true,
    door: Pick<TestGatewayOptions, "allowedOrigins" | "trustedProxies"> = {},
  ) => {
    const gateway = await testGateway({ allowUnauthenticatedLoopback, ...door });
    try {
      const client = await WsClient.open(gateway.url, { headers });
      const answer = await client.call("connect", {});
      await client.close();
      return answer["type"] === "hello-ok";
    } finally {
      await gateway.close();
    }
  };

  it("lets a program on this machine in without a token", async () => {
    assert.isTrue(await admitted({}));
  });

  it("is off unless it was asked for", async () => {
    assert.isFalse(await admitted({}, false));
  });

  it("is void for a page that another program on this machine served", async () => {
    for (const origin of [
      "http://localhost:4080",
      "https://localhost",
      "http://127.0.0.1:5173",
      "http://[::1]:80",
      "null",
    ]) {
      const headers =
        origin === "null" ? { "Sec-WebSocket-Origin": "http://localhost" } : { origin };
      assert.isFalse(await admitted(headers), origin);
    }
  });

  it("lets a page in that the operator named, if this machine served it", async () => {
    const allowedOrigins = ["http://localhost:4080", "http://[::1]"];
    for (const [origin, isIn] of [
      ["http://localhost:4080", true],
      ["http://[::1]:80", true],
      ["http://localhost:4081", false],
      ["https://localhost:4080", false],
      ["http://127.0.0.1:4080", false],
    ] as const) {
      assert.equal(await admitted({ origin }, true, { allowedOrigins }), isIn, origin);
      assert.equal(await admitted({ origin }, false, { allowedOrigins }), false, origin);
    }
    const [origin, foreign] = ["http://localhost:4080", "http://localhost:4081"];
    const both = { origin, "sec-websocket-origin": foreign };
    assert.isFalse(await admitted(both, true, { allowedOrigins }));
  });

  it("lets the controller's own pages in, by the address they were asked for", async () => {
    const gateway = await testGateway({ allowUnauthenticatedLoopback: true });
    try {
      const greeted = async (headers: Record<string, string>) => {
        const client = await WsClient.open(gateway.url, { headers });
        const { type } = await client.call("connect", {});
        await client.close();
        return type === "hello-ok";
      };
      const { port } = gateway;
      assert.isTrue(await greeted({ origin: `http://127.0.0.1:${port}` }));
      const host = `localhost:${port}`;
      assert.isTrue(await greeted({ host, origin: `http://${host}` }));
      assert.isFalse(await greeted({ host, origin: `https://${host}` }));
      assert.isFalse(await greeted({ origin: `http://${host}` }));
    } finally {
      await gateway.close();
    }
  });

  it("is void for a page that the operator let in from elsewhere", async () => {
    const allowedOrigins = ["https://app.example"];
    const origin = "https://app.example";
    assert.isFalse(await admitted({ origin }, true, { allowedOrigins }));
    assert.isFalse(await admitted({ "sec-websocket-origin": origin }, true, { allowedOrigins }));
  });

  it("is void for everything that comes from a trusted proxy's address", async () => {
    const trustedProxies = [{ address: "127.0.0.1", prefix: 32 }];
    assert.isFalse(await admitted({}, true, { trustedProxies }));
    assert.isFalse(await admitted({ "X-Forwarded-For": "127.0.0.1" }, true, { trustedProxies }));
  });

  it("is void for a request that came through a proxy", async () => {
    const names = [
      "Forwarded",
      "X-Forwarded-For",
      "X-Forwarded-Proto",
      "X-Forwarded-Anything",
      "Via",
      "X-Real-IP",
      "CF-Connecting-IP",
    ];
    for (const name of names) assert.isFalse(await admitted({ [name]: "127.0.0.1" }), name);
  });
});
