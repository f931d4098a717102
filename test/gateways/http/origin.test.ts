import { assert } from "chai";
import { parseOrigin } from "../../../gateways/http/origin.ts";
import { type TestGateway, type TestGatewayOptions, testGateway } from "../../support/gateway.ts";
import { operator, RawClient, upgradeRequest, WsClient } from "../../support/ws-client.ts";

const PROXY = { trustedProxies: [{ address: "127.0.0.1", prefix: 32 }] };

describe("an origin", () => {
  it("has one spelling, and is no wildcard, path or opaque one", () => {
    const spellings: readonly [string, string | null][] = [
      ["https://App.Example:443", "https://app.example"],
      ["http://app.example:8080", "http://app.example:8080"],
      ["https://app.example/", "https://app.example"],
      ["http://[::1]:80", "http://[::1]"],
      ["chrome-extension://abc", "chrome-extension://abc"],
      ["null", null],
      ["file://", null],
      ["*", null],
      ["https://*.example", null],
      ["https://app.example/x", null],
      ["https://app.example?x", null],
      ["https://user@app.example", null],
      ["https://a.example, https://b.example", null],
      ["app.example", null],
      ["", null],
    ];
    for (const [text, origin] of spellings) assert.equal(parseOrigin(text), origin, text);
  });
});

describe("a page that opens a socket", () => {
  const open = async (
    headers: Record<string, string>,
    door: TestGatewayOptions = {},
    path = "/ws",
  ) => {
    const gateway = await testGateway(door);
    try {
      return await statusOf(gateway, headers, path);
    } finally {
      await gateway.close();
    }
  };
  const statusOf = async (gateway: TestGateway, headers: Record<string, string>, path = "/ws") => {
    const raw = await RawClient.open(gateway.port);
    raw.socket.write(upgradeRequest(gateway.port, path, headers));
    const answer = await raw.until("\r\n\r\n");
    raw.socket.destroy();
    return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
  };

  it("may when it says of no page, as programs do", async () => {
    assert.equal(await open({}), 101);
  });

  it("may when this machine served it to itself, under a name that no other can have", async () => {
    for (const Origin of [
      "http://localhost:4080",
      "https://localhost",
      "http://127.0.0.1:5173",
      "http://[::1]:80",
    ]) {
      assert.equal(await open({ Origin }), 101, Origin);
    }
  });

  it("may not when it is of any other origin: 403 in the envelope, on every path, without a word of it", async () => {
    const gateway = await testGateway();
    try {
      for (const origin of [
        "http://evil.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "null",
        "file://",
        "chrome-extension://abc",
        "localhost",
        "",
      ]) {
        for (const name of ["Origin", "Sec-WebSocket-Origin"]) {
          assert.equal(await statusOf(gateway, { [name]: origin }), 403, origin);
        }
      }
      const raw = await RawClient.open(gateway.port);
      raw.socket.write(
        upgradeRequest(gateway.port, "/leafnode", { Origin: "http://evil.example" }),
      );
      const answer = await raw.all();
      assert.match(answer, /^HTTP\/1\.1 403 Forbidden\r\n/);
      assert.match(
        answer,
        /\r\n\r\n\{"error":\{"code":"FORBIDDEN","message":"[^"]*--allowed-origin[^"]*"\}\}$/,
      );
      assert.notInclude(answer, "evil");
      assert.lengthOf(gateway.leafUpgrades, 0);
      assert.equal(gateway.connections(), 0);
    } finally {
      await gateway.close();
    }
  });

  it("may when the operator lets it, by its exact origin; and it still needs a token", async () => {
    const door = { allowedOrigins: ["https://app.example", "http://app.example:8080"] };
    const gateway = await testGateway(door);
    try {
      assert.equal(await statusOf(gateway, { Origin: "https://app.example" }), 101);
      assert.equal(await statusOf(gateway, { Origin: "https://APP.example:443" }), 101);
      assert.equal(await statusOf(gateway, { Origin: "http://app.example:8080" }), 101);
      assert.equal(await statusOf(gateway, { Origin: "http://app.example" }), 403);
      assert.equal(await statusOf(gateway, { Origin: "https://app.example:8080" }), 403);
      assert.equal(await statusOf(gateway, { Origin: "https://x.app.example" }), 403);
      const both = {
        Origin: "https://app.example",
        "Sec-WebSocket-Origin": "https://evil.example",
      };
      assert.equal(await statusOf(gateway, both), 403);
      const page = await WsClient.open(gateway.url, { headers: { origin: "https://app.example" } });
      assert.equal((await page.call("connect", {})).error?.code, "UNAUTHORIZED");
      assert.equal((await page.call("connect", operator()))["type"], "hello-ok");
    } finally {
      await gateway.close();
    }
  });

  it("may when the controller itself served it, by an address that no name can stand for", async () => {
    const door = { ...PROXY };
    // The caller is elsewhere, so that its own pages are not this machine's.
    const from = { "X-Forwarded-For": "203.0.113.5" };
    const own = { Host: "192.0.2.9:4040", Origin: "http://192.0.2.9:4040" };
    assert.equal(await open({ ...from, ...own }, door), 101);
    assert.equal(
      await open({ ...from, Host: "[2001:db8::9]", Origin: "http://[2001:db8::9]" }, door),
      101,
    );
    assert.equal(await open({ ...from, ...own, Origin: "http://192.0.2.9:4041" }, door), 403);
    assert.equal(await open({ ...from, ...own, Origin: "https://192.0.2.9:4040" }, door), 403);
    assert.equal(await open({ ...from, Origin: "http://localhost:4080" }, door), 403);
  });

  it("may not by a plain name, though it is the one in Host: whoever owns it can point it here", async () => {
    const rebound = { Host: "evil.example:4040", Origin: "http://evil.example:4040" };
    assert.equal(await open(rebound), 403);
    assert.equal(await open({ ...rebound, "X-Forwarded-For": "203.0.113.5" }, PROXY), 403);
  });

  it("may by the name that TLS proved, to us or to a trusted proxy", async () => {
    const own = { Host: "controller.example", Origin: "https://controller.example" };
    const proxied = { ...own, "X-Forwarded-For": "203.0.113.5" };
    assert.equal(await open({ ...proxied, "X-Forwarded-Proto": "https" }, PROXY), 101);
    assert.equal(await open({ ...proxied, "X-Forwarded-Proto": "http" }, PROXY), 403);
    assert.equal(await open({ ...proxied, "X-Forwarded-Proto": "https" }), 403);
  });
});

