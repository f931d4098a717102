import { assert } from "chai";
import fc from "fast-check";
import type { Identity, MethodHandlers } from "../../../actors/session/handler.ts";
import { MAX_IN_FLIGHT } from "../../../actors/session/requests.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { POLICY } from "../../../protocol/frames.ts";
import type { NodeId } from "../../../protocol/ids.ts";
import { METHODS } from "../../../protocol/methods.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { type Frame, operator, WsClient } from "../../support/ws-client.ts";

const NODE: Identity = {
  role: "node",
  clientId: "n",
  node: { nodeId: "n" as NodeId, sessionGeneration: 1 },
};
const DEVICE: Identity = { role: "device", clientId: "d", node: null };

const RENAMED = { nodeId: "n", name: "x", renamed: true, summary: {} } as const;
const VERIFIED = { valid: true, status: "approved", summary: {} } as const;

async function within(
  handlers: Partial<MethodHandlers>,
  check: (client: WsClient, gateway: TestGateway) => Promise<void>,
  options: { params?: object; clock?: FakeClock } = {},
): Promise<void> {
  const gateway = await testGateway({
    handlers,
    sessionTokens: {
      identify: async (token) => (token === "node" ? NODE : token === "device" ? DEVICE : null),
    },
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });
  try {
    const client = await WsClient.connect(gateway.url, options.params ?? operator());
    await check(client, gateway);
  } finally {
    await gateway.close();
  }
}

const codes = (frame: Frame) => [frame.error?.code, frame.error?.details?.["code"]];

