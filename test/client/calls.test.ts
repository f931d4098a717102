/** Proves what becomes of a call that is answered, and of one that is refused before it is sent. */
import { expect } from "chai";
import type { CallError, Client } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import { CallingClient, callError, RUN } from "../support/calling-client.ts";
import {
  type FakeControlPlane,
  type PeerConnection,
  SILENCE,
} from "../support/fake-control-plane.ts";
import { bare, completed, NODE_ID, nodeList, nodeRow } from "../support/node-rows.ts";
import { refusalOf } from "../support/refusal.ts";

describe("a call", () => {
  let calling: CallingClient;
  let peer: FakeControlPlane;
  let client: Client;

  async function start(...how: Parameters<typeof CallingClient.start>): Promise<void> {
    calling = await CallingClient.start(...how);
    ({ peer, client } = calling);
  }
  afterEach(() => calling.close());

  it("resolves with the method's validated result", async () => {
    await start();
    peer.on("node.list", () => nodeList(nodeRow({ name: "a" }), nodeRow({ name: "b" })));
    const { nodes } = await client.call("node.list", {});
    expect(nodes.map(({ name }) => name)).to.deep.equal(["a", "b"]);
  });

  it("gets its own answer however many are in flight and in whatever order they are answered", async () => {
    await start();
    const held: (() => void)[] = [];
    peer.on("node.process.get", async ({ processId }) => {
      await new Promise<void>((resolve) => held.push(resolve));
      return bare(processId, "running");
    });
    const ids = Array.from({ length: 200 }, (_, index) => `t:${index}`);
    const answers = Promise.all(
      ids.map((processId) => client.call("node.process.get", { nodeId: NODE_ID, processId })),
    );
    await peer.seen("node.process.get", ids.length);
    for (const release of held.reverse()) release();
    expect((await answers).map(({ processId }) => processId)).to.deep.equal(ids);
  });

  it("is refused before anything is sent when its parameters break a bound", async () => {
    await start();
    const error = await refusalOf(() =>
      client.call("node.process.run", { ...RUN, timeoutMs: 999 }),
    );
    expect(error.code).to.equal("invalid_params");
    expect(error.message).to.match(/timeoutMs: must be 1000 to 1800000/);
    expect(peer.requests).to.deep.equal([]);
  });

  it("rejects with the peer's own classification, promises and details", async () => {
    await start();
    peer.on("node.process.run", () => {
      throw new LemonError("too_many_processes", { details: { limit: 16 } });
    });
    const error = await callError(() => client.call("node.process.run", RUN));
    expect(error).to.include({
      code: "too_many_processes",
      wire: "UNAVAILABLE",
      retrySafe: true,
      mutationMayHaveApplied: false,
      answered: true,
      settledBy: null,
    });
    expect(error.details).to.include({ limit: 16 });
  });

  const foreignErrors: readonly {
    readonly name: string;
    readonly error: unknown;
    readonly method: "node.process.run" | "node.list";
    readonly expected: Partial<CallError>;
  }[] = [
    {
      name: "a classification newer than this version keeps its word and its wire code",
      error: {
        code: "CONFLICT",
        message: "Newer",
        details: { code: "process_id_reserved", mutationMayHaveApplied: false, retrySafe: false },
      },
      method: "node.process.run",
      expected: {
        code: "conflict",
        classification: "process_id_reserved",
        wire: "CONFLICT",
        mutationMayHaveApplied: false,
      },
    },
    {
      name: "an unknown wire code without promises leaves a mutation uncertain",
      error: { code: "teapot", message: "I am" },
      method: "node.process.run",
      expected: {
        code: "internal_error",
        classification: "teapot",
        mutationMayHaveApplied: true,
        retrySafe: false,
      },
    },
    {
      name: "a bare UNAVAILABLE leaves a mutation uncertain",
      error: { code: "UNAVAILABLE", message: "Try later", details: null },
      method: "node.process.run",
      expected: { code: "link_lost", wire: "UNAVAILABLE", mutationMayHaveApplied: true },
    },
    {
      name: "a bare FORBIDDEN is a refusal",
      error: { code: "FORBIDDEN", message: "No" },
      method: "node.process.run",
      expected: { code: "forbidden", mutationMayHaveApplied: false },
    },
    {
      name: "a read is never said to have applied, whatever the peer claims",
      error: {
        code: "TIMEOUT",
        message: "Late",
        details: { code: "timeout", mutationMayHaveApplied: true },
      },
      method: "node.list",
      expected: { code: "timeout", mutationMayHaveApplied: false },
    },
    {
      name: "promises of a wrong type are not believed",
      error: {
        code: "UNAVAILABLE",
        message: "",
        details: { code: "no_space", retrySafe: "yes", mutationMayHaveApplied: "no" },
      },
      method: "node.process.run",
      expected: {
        code: "no_space",
        message: "UNAVAILABLE",
        retrySafe: false,
        mutationMayHaveApplied: false,
      },
    },
  ];
  for (const { name, error, method, expected } of foreignErrors) {
    it(name, async () => {
      await start();
      const answer = (_params: unknown, connection: PeerConnection): typeof SILENCE => {
        connection.frame({ type: "res", id: "c1", ok: false, error });
        return SILENCE;
      };
      peer.on("node.process.run", answer).on("node.list", answer);
      const failure = await callError(() =>
        method === "node.list" ? client.call(method, {}) : client.call(method, RUN),
      );
      expect(failure).to.include(expected);
    });
  }

  const garbled: readonly { readonly name: string; readonly frame: string }[] = [
    { name: "that is neither ok nor an error", frame: `{"type":"res","id":"c1"}` },
    { name: "that is ok without a payload", frame: `{"type":"res","id":"c1","ok":true}` },
    {
      name: "whose error is no object",
      frame: `{"type":"res","id":"c1","ok":false,"error":"no"}`,
    },
    {
      name: "whose payload is none of the method's",
      frame: `{"type":"res","id":"c1","ok":true,"payload":{"state":"completed"}}`,
    },
    ...Object.entries({
      "about another process": { processId: "t:2" },
      "about another node": { nodeId: "0d6f2f5e-8d51-4b0f-9a55-2f1f3f1f7a11" },
      "of a completion without an exit": { exitCode: null },
      "of a run with an exit": { ...bare("t:1", "running"), exitCode: 0 },
      "of an unknown outcome with output": { ...bare("t:1", "outcome_unknown"), stdoutBase64: "" },
      "of an absence": bare("t:1", "not_found"),
      "whose missing output is not called cut off": { stdoutBase64: null },
      "whose output is no base64": { stdoutBase64: "%%%%" },
    }).map(([name, fields]) => ({
      name: `that is a receipt ${name}`,
      frame: JSON.stringify({
        type: "res",
        id: "c1",
        ok: true,
        payload: { ...completed("t:1"), ...fields },
      }),
    })),
    {
      name: "whose payload nests a hundred thousand deep",
      frame: `{"type":"res","id":"c1","ok":true,"payload":${"[".repeat(100_000)}${"]".repeat(100_000)}}`,
    },
  ];
  for (const { name, frame } of garbled) {
    it(`that is a mutation is uncertain after an answer ${name}`, async () => {
      await start();
      peer.on("node.process.run", (_params, connection) => {
        connection.raw(frame);
        return SILENCE;
      });
      const error = await callError(() => client.call("node.process.run", RUN));
      expect(error).to.include({ code: "invalid_response", mutationMayHaveApplied: true });
      // The connection is as good as before.
      peer.on("node.list", () => nodeList());
      expect((await client.call("node.list", {})).nodes).to.deep.equal([]);
    });
  }

  it("survives a tree that nests deeper than the stack", async () => {
    await start();
    const depth = 60_000;
    const row = `{"path":"/a","kind":"k","state":"running","restart":"permanent","mailboxDepth":0,"oldestMessageAgeMs":null,"startedAtMs":1,"restartsInWindow":0,"restartsLeft":1,"lastCrash":null,"children":[`;
    peer.on("supervision.tree", (_params, connection) => {
      connection.raw(
        `{"type":"res","id":"c1","ok":true,"payload":{"generatedAtMs":1,"trees":[{"source":"controller","name":"c","error":null,"tree":${row.repeat(depth)}${"]}".repeat(depth)}}]}}`,
      );
      return SILENCE;
    });
    const error = await callError(() => client.call("supervision.tree", {}));
    expect(error.code).to.equal("invalid_response");
  });

  it("is not disturbed by events, foreign frames and answers to nobody", async () => {
    await start();
    peer.on("node.list", (_params, connection) => {
      connection.frame({ type: "event", event: "tick", seq: 1, payload: {} });
      connection.frame({ type: "from-the-future" });
      connection.frame({});
      connection.frame({ type: "res", id: "c99", ok: true, payload: {} });
      connection.frame({ type: "res", id: 1, ok: true, payload: {} });
      return nodeList();
    });
    expect((await client.call("node.list", {})).nodes).to.deep.equal([]);
  });

  const unreadable: readonly {
    readonly name: string;
    readonly send: (c: PeerConnection) => void;
  }[] = [
    { name: "text that is no JSON", send: (connection) => connection.raw("hello") },
    { name: "a list", send: (connection) => connection.raw("[]") },
    { name: "a binary frame", send: (connection) => connection.binary(new Uint8Array(8)) },
  ];
  for (const { name, send } of unreadable) {
    it(`settles at once when the peer sends ${name}`, async () => {
      await start();
      peer.on("node.process.run", (_params, connection) => {
        send(connection);
        return SILENCE;
      });
      const closed = new Promise<number>((resolve) => {
        client.onClose(({ code }) => resolve(code));
      });
      const error = await callError(() => client.call("node.process.run", RUN));
      expect(error).to.include({ code: "link_lost", mutationMayHaveApplied: true });
      expect(await closed).to.equal(1002);
    });
  }

  it("beyond the bound of calls in flight is refused before anything is sent", async () => {
    await start({}, { maxInFlight: 2 });
    const release = Promise.withResolvers<void>();
    peer.on("node.list", async () => {
      await release.promise;
      return nodeList();
    });
    const first = client.call("node.list", {});
    const second = client.call("node.list", {});
    const error = await callError(() => client.call("node.process.run", RUN));
    expect(error).to.include({
      code: "too_many_requests_in_flight",
      mutationMayHaveApplied: false,
      answered: false,
    });
    release.resolve();
    await Promise.all([first, second]);
    await client.call("node.list", {});
    expect(peer.count("node.process.run")).to.equal(0);
  });

  it("is measured in bytes against the peer's maxPayload, to the byte", async () => {
    const pad = (bytes: number) => ({ ...RUN, argv: ["true", "é".repeat(Math.floor(bytes / 2))] });
    const frame = (params: unknown) =>
      Buffer.byteLength(
        JSON.stringify({ type: "req", id: "c1", method: "node.process.run", params }),
      );
    const fitting = pad(4_000);
    await start({ policy: { maxPayload: frame(fitting) } });
    peer.on("node.process.run", () => completed("t:1"));
    expect((await client.call("node.process.run", fitting)).state).to.equal("completed");
    const error = await callError(() => client.call("node.process.run", pad(4_002)));
    expect(error).to.include({ code: "too_large", mutationMayHaveApplied: false });
    expect(peer.count("node.process.run")).to.equal(1);
  });

  it("is refused, not queued without bound, while the peer reads nothing", async () => {
    await start({ policy: { maxBufferedBytes: 1_024 } }, { maxInFlight: 1_000 });
    peer.on("node.process.run", () => SILENCE);
    peer.connections[0]?.freeze();
    const big = { ...RUN, stdinBase64: Buffer.alloc(1_000_000).toString("base64") };
    let refused: LemonError | null = null;
    const waiting: Promise<unknown>[] = [];
    for (let call = 0; call < 100 && refused === null; call += 1) {
      const sent = client.call("node.process.run", big).catch((error: LemonError) => {
        if (error.code === "unavailable") refused = error;
      });
      waiting.push(sent);
      await Promise.race([sent, new Promise((resolve) => setImmediate(resolve))]);
    }
    expect(refused).to.include({ code: "unavailable", mutationMayHaveApplied: false });
    client.close();
    await Promise.all(waiting);
  });

  it("after the end is refused at once", async () => {
    await start();
    client.close();
    const error = await refusalOf(() => client.call("node.list", {}));
    expect(error).to.include({ code: "unavailable", mutationMayHaveApplied: false });
  });
});
