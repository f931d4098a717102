import { assert } from "chai";
import fc from "fast-check";
import type { Authenticate, Identity } from "../../../actors/session/handler.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { EVENTS } from "../../../protocol/events.ts";
import type { NodeId } from "../../../protocol/ids.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { OPERATOR_TOKEN, type TestGateway, testGateway } from "../../support/gateway.ts";
import { operator, RawClient, WsClient } from "../../support/ws-client.ts";

const NODE: Identity = {
  role: "node",
  clientId: "0b0e2b0e-node",
  node: { nodeId: "0b0e2b0e-node" as NodeId, sessionGeneration: 1 },
};
const SESSION_TOKEN = "session-token-of-a-node";

describe("the handshake", () => {
  let gateway: TestGateway;

  beforeEach(async () => {
    gateway = await testGateway({
      sessionTokens: { identify: async (token) => (token === SESSION_TOKEN ? NODE : null) },
    });
  });
  afterEach(() => gateway.close());

  it("is silent until the client speaks, and answers connect with hello-ok, which has no id", async () => {
    const client = await WsClient.open(gateway.url);
    const hello = await client.call(
      "connect",
      operator({ client: { id: "console", version: "9" } }),
    );
    const connId = Object(hello["server"]).connId;
    assert.match(connId, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.deepEqual(hello, {
      type: "hello-ok",
      protocol: 1,
      server: { version: "2026.1.0", commit: null, host: "test-host", connId },
      features: { methods: ["health", "status", "supervision.tree"], events: EVENTS },
      snapshot: { presence: {}, health: { ok: true } },
      policy: { maxPayload: 4_194_304, maxBufferedBytes: 8_388_608, tickIntervalMs: 15_000 },
      auth: {
        role: "operator",
        scopes: ["admin", "read", "write", "approvals", "pairing"],
        clientId: "console",
      },
    });
    assert.deepEqual(client.unread, []);
    await client.close();
  });

  it("leaves clientId out when there is none, bounds a long one, and lets none write over a terminal", async () => {
    for (const [given, shown] of [
      [undefined, undefined],
      [7, undefined],
      ["", ""],
      ["x".repeat(1_000), "x".repeat(256)],
      ["a\n\u001b[2Jb\u0085\u2028\u202ec\u007f", "a\ufffd\ufffd[2Jb\ufffd\ufffd\ufffdc\ufffd"],
      ["Zoë's phone 📱 / 2", "Zoë's phone 📱 / 2"],
    ]) {
      const client = await WsClient.open(gateway.url);
      const hello = await client.call("connect", operator({ client: { id: given } }));
      assert.equal(Object(hello["auth"]).clientId, shown);
      await client.close();
    }
  });

  it("takes the role and the id of a node from its session token, and ignores the scopes asked for", async () => {
    for (const more of [
      {},
      { role: "operator" },
      { role: "node" },
      { scopes: ["operator.read"] },
    ]) {
      const client = await WsClient.open(gateway.url);
      const hello = await client.call("connect", {
        auth: { token: SESSION_TOKEN },
        client: { id: "another name" },
        ...more,
      });
      assert.deepEqual(hello["auth"], {
        role: "node",
        scopes: ["invoke", "event"],
        clientId: NODE.clientId,
      });
      await client.close();
    }
  });

  it("narrows an operator's scopes by their long and short names; what it does not know it drops", async () => {
    const cases: readonly (readonly [unknown, readonly string[]])[] = [
      [["operator.read"], ["read"]],
      [
        ["write", "admin", "read"],
        ["admin", "read", "write"],
      ],
      [
        ["operator.pairing", "operator.approvals", "x", 7, null],
        ["approvals", "pairing"],
      ],
      // Only three have bare names; a node's scopes are no operator's.
      [["pairing", "approvals", "node.invoke", "invoke"], []],
      [[], []],
      ["operator.read", ["admin", "read", "write", "approvals", "pairing"]],
      [null, ["admin", "read", "write", "approvals", "pairing"]],
    ];
    for (const [scopes, granted] of cases) {
      const client = await WsClient.open(gateway.url);
      const hello = await client.call("connect", operator({ scopes }));
      assert.deepEqual(Object(hello["auth"]).scopes, granted);
      await client.close();
    }
  });

  it("answers a refused connect with res under its id, keeps the socket, and takes another", async () => {
    const client = await WsClient.open(gateway.url);
    client.request("connect", {}, "first");
    assert.deepEqual(await client.next(), {
      type: "res",
      id: "first",
      ok: false,
      error: {
        code: "UNAUTHORIZED",
        message: "Operator token is required",
        details: { code: "unauthorized", retrySafe: false },
      },
    });
    assert.equal(
      (await client.call("connect", { auth: { token: "x" } })).error?.message,
      "Invalid token",
    );
    assert.equal((await client.call("connect", operator()))["type"], "hello-ok");
    assert.equal((await client.call("health")).ok, true);
    await client.close();
  });

  it("wants a connect before anything else, known or not, and keeps the socket", async () => {
    const client = await WsClient.open(gateway.url);
    for (const method of ["health", "no.such.method", "", "Connect"]) {
      client.request(method, { auth: { token: OPERATOR_TOKEN } }, "id");
      const answer = await client.next();
      assert.equal(answer.id, "id");
      assert.equal(answer.error?.code, "HANDSHAKE_REQUIRED");
      assert.equal(answer.error?.message, "Must send connect request first");
    }
    assert.equal((await client.call("connect", operator()))["type"], "hello-ok");
    await client.close();
  });

  it("happens once: another connect is answered, and changes nothing", async () => {
    const client = await WsClient.connect(gateway.url, operator({ scopes: ["read"] }));
    for (const params of [operator(), {}, { auth: { token: "x" } }]) {
      const again = await client.call("connect", params);
      assert.equal(again.error?.code, "ALREADY_CONNECTED");
      assert.equal(again.error?.message, "Connection already established");
    }
    assert.equal((await client.call("status")).ok, true);
    assert.equal(gateway.roster.counts().active, 1);
    await client.close();
  });

  it("refuses params that are no object, and takes anything else for what can not be used", async () => {
    const client = await WsClient.open(gateway.url);
    for (const [params, got] of [
      [[], "list"],
      ["x", "string"],
      [7, "integer"],
      [true, "boolean"],
    ] as const) {
      const { error } = await client.call("connect", params);
      assert.equal(error?.code, "INVALID_REQUEST");
      assert.equal(error?.message, `Type errors: params: expected map, got ${got}`);
    }
    const odd = [
      undefined,
      null,
      {},
      { auth: OPERATOR_TOKEN },
      { auth: [OPERATOR_TOKEN] },
      { auth: { token: [OPERATOR_TOKEN] } },
      { auth: { token: { toString: OPERATOR_TOKEN } } },
      { auth: null, client: null, role: null, scopes: null },
    ];
    for (const params of odd) {
      const refused = await client.call("connect", params);
      assert.equal(refused.error?.message, "Operator token is required");
    }
    await client.close();
  });

  it("takes a token from auth.token and from nowhere else", async () => {
    const elsewhere = await WsClient.open(`${gateway.url}?token=${OPERATOR_TOKEN}`, {
      headers: { Authorization: `Bearer ${OPERATOR_TOKEN}`, "X-Api-Key": OPERATOR_TOKEN },
      protocol: OPERATOR_TOKEN,
    });
    assert.equal(elsewhere.socket.protocol, "");
    for (const params of [
      { token: OPERATOR_TOKEN },
      { auth: { operatorToken: OPERATOR_TOKEN } },
      { client: { token: OPERATOR_TOKEN } },
    ]) {
      const refused = await elsewhere.call("connect", params);
      assert.equal(refused.error?.message, "Operator token is required");
    }
    elsewhere.send(
      `{"type":"req","id":"1","method":"connect","params":{"__proto__":{"auth":{"token":"${OPERATOR_TOKEN}"}}}}`,
    );
    assert.equal((await elsewhere.next()).error?.message, "Operator token is required");
    await elsewhere.close();
  });

  it("never writes a token to the log, wherever it stood", async () => {
    const wrong = "wrong-token-0123456789abcdefghijklm";
    for (const token of [OPERATOR_TOKEN, SESSION_TOKEN, wrong]) {
      const client = await WsClient.open(`${gateway.url}?token=${token}`, {
        headers: { Authorization: `Bearer ${token}`, Cookie: token },
      });
      client.send(token);
      client.send({ type: "req", id: token, method: token, params: { token } });
      client.send({
        type: "req",
        id: "1",
        method: "connect",
        params: { auth: { token }, client: { id: token } },
      });
      await client.take(3);
      client.send({ type: "req", id: token, method: token, params: { token } });
      client.send({ type: token });
      client.send(Buffer.from(token));
      await client.take(3);
      await client.close();
    }
    const raw = await RawClient.open(gateway.port);
    raw.socket.write(
      `GET /ws?token=${OPERATOR_TOKEN} HTTP/1.1\r\nAuthorization: ${OPERATOR_TOKEN}\r\n\r\n`,
    );
    await raw.ended;
    const written = gateway.text();
    assert.include(written, "connect refused");
    for (const token of [OPERATOR_TOKEN, SESSION_TOKEN, wrong]) assert.notInclude(written, token);
  });

  it("survives any params at all", async () => {
    const client = await WsClient.open(gateway.url);
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.jsonValue(),
          fc.record({
            role: fc.jsonValue(),
            scopes: fc.oneof(fc.jsonValue(), fc.array(fc.jsonValue())),
            auth: fc.oneof(fc.jsonValue(), fc.record({ token: fc.jsonValue() })),
            client: fc.oneof(fc.jsonValue(), fc.record({ id: fc.jsonValue() })),
          }),
        ),
        async (params) => {
          const answer = await client.call("connect", params);
          assert.include(["UNAUTHORIZED", "INVALID_REQUEST"], answer.error?.code);
        },
      ),
      { numRuns: 200 },
    );
    assert.equal((await client.call("connect", operator()))["type"], "hello-ok");
    await client.close();
  });
});