describe("a request", () => {
  it("is answered under its own id, whatever that is", () =>
    within({}, async (client) => {
      for (const id of [
        "",
        "1",
        "é😀",
        "\u0000",
        "x".repeat(4_096),
        "__proto__",
        "constructor",
        "unknown",
      ]) {
        client.request("health", undefined, id);
        const answer = await client.next();
        assert.equal(answer.id, id);
        assert.equal(answer.ok, true);
        assert.notProperty(answer, "error");
      }
    }));

  it("is given its parameters as declared, and its caller", () => {
    const seen: unknown[] = [];
    return within(
      {
        "node.rename": (params, caller) => {
          const { connectionId, closed, close, ...rest } = caller;
          assert.isFalse(closed.aborted);
          seen.push(params, rest, typeof connectionId, typeof close);
          return RENAMED;
        },
      },
      async (client) => {
        const answer = await client.call("node.rename", { nodeId: "n", name: " x ", extra: 1 });
        assert.deepEqual(answer.payload, RENAMED);
        assert.deepEqual(seen, [
          { nodeId: "n", name: "x" },
          {
            role: "operator",
            clientId: "c",
            node: null,
            scopes: ["admin", "read"],
            remoteAddress: "127.0.0.1",
          },
          "string",
          "function",
        ]);
      },
      { params: operator({ client: { id: "c" }, scopes: ["read", "admin"] }) },
    );
  });

  describe("is refused", () => {
    const handlers: Partial<MethodHandlers> = {
      "node.rename": () => RENAMED,
      "node.pair.verify": () => VERIFIED,
      "node.pair.list": () => ({ requests: [], summary: {} }),
      "node.link.open": () => {
        throw new LemonError("node_revoked");
      },
    };

    it("first as an unknown method: not served, not declared, or a member of every object", () =>
      within(handlers, async (client) => {
        for (const method of [
          "nope",
          "",
          "node.describe",
          "constructor",
          "__proto__",
          "toString",
          "HEALTH",
          "hello-ok",
        ]) {
          const answer = await client.call(method, { bad: true });
          assert.deepEqual(codes(answer), ["METHOD_NOT_FOUND", "method_not_found"]);
          assert.equal(answer.error?.message, `Unknown method: ${method}`);
        }
        const long = await client.call(`\u0007${"x".repeat(100_000)}`);
        assert.equal(long.error?.message, `Unknown method: ?${"x".repeat(127)}`);
      }));

    it("then for its parameters, also when it may not be called at all", () =>
      within(
        handlers,
        async (client) => {
          const missing = await client.call("node.rename", { nodeId: 5 });
          assert.deepEqual(codes(missing), ["INVALID_REQUEST", "invalid_params"]);
          assert.equal(missing.error?.message, "Missing required fields: name");
          const typed = await client.call("node.rename", { nodeId: 5, name: "x" });
          assert.equal(typed.error?.message, "Type errors: nodeId: expected string, got integer");
          for (const params of [[], "x", 1, true]) {
            assert.equal((await client.call("health", params)).error?.code, "INVALID_REQUEST");
          }
        },
        { params: operator({ scopes: [] }) },
      ));

    it("then for want of a scope", () =>
      within(
        handlers,
        async (client) => {
          const answer = await client.call("node.rename", { nodeId: "n", name: "x" });
          assert.deepEqual(codes(answer), ["FORBIDDEN", "forbidden"]);
          assert.equal(answer.error?.message, "Insufficient permissions for node.rename");
          assert.equal(answer.error?.details?.["mutationMayHaveApplied"], false);
          assert.equal((await client.call("status")).ok, true);
        },
        { params: operator({ scopes: ["read"] }) },
      ));

    it("or for want of the role", () =>
      within(handlers, async (client) => {
        const answer = await client.call("node.link.open", {
          linkKey: `U${"A".repeat(55)}`,
          sealKey: `X${"A".repeat(55)}`,
          serverName: "n",
          lemonVersion: "1",
          capabilities: {},
        });
        assert.deepEqual(codes(answer), ["FORBIDDEN", "forbidden"]);
        assert.equal(answer.error?.message, "Method node.link.open requires node role");
      }));

    it("and then by its handler, in the words of the table", () => {
      const failures: readonly (readonly [LemonError, string, object])[] = [
        [
          new LemonError("node_offline"),
          "UNAVAILABLE",
          { code: "node_offline", retrySafe: true, mutationMayHaveApplied: false },
        ],
        [
          new LemonError("timeout", { details: { processId: "p" } }),
          "TIMEOUT",
          { processId: "p", code: "timeout", retrySafe: false, mutationMayHaveApplied: true },
        ],
        [
          new LemonError("node_name_in_use", { retrySafe: true, mutationMayHaveApplied: true }),
          "CONFLICT",
          { code: "node_name_in_use", retrySafe: true, mutationMayHaveApplied: true },
        ],
      ];
      let failure: LemonError | undefined;
      return within(
        {
          "node.rename": () => {
            throw failure;
          },
        },
        async (client) => {
          for (const [error, code, details] of failures) {
            failure = error;
            const answer = await client.call("node.rename", { nodeId: "n", name: "x" });
            assert.deepEqual(answer.error, {
              code,
              message: error.message,
              details: { ...details },
            });
            assert.notProperty(answer, "payload");
          }
        },
      );
    });

    it("without a word of what happened when its handler fails unexpectedly", () => {
      let attempt = 0;
      const odd: readonly (() => unknown)[] = [
        () => {
          throw new Error("s3cr3t");
        },
        () => Promise.reject(new TypeError("s3cr3t")),
        () => Promise.reject("s3cr3t"),
        () => Promise.reject(undefined),
        () => ({ ...RENAMED, name: 5, secret: "s3cr3t" }),
        () => ({ ...RENAMED, summary: { big: 1n } }),
        () => undefined,
      ];
      return within(
        {
          // The declared type is not kept: this is about handlers that do not.
          "node.rename": (() => odd[attempt]?.()) as MethodHandlers["node.rename"],
        },
        async (client, gateway) => {
          for (attempt = 0; attempt < odd.length; attempt += 1) {
            const answer = await client.call("node.rename", { nodeId: "s3cr3t", name: "s3cr3t" });
            assert.deepEqual(answer.error, {
              code: "INTERNAL_ERROR",
              message: "Method execution failed",
              details: { code: "internal_error", retrySafe: false, mutationMayHaveApplied: true },
            });
          }
          assert.notInclude(gateway.text(), "s3cr3t");
          const logged = gateway.lines.filter(
            (line) => line["msg"] === "method failed unexpectedly",
          );
          assert.equal(logged.length, odd.length);
          assert.deepEqual(
            logged.map((line) => line["method"]),
            odd.map(() => "node.rename"),
          );
        },
      );
    });
  });

  it("needs any one of its method's scopes, of exactly the role and scopes the connection has", async () => {
    const called: string[] = [];
    const handlers = Object.fromEntries(
      [...METHODS.keys()].map((name) => [
        name,
        () => {
          called.push(name);
          throw new LemonError("unavailable");
        },
      ]),
    ) as Partial<MethodHandlers>;
    const callers: readonly (readonly [object, string, readonly string[]])[] = [
      [{ auth: { token: "node" } }, "node", ["invoke", "event"]],
      [{ auth: { token: "device" } }, "device", ["control"]],
      [operator({ scopes: [] }), "operator", []],
      ...["admin", "read", "write", "approvals", "pairing"].map(
        (scope) => [operator({ scopes: [`operator.${scope}`] }), "operator", [scope]] as const,
      ),
    ];
    for (const [params, role, scopes] of callers) {
      await within(
        handlers,
        async (client) => {
          for (const spec of METHODS.values()) {
            called.length = 0;
            const answer = await client.call(spec.name, PARAMS[spec.name] ?? {});
            const may =
              (spec.role === undefined || spec.role === role) &&
              (spec.scopes.length === 0 || spec.scopes.some((scope) => scopes.includes(scope)));
            const what = `${spec.name} by ${role} with ${scopes.join(" ")}: ${answer.error?.message}`;
            assert.equal(answer.error?.details?.["code"], may ? "unavailable" : "forbidden", what);
            assert.deepEqual(called, may ? [spec.name] : [], what);
          }
        },
        { params },
      );
    }
  });

  it("is validated at the edge for every method: nothing undeclared reaches a handler", async () => {
    const handlers = Object.fromEntries(
      [...METHODS.values()].map((spec) => [
        spec.name,
        (params: unknown) => {
          assert.isTrue(spec.params.safeParse(params).success);
          throw new LemonError("unavailable");
        },
      ]),
    ) as Partial<MethodHandlers>;
    await within(handlers, async (client) => {
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...METHODS.values()).chain((spec) => {
            const fields = Object.keys(spec.params.shape);
            const valid = PARAMS[spec.name] ?? {};
            const anything = fc.record(
              Object.fromEntries(
                fields.map((field) => [
                  field,
                  fc.oneof(fc.jsonValue(), fc.constant(Reflect.get(valid, field))),
                ]),
              ),
            );
            return fc.tuple(fc.constant(spec.name), fc.oneof(anything, fc.jsonValue()));
          }),
          async ([method, params]) => {
            const answer = await client.call(method, params);
            assert.include(
              [
                "unavailable",
                "invalid_params",
                "invalid_path",
                "invalid_base64",
                "too_large",
                "forbidden",
              ],
              answer.error?.details?.["code"],
            );
          },
        ),
        { numRuns: 300 },
      );
    });
  });
});

