import { assert } from "chai";
import fc from "fast-check";
import type { MethodHandlers } from "../../../actors/session/handler.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { METHODS } from "../../../protocol/methods.ts";
import { codes, RENAMED, within } from "../../support/served-client.ts";
import { operator } from "../../support/ws-client.ts";

const VERIFIED = { valid: true, status: "approved", summary: {} } as const;

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

    it("and told to come again when nothing is known, where that does no harm", () => {
      const lost = () => Promise.reject(new LemonError("timeout"));
      const failed = () => Promise.reject(new LemonError("internal_error"));
      return within({ "node.list": lost, "config.set": lost, status: failed }, async (client) => {
        const told = async (method: string, params = {}) =>
          (await client.call(method, params)).error?.details;
        assert.deepEqual(await told("node.list"), { code: "timeout", retrySafe: true });
        assert.deepEqual(await told("config.set", { key: "a", value: 1 }), {
          code: "timeout",
          retrySafe: true,
          mutationMayHaveApplied: true,
        });
        assert.deepEqual(await told("status"), { code: "internal_error", retrySafe: false });
      });
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
