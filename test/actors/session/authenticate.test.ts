import { assert } from "chai";
import {
  authenticator,
  loopbackOptIn,
  type SessionTokens,
} from "../../../actors/session/authenticate.ts";
import type { Credentials, Identity } from "../../../actors/session/handler.ts";
import { LemonError } from "../../../protocol/errors.ts";
import type { NodeId } from "../../../protocol/ids.ts";
import { refusalOf } from "../../support/refusal.ts";

const NODE: Identity = {
  role: "node",
  clientId: "node-1",
  node: { nodeId: "node-1" as NodeId, sessionGeneration: 3 },
};
const DEVICE: Identity = { role: "device", clientId: "device-1", node: null };

const known: Readonly<Record<string, Identity | "expired">> = {
  "node-token": NODE,
  "device-token": DEVICE,
  "old-token": "expired",
  "odd-token": { role: "operator", clientId: null, node: null },
  "nameless-token": { role: "node", clientId: "n", node: null },
};
const sessionTokens: SessionTokens = {
  identify: async (token) => (Object.hasOwn(known, token) ? (known[token] ?? null) : null),
};

function connects(
  offered: Partial<Credentials>,
  changes: { operatorToken?: string | null; optIn?: boolean } = {},
) {
  const authenticate = authenticator({
    operatorToken: changes.operatorToken === undefined ? "operator-token" : changes.operatorToken,
    sessionTokens,
    allowUnauthenticatedLoopback: changes.optIn ?? false,
  });
  return authenticate({
    token: null,
    role: undefined,
    clientId: null,
    remoteAddress: "127.0.0.1",
    directLoopback: true,
    ...offered,
  });
}

async function sentenceOf(...attempt: Parameters<typeof connects>): Promise<string> {
  const refused = await refusalOf(() => connects(...attempt));
  assert.equal(refused.wire, "UNAUTHORIZED");
  assert.equal(refused.code, "unauthorized");
  return refused.message;
}

describe("who a connection is", () => {
  it("is the operator with the operator's token, under the name it gives itself", async () => {
    assert.deepEqual(await connects({ token: "operator-token", clientId: "me" }), {
      role: "operator",
      clientId: "me",
      node: null,
    });
  });

  it("is the operator whatever else than node and device is asked for", async () => {
    for (const role of ["operator", "admin", "", 7, null, {}, "Node"]) {
      assert.equal((await connects({ token: "operator-token", role })).role, "operator");
    }
  });

  it("is what the session token says, whatever role is asked for", async () => {
    for (const role of [undefined, "operator", "node", "device"]) {
      assert.deepEqual(await connects({ token: "node-token", role, clientId: "x" }), NODE);
      assert.deepEqual(await connects({ token: "device-token", role }), DEVICE);
    }
  });

  it("is nobody's with a token that is nothing we know, whatever role is asked for", async () => {
    for (const role of [undefined, "operator", "node", "device"]) {
      for (const token of [
        "operator-tokem",
        "operator-token ",
        "x",
        "constructor",
        "y".repeat(1_000_000),
      ]) {
        assert.equal(await sentenceOf({ token, role }), "Invalid token");
        assert.equal(await sentenceOf({ token, role }, { optIn: true }), "Invalid token");
        assert.equal(await sentenceOf({ token, role }, { operatorToken: null }), "Invalid token");
      }
    }
  });

  it("is nobody's with a session token whose time is over", async () => {
    assert.equal(await sentenceOf({ token: "old-token" }), "Token has expired");
  });

  it("is nobody's with a session token of no node and no device", async () => {
    assert.equal(await sentenceOf({ token: "odd-token" }), "Unsupported token identity");
    assert.equal(await sentenceOf({ token: "nameless-token" }), "Unsupported token identity");
  });

  it("is nobody's without a token, and the sentence says which one is wanted", async () => {
    assert.equal(await sentenceOf({}), "Operator token is required");
    for (const token of ["", "  "]) {
      assert.equal(await sentenceOf({ token }), "Operator token is required");
    }
    for (const role of ["node", "device"]) {
      assert.equal(await sentenceOf({ role }), "A valid node session token is required");
      assert.equal(
        await sentenceOf({ role }, { optIn: true }),
        "A valid node session token is required",
      );
    }
    assert.equal(
      await sentenceOf({}, { operatorToken: null }),
      "Operator authentication is required; configure LEMON_CONTROL_PLANE_OPERATOR_TOKEN",
    );
  });

  it("is never a node or a device by the operator's token", async () => {
    for (const role of ["node", "device"]) {
      assert.equal(
        await sentenceOf({ token: "operator-token", role }),
        "A valid node session token is required",
      );
    }
  });

  it("is the operator without a token on direct loopback alone, and only where that was allowed", async () => {
    assert.equal((await connects({ clientId: "tui" }, { optIn: true })).clientId, "tui");
    assert.equal((await connects({ token: "" }, { optIn: true })).role, "operator");
    assert.equal((await connects({}, { optIn: true, operatorToken: null })).role, "operator");
    assert.equal(
      await sentenceOf({ directLoopback: false }, { optIn: true }),
      "Operator token is required",
    );
  });

  it("is not looked up by what is too long for a token", async () => {
    const looked: number[] = [];
    const authenticate = authenticator({
      operatorToken: "x".repeat(2_000),
      sessionTokens: {
        identify: async (token) => {
          looked.push(token.length);
          return null;
        },
      },
      allowUnauthenticatedLoopback: false,
    });
    const offer = (length: number, unit = "y") =>
      authenticate({
        token: unit.repeat(length),
        role: undefined,
        clientId: null,
        remoteAddress: "",
        directLoopback: false,
      });
    for (const length of [1_024, 1_025, 4_000_000]) {
      assert.equal((await refusalOf(() => offer(length))).message, "Invalid token");
    }
    assert.deepEqual(looked, [1_024]);
    // The operator's own choice is never too long.
    assert.equal((await offer(2_000, "x")).role, "operator");
  });

  it("passes on a failure to find out", async () => {
    const authenticate = authenticator({
      operatorToken: null,
      sessionTokens: { identify: () => Promise.reject(new LemonError("unavailable")) },
      allowUnauthenticatedLoopback: false,
    });
    const refused = await refusalOf(() =>
      authenticate({
        token: "t",
        role: "node",
        clientId: null,
        remoteAddress: "",
        directLoopback: false,
      }),
    );
    assert.equal(refused.code, "unavailable");
  });
});

describe("the variable of the loopback opt-in", () => {
  it("allows it as true or 1 and as nothing else", () => {
    const isAllowed = (value: string | undefined) =>
      loopbackOptIn({ LEMON_CONTROL_PLANE_ALLOW_UNAUTHENTICATED_LOOPBACK: value });
    for (const value of ["true", "1", " true\n"]) assert.isTrue(isAllowed(value), value);
    for (const value of [undefined, "", "0", "false", "yes", "TRUE", "11", "on"]) {
      assert.isFalse(isAllowed(value), value);
    }
  });
});