describe("requests on one connection", () => {
  it("do not wait for one another: a slow one delays none, and each answer finds its id", () => {
    const slow = Promise.withResolvers<void>();
    return within(
      {
        "node.rename": async () => {
          await slow.promise;
          return RENAMED;
        },
      },
      async (client) => {
        client.request("node.rename", { nodeId: "n", name: "x" }, "slow");
        client.request("health", {}, "quick");
        assert.equal((await client.next()).id, "quick");
        slow.resolve();
        const late = await client.next();
        assert.equal(late.id, "slow");
        assert.deepEqual(late.payload, RENAMED);
      },
    );
  });

  it("begin in the order in which they came", () => {
    const begun: string[] = [];
    return within(
      {
        "node.rename": async ({ name }) => {
          begun.push(name);
          await null;
          return RENAMED;
        },
      },
      async (client) => {
        const names = Array.from({ length: 100 }, (_, index) => String(index));
        for (const name of names) client.request("node.rename", { nodeId: "n", name });
        await client.take(names.length);
        assert.deepEqual(begun, names);
      },
    );
  });

  it("have ids of their own while in flight; an id is free again with its answer", () => {
    const calls: PromiseWithResolvers<void>[] = [];
    return within(
      {
        "node.rename": async () => {
          const call = Promise.withResolvers<void>();
          calls.push(call);
          await call.promise;
          return RENAMED;
        },
      },
      async (client) => {
        const params = { nodeId: "n", name: "x" };
        client.request("node.rename", params, "same");
        client.request("health", {}, "same");
        const refused = await client.next();
        assert.equal(refused.id, "same");
        assert.deepEqual(codes(refused), ["INVALID_REQUEST", "duplicate_request_id"]);
        assert.equal(calls.length, 1);
        calls[0]?.resolve();
        assert.equal((await client.next()).ok, true);
        client.request("node.rename", params, "same");
        assert.deepEqual(codes(await client.call("node.rename", { ...params, nodeId: 1 })), [
          "INVALID_REQUEST",
          "invalid_params",
        ]);
        calls[1]?.resolve();
        assert.equal((await client.next()).id, "same");
      },
    );
  });

  it("are 256 in flight at most; one more is refused and does nothing; health is answered all the same", () => {
    let begun = 0;
    const go = Promise.withResolvers<void>();
    return within(
      {
        "node.rename": async () => {
          begun += 1;
          await go.promise;
          return RENAMED;
        },
      },
      async (client) => {
        const params = { nodeId: "n", name: "x" };
        const sent = 300;
        for (let index = 0; index < sent; index += 1) {
          client.request("node.rename", params, String(index));
        }
        const refused = await client.take(sent - MAX_IN_FLIGHT);
        assert.deepEqual(
          refused.map((frame) => frame.id),
          Array.from({ length: sent - MAX_IN_FLIGHT }, (_, index) => String(MAX_IN_FLIGHT + index)),
        );
        for (const frame of refused) {
          assert.deepEqual(codes(frame), ["RATE_LIMITED", "too_many_requests_in_flight"]);
          assert.deepEqual(frame.error?.details, {
            code: "too_many_requests_in_flight",
            retrySafe: true,
            mutationMayHaveApplied: false,
          });
        }
        assert.equal(begun, MAX_IN_FLIGHT);
        assert.equal((await client.call("health")).ok, true);
        go.resolve();
        const answered = await client.take(MAX_IN_FLIGHT);
        assert.isTrue(answered.every((frame) => frame.ok === true));
        assert.equal(new Set(answered.map((frame) => frame.id)).size, MAX_IN_FLIGHT);
        client.request("node.rename", params, "again");
        assert.equal((await client.next()).ok, true);
      },
    );
  });

  it("are answered with a timeout when their handler forgot its own deadline", () => {
    const clock = new FakeClock();
    const never = new Promise<never>(() => {});
    return within(
      { "node.rename": () => never },
      async (client) => {
        client.request("node.rename", { nodeId: "n", name: "x" }, "lost");
        await client.call("health");
        await clock.advance(34_999);
        assert.deepEqual(client.unread, []);
        await clock.advance(1);
        const answer = await client.next();
        assert.equal(answer.id, "lost");
        assert.deepEqual(codes(answer), ["TIMEOUT", "timeout"]);
        assert.equal(answer.error?.details?.["mutationMayHaveApplied"], true);
      },
      { clock },
    );
  });

  it("get one answer each, also when a handler settles after its time", () => {
    const clock = new FakeClock();
    const late = Promise.withResolvers<typeof RENAMED>();
    return within(
      { "node.rename": () => late.promise },
      async (client) => {
        client.request("node.rename", { nodeId: "n", name: "x" }, "late");
        await client.call("health");
        await clock.advance(35_000);
        assert.equal((await client.next()).error?.code, "TIMEOUT");
        late.resolve(RENAMED);
        client.request("health", {}, "after");
        assert.equal((await client.next()).id, "after");
        assert.deepEqual(client.unread, []);
      },
      { clock },
    );
  });

  it("leave no timer behind, answered or not", () => {
    const clock = new FakeClock();
    const calls: PromiseWithResolvers<typeof RENAMED>[] = [];
    const params = { nodeId: "n", name: "x" };
    return within(
      {
        "node.rename": () => {
          const call = Promise.withResolvers<typeof RENAMED>();
          calls.push(call);
          return call.promise;
        },
        "node.remove": async (_params, caller) => {
          caller.close(4000, "");
          return { nodeId: "n", removed: true };
        },
      },
      async (client, gateway) => {
        const idle = clock.pending;
        for (let index = 0; index < 3; index += 1) client.request("node.rename", params);
        await client.call("health");
        assert.equal(clock.pending, idle + 3);
        calls[0]?.resolve(RENAMED);
        calls[1]?.reject(new LemonError("node_offline"));
        await client.take(2);
        assert.equal(clock.pending, idle + 1);
        // With one still in flight, and one that is begun as the connection ends.
        client.request("node.remove", { nodeId: "n" });
        await client.closed();
        while (gateway.connections() > 0) await settle();
        assert.equal(clock.pending, 0);
      },
      { clock },
    );
  });
});

