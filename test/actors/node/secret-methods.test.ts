/** Proves secrets on nodes as a client asks for them: what is sealed, what is believed, what each failure says. */
import { createCurve, type KeyPair } from "@nats-io/nkeys";
import { expect } from "chai";
import type { SecretMethod } from "../../../actors/node/secret-methods.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { METHODS } from "../../../protocol/methods.ts";
import { readParams } from "../../../protocol/params.ts";
import { exampleOf } from "../../../scripts/reference/examples.ts";
import { openSealed, type Sealed } from "../../../transport/keys/sealing.ts";
import { NodesRoom, opening, operator, ping } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

const SECRET_METHODS = [
  "node.secrets.set",
  "node.secrets.list",
  "node.secrets.delete",
  "node.secrets.receipt",
  "node.secrets.rotate",
] as const satisfies readonly SecretMethod[];

const CAPABILITIES = Object.fromEntries(SECRET_METHODS.map((name) => [name, { version: 1 }]));
const NAME = "canary/name-7d1e";
const VALUE = "canary-value-a03f";
const isRead = (method: SecretMethod): boolean => METHODS.get(method)?.effect === "read";

describe("a secret method", () => {
  let room: NodesRoom;
  let nodeId: string;
  let seal: KeyPair;
  /** What the worker answers next. */
  let answer: (method: string) => unknown;

  beforeEach(async () => {
    room = await NodesRoom.open();
    seal = createCurve();
    const node = await room.online("worker-1", {
      answer: (method) => answer(method),
      capabilities: CAPABILITIES,
      sealKey: seal.getPublicKey(),
    });
    nodeId = node.nodeId;
    answer = workerAnswer;
  });
  afterEach(() => room.close());

  const call = async (
    method: SecretMethod,
    changes: Readonly<Record<string, unknown>> = {},
  ): Promise<unknown> => {
    const spec = METHODS.get(method);
    if (spec === undefined) throw new Error("no such method");
    const example = { ...exampleOf(method).params, nodeId, ...changes };
    return await room.nodes.methods[method](readParams(spec, example) as never, operator());
  };
  const sent = () => room.link.calls.at(-1)?.call;
  /** Whether a worker was asked for anything but a ping. */
  const asked = (): string[] =>
    room.link.calls
      .map(({ call: { method } }) => method)
      .filter((method) => method !== "node.ping");

  for (const method of SECRET_METHODS) {
    it(`${method} answers what the contract says, of what the node answers`, async () => {
      const result = Object(exampleOf(method).result);
      const expected = method === "node.secrets.receipt" ? { ...result, nodeId } : result;
      const answered = await call(method);
      expect(answered).to.deep.equal(expected);
      expect(METHODS.get(method)?.result.parse(answered)).to.deep.equal(answered);
    });

    it(`${method} waits 30 s, for the worker life that is current`, async () => {
      await call(method);
      expect(sent()).to.include({
        method,
        generation: 1,
        deadlineMs: 30_000,
        mutation: !isRead(method),
      });
      expect(Object(sent()?.params)).to.not.have.property("nodeId");
    });

    it(`${method} takes the durable id alone`, async () => {
      const refusal = await refusalOf(() => call(method, { nodeId: "worker-1" }));
      expect(refusal.code).to.equal("node_not_found");
      expect(asked()).to.deep.equal([]);
    });

    it(`${method} asks no worker that does not offer it, and none that is not there`, async () => {
      const plain = await room.online("plain");
      const refusal = await refusalOf(() => call(method, { nodeId: plain.nodeId }));
      expect(refusal.code).to.equal("capability_missing");
      const { nodeId: joined } = await room.join("never-opened");
      const offline = await refusalOf(() => call(method, { nodeId: joined }));
      expect(offline).to.include({ code: "node_offline", mutationMayHaveApplied: false });
      expect(asked()).to.deep.equal([]);
    });

    it(`${method} says of a lost answer what may have happened, and names no secret`, async () => {
      for (const code of ["timeout", "link_lost", "actor_crashed"] as const) {
        answer = () => {
          throw new LemonError(code, { mutationMayHaveApplied: !isRead(method) });
        };
        const changes = method.endsWith("set") ? { name: NAME, value: VALUE } : {};
        const refusal = await refusalOf(() =>
          call(method, method.endsWith("delete") ? { name: NAME } : changes),
        );
        expect(refusal.mutationMayHaveApplied).to.equal(!isRead(method));
        expect(`${refusal.message} ${JSON.stringify(refusal.details)}`).to.not.include("canary");
        if (isRead(method)) continue;
        expect(refusal).to.include({
          code: "secret_outcome_unknown",
          wire: code === "timeout" ? "TIMEOUT" : "UNAVAILABLE",
          retrySafe: METHODS.get(method)?.retrySafe,
        });
        expect(refusal.message).to.include(nodeId);
      }
    });

    it(`${method} believes no answer that is none`, async () => {
      for (const nonsense of [null, {}, [], "x", { name: "other", set: true, deleted: true }]) {
        answer = () => nonsense;
        const refusal = await refusalOf(() => call(method));
        expect(refusal.code).to.equal(
          isRead(method) ? "invalid_remote_payload" : "secret_outcome_unknown",
        );
        expect(refusal.mutationMayHaveApplied).to.equal(!isRead(method));
      }
    });

    it(`${method} passes on what the node refuses it with`, async () => {
      answer = () => {
        throw new LemonError("secret_store_damaged");
      };
      expect(await refusalOf(() => call(method))).to.include({
        code: "secret_store_damaged",
        wire: "UNAVAILABLE",
        mutationMayHaveApplied: false,
      });
    });
  }

  it("seals name, operation and value to the worker life, and sends nothing of them readable", async () => {
    await call("node.secrets.set", { name: `  ${NAME} `, value: VALUE }).catch(() => undefined);
    const params = sent()?.params as Sealed;
    expect(Object.keys(params).sort()).to.deep.equal(["sealed", "sender"]);
    expect(Buffer.from(params.sealed).includes("canary")).to.equal(false);
    const opened = openSealed(seal, params);
    expect(opened?.about).to.deep.equal({ name: NAME, operationId: "install:token-1" });
    expect(Buffer.from(opened?.value ?? []).toString()).to.equal(VALUE);
    expect(openSealed(createCurve(), params)).to.equal(null);
  });

  it("seals anew to the life that follows, which the one before can not open", async () => {
    const node = await room.join("worker-2");
    const lives = [createCurve(), createCurve()];
    for (const life of lives) {
      const shown = opening({ capabilities: CAPABILITIES, sealKey: life.getPublicKey() });
      const opened = await room.nodes.methods["node.link.open"](shown, node.session);
      room.link.workers.set(opened.nodeKey as never, ({ method }) =>
        method === "node.ping" ? ping() : workerAnswer(method),
      );
      await room.clock.advance(100);
      await call("node.secrets.set", { nodeId: node.nodeId });
      const params = sent()?.params as Sealed;
      expect(lives.map((key) => openSealed(key, params) !== null)).to.deep.equal(
        lives.map((key) => key === life),
      );
    }
  });

  it("says that a value sealed to an earlier life was not delivered", async () => {
    answer = () => {
      throw new LemonError("node_superseded");
    };
    expect(await refusalOf(() => call("node.secrets.set"))).to.include({
      code: "node_offline",
      retrySafe: true,
      mutationMayHaveApplied: false,
    });
  });

  it("names the read that settles a lost set, and none when the set had no id", async () => {
    answer = () => {
      throw new LemonError("timeout");
    };
    const fixed = await refusalOf(() => call("node.secrets.set"));
    expect(fixed.message).to.include("node.secrets.receipt").and.include("install:token-1");
    expect(fixed.details).to.include({ nodeId, operationId: "install:token-1" });
    const loose = await refusalOf(() => call("node.secrets.set", { operationId: null }));
    expect(loose.message).to.not.include("node.secrets.receipt");
    expect(loose.details).to.not.have.property("operationId");
    const rotated = await refusalOf(() => call("node.secrets.rotate"));
    expect(rotated.message).to.include("rotate again");
    const gone = await refusalOf(() => call("node.secrets.delete"));
    expect(gone.message).to.include("node.secrets.list");
  });

  it("keeps the plain shape of a set without an id, and believes no proof that was not asked for", async () => {
    const name = "integration/token";
    answer = () => ({ name, set: true });
    expect(await call("node.secrets.set", { operationId: null })).to.deep.equal({
      name,
      set: true,
    });
    answer = workerAnswer;
    expect((await refusalOf(() => call("node.secrets.set", { operationId: null }))).code).to.equal(
      "secret_outcome_unknown",
    );
    answer = () => ({ name, set: true });
    expect((await refusalOf(() => call("node.secrets.set"))).code).to.equal(
      "secret_outcome_unknown",
    );
  });

  it("refuses names of private proofs, with spaces around them too, and asks no node", async () => {
    for (const name of ["lemon_bot/invocations/r-1", " \tlemon_bot/invocations/r-1\n"]) {
      for (const method of ["node.secrets.set", "node.secrets.delete"] as const) {
        expect(await refusalOf(() => call(method, { name }))).to.include({
          code: "secret_name_reserved",
          wire: "FORBIDDEN",
        });
      }
    }
    expect(asked()).to.deep.equal([]);
    answer = () => ({ name: "lemon_bot/invocation", deleted: true });
    await call("node.secrets.delete", { name: "lemon_bot/invocation" });
  });

  it("takes names and values up to their bounds, and nothing beyond", async () => {
    const refused = async (changes: Readonly<Record<string, unknown>>) =>
      await refusalOf(() => call("node.secrets.set", changes));
    const taken = async (name: string, value: string) => {
      answer = () => ({ ...workerAnswer("node.secrets.set"), name });
      await call("node.secrets.set", { name, value });
    };
    await taken("n".repeat(256), "");
    await taken("€".repeat(85), "v".repeat(1_048_576));
    await taken("n", "€".repeat(349_525));
    for (const name of ["", " \n ", "n".repeat(257), "€".repeat(86), "a\0b", "\ud800"]) {
      expect((await refused({ name })).code, JSON.stringify(name)).to.equal("invalid_params");
    }
    for (const value of ["v".repeat(1_048_577), "€".repeat(349_526)]) {
      const refusal = await refused({ value });
      expect(refusal).to.include({ code: "too_large", wire: "INVALID_REQUEST" });
    }
    expect((await refused({ value: `${VALUE}\udc00` })).message).to.not.include(VALUE);
    for (const operationId of ["", "a b", "x".repeat(129), "ü"]) {
      expect((await refused({ operationId })).code).to.equal("invalid_params");
    }
  });
});

/** What a worker answers where the reference's example is the answer over `/ws`. */
function workerAnswer(method: string): Readonly<Record<string, unknown>> {
  const { nodeId: _ours, ...result } = Object(exampleOf(method).result);
  return result;
}