describe("a caller behind a trusted proxy", () => {
  it("is known and counted by its own address", async () => {
    const addresses: string[] = [];
    const gateway = await testGateway({
      ...PROXY,
      httpLimits: { perAddress: 2 },
      authenticate: async ({ remoteAddress, clientId }) => {
        addresses.push(remoteAddress);
        return { role: "operator", clientId, node: null };
      },
    });
    const from = (list: string) =>
      WsClient.open(gateway.url, { headers: { "X-Forwarded-For": list } });
    try {
      const first = await from("203.0.113.5");
      const second = await from("9.9.9.9, 203.0.113.5");
      await first.call("connect", {});
      await second.call("connect", {});
      assert.deepEqual(addresses, ["203.0.113.5", "203.0.113.5"]);
      const refused = await from("203.0.113.5").then(
        () => "opened",
        (failure: Error) => failure.message,
      );
      assert.include(refused, "429");
      assert.include(gateway.text(), "connection limit of one address reached");
      const other = await from("203.0.113.6");
      await first.close();
      const again = await from("203.0.113.5");
      for (const client of [second, other, again]) await client.close();
    } finally {
      await gateway.close();
    }
  });

  it("is refused with 400 when the proxy's headers contradict each other", async () => {
    const gateway = await testGateway(PROXY);
    try {
      const raw = await RawClient.open(gateway.port);
      const headers = { "X-Forwarded-For": "203.0.113.5", Forwarded: "for=203.0.113.6" };
      raw.socket.write(upgradeRequest(gateway.port, "/ws", headers));
      assert.match(await raw.all(), /^HTTP\/1\.1 400 [\s\S]*"INVALID_REQUEST"/);
    } finally {
      await gateway.close();
    }
  });

  it("is not believed of by anybody else", async () => {
    const addresses: string[] = [];
    const gateway = await testGateway({
      trustedProxies: [{ address: "127.0.0.2", prefix: 32 }],
      authenticate: async ({ remoteAddress, clientId }) => {
        addresses.push(remoteAddress);
        return { role: "operator", clientId, node: null };
      },
    });
    try {
      const headers = { "X-Forwarded-For": "203.0.113.5", Forwarded: "for=203.0.113.6" };
      const client = await WsClient.open(gateway.url, { headers });
      await client.call("connect", {});
      assert.deepEqual(addresses, ["127.0.0.1"]);
      await client.close();
    } finally {
      await gateway.close();
    }
  });
});