describe("an answer", () => {
  const listOf = (text: string) => ({ nodes: [], summary: { text } });
  const LARGEST_TEXT =
    POLICY.maxPayload -
    JSON.stringify({ type: "res", id: "x", ok: true, payload: listOf("") }).length;

  it("may be as large as maxPayload, and not a byte larger; the socket is kept", () => {
    let text = "";
    return within(
      {
        "node.list": () => listOf(text),
        "node.rename": async () => ({ nodeId: "n", name: text, renamed: true, summary: {} }),
      },
      async (client) => {
        const ask = (method: string): Promise<Frame> => {
          client.request(method, { nodeId: "n", name: "m" }, "x");
          return client.next();
        };
        text = "A".repeat(LARGEST_TEXT);
        assert.equal(Object((await ask("node.list")).payload).summary.text, text);
        text = "A".repeat(LARGEST_TEXT + 1);
        const read = await ask("node.list");
        assert.deepEqual(codes(read), ["UNAVAILABLE", "response_too_large"]);
        assert.notProperty(read.error?.details ?? {}, "mutationMayHaveApplied");
        const mutation = await ask("node.rename");
        assert.deepEqual(codes(mutation), ["UNAVAILABLE", "response_too_large"]);
        assert.equal(mutation.error?.details?.["mutationMayHaveApplied"], true);
        assert.equal((await client.call("health")).ok, true);
      },
    );
  });

  it("is measured in bytes, not in characters", () => {
    let text = "";
    return within({ "node.list": () => listOf(text) }, async (client) => {
      const ask = (): Promise<Frame> => {
        client.request("node.list", {}, "x");
        return client.next();
      };
      const units = Math.floor(LARGEST_TEXT / 3);
      text = "€".repeat(units);
      assert.equal((await ask()).ok, true);
      text = "€".repeat(units + 1);
      assert.equal((await ask()).error?.details?.["code"], "response_too_large");
    });
  });
});