describe("a handshake whose authentication takes its time", () => {
  const OPERATOR: Identity = { role: "operator", clientId: null, node: null };

  async function withPending(
    check: (
      client: WsClient,
      settle: PromiseWithResolvers<Identity>,
      gateway: TestGateway,
    ) => Promise<void>,
  ): Promise<void> {
    const settle = Promise.withResolvers<Identity>();
    const asked = Promise.withResolvers<void>();
    const authenticate: Authenticate = () => {
      asked.resolve();
      return settle.promise;
    };
    const gateway = await testGateway({ authenticate });
    try {
      const client = await WsClient.open(gateway.url);
      client.request("connect", {}, "pending");
      await asked.promise;
      await check(client, settle, gateway);
    } finally {
      await gateway.close();
    }
  }

  it("refuses a second connect meanwhile, and anything else", () =>
    withPending(async (client, settle) => {
      assert.equal((await client.call("connect", operator())).error?.code, "ALREADY_CONNECTED");
      assert.equal((await client.call("health")).error?.code, "HANDSHAKE_REQUIRED");
      settle.resolve(OPERATOR);
      assert.equal((await client.next())["type"], "hello-ok");
    }));

  it("may be tried again after a failure that is nobody's fault, which tells nothing of itself", () =>
    withPending(async (client, settle, gateway) => {
      settle.reject(new Error("s3cr3t of the store"));
      const failed = await client.next();
      assert.equal(failed.id, "pending");
      assert.equal(failed.error?.code, "INTERNAL_ERROR");
      assert.notInclude(JSON.stringify(failed), "s3cr3t");
      assert.notInclude(gateway.text(), "s3cr3t");
      assert.equal((await client.call("connect", {})).error?.code, "INTERNAL_ERROR");
    }));

  it("answers with the failure's own code when it has one", () =>
    withPending(async (client, settle) => {
      settle.reject(new LemonError("deadline_exceeded"));
      assert.equal((await client.next()).error?.details?.["code"], "deadline_exceeded");
    }));

  it("is over after 10 s all the same", async () => {
    const clock = new FakeClock();
    const authenticate = (): Promise<never> => new Promise(() => {});
    const gateway = await testGateway({ authenticate, clock });
    try {
      const client = await WsClient.open(gateway.url);
      client.request("connect", operator());
      assert.equal((await client.call("health")).error?.code, "HANDSHAKE_REQUIRED");
      await clock.advance(10_000);
      assert.deepEqual(await client.closed(), { code: 1008, reason: "handshake timeout" });
    } finally {
      await gateway.close();
    }
  });

  it("admits nobody whose socket is gone by then", () =>
    withPending(async (client, settle, gateway) => {
      await client.close();
      settle.resolve(OPERATOR);
      await settle.promise;
      assert.equal(gateway.roster.counts().active, 0);
    }));
});

describe("the log of refused peers", () => {
  it("has a line for each reason now and then, with how many they were", async () => {
    const clock = new FakeClock();
    const gateway = await testGateway({ clock });
    try {
      const client = await WsClient.open(gateway.url);
      for (let attempt = 0; attempt < 5; attempt += 1) await client.call("connect", {});
      for (let peer = 0; peer < 20; peer += 1) {
        const stranger = await WsClient.open(gateway.url);
        await stranger.call("connect", { auth: { token: "guess" } });
        await stranger.close();
      }
      const told = () =>
        gateway.lines
          .filter((line) => line["msg"] === "connect refused")
          .map(({ code, reason, times }) => ({ code, reason, times }));
      const code = "unauthorized";
      const first = [
        { code, reason: "Operator token is required", times: 1 },
        { code, reason: "Invalid token", times: 1 },
      ];
      assert.deepEqual(told(), first);
      await clock.advance(10_000);
      assert.deepEqual(told().slice(2), [
        { code, reason: "Operator token is required", times: 4 },
        { code, reason: "Invalid token", times: 19 },
      ]);
    } finally {
      await gateway.close();
    }
  });
});

describe("the time for a handshake", () => {
  it("is 10 s from the upgrade: then 1008, also for who tried and failed", async () => {
    const clock = new FakeClock();
    const gateway = await testGateway({ clock });
    try {
      const silent = await WsClient.open(gateway.url);
      const failing = await WsClient.open(gateway.url);
      const admitted = await WsClient.connect(gateway.url);
      await clock.advance(9_999);
      assert.equal((await failing.call("connect", {})).error?.code, "UNAUTHORIZED");
      await clock.advance(1);
      const end = { code: 1008, reason: "handshake timeout" };
      assert.deepEqual(await silent.closed(), end);
      assert.deepEqual(await failing.closed(), end);
      assert.equal((await admitted.call("health")).ok, true);
      await admitted.close();
    } finally {
      await gateway.close();
    }
  });
});