/** Parameters that pass, for every method that needs some. */
const PARAMS: Readonly<Record<string, object>> = {
  "config.patch": { patch: { a: 1 } },
  "config.set": { key: "a", value: 1 },
  "events.ingest": { eventType: "custom" },
  "connect.challenge": { challenge: "c" },
  "device.pair.approve": { pairingId: "p" },
  "device.pair.reject": { pairingId: "p" },
  "device.pair.request": { deviceType: "t", deviceName: "n" },
  "device.revoke": { deviceId: "d" },
  "node.describe": { nodeId: "n" },
  "node.host.info": { nodeId: "n" },
  "node.event": { eventType: "status" },
  "node.fs.delete": { nodeId: "n", path: "a", confirm: "a", confirmationToken: "t" },
  "node.fs.delete.preview": { nodeId: "n", path: "a" },
  "node.fs.list": { nodeId: "n", path: "a" },
  "node.fs.mkdir": { nodeId: "n", path: "a" },
  "node.fs.move": { nodeId: "n", path: "a", destination: "b", expectedModifiedAtMs: 1 },
  "node.fs.read": { nodeId: "n", path: "a" },
  "node.fs.stat": { nodeId: "n", path: "a" },
  "node.fs.write": { nodeId: "n", path: "a", dataBase64: "" },
  "node.invoke": { nodeId: "n", method: "m" },
  "node.invoke.result": { invokeId: "i" },
  "node.link.open": {
    linkKey: `U${"A".repeat(55)}`,
    sealKey: `X${"A".repeat(55)}`,
    serverName: "n",
    lemonVersion: "1",
    capabilities: {},
  },
  "node.pair.approve": { pairingId: "p" },
  "node.pair.reject": { pairingId: "p" },
  "node.pair.request": { nodeType: "t", nodeName: "n" },
  "node.pair.verify": { code: "1" },
  "node.process.cancel": { nodeId: "n", processId: "p" },
  "node.process.get": { nodeId: "n", processId: "p" },
  "node.process.run": {
    nodeId: "n",
    processId: "p",
    cwd: ".",
    argv: ["true"],
    stdinBase64: "",
    timeoutMs: 1_000,
    maxOutputBytes: 1,
  },
  "node.remove": { nodeId: "n" },
  "node.rename": { nodeId: "n", name: "x" },
  "node.revoke": { nodeId: "n" },
  "node.secrets.delete": { nodeId: "n", name: "s" },
  "node.secrets.list": { nodeId: "n" },
  "node.secrets.receipt": { nodeId: "n", operationId: "o" },
  "node.secrets.rotate": { nodeId: "n" },
  "node.secrets.set": { nodeId: "n", name: "s", value: "v" },
  "secrets.delete": { name: "s" },
  "secrets.exists": { name: "s" },
  "secrets.set": { name: "s", value: "v" },
};
