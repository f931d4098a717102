/** Proves files on nodes as a client asks for them: what is passed on, what is believed, what each failure says. */
import { expect } from "chai";
import type { FileMethod } from "../../../actors/node/file-methods.ts";
import { NODE_CAPABILITIES } from "../../../cli/roles/capabilities.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { FILE_METHODS } from "../../../protocol/methods/files.ts";
import { METHODS } from "../../../protocol/methods.ts";
import { readParams } from "../../../protocol/params.ts";
import { exampleOf } from "../../../scripts/reference/examples.ts";
import { NodesRoom, operator } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

const METHODS_OF_FILES = FILE_METHODS.map(({ name }) => name);

const isRead = (method: FileMethod): boolean => METHODS.get(method)?.effect === "read";

describe("a file method", () => {
  let room: NodesRoom;
  let nodeId: string;
  /** What the worker answers next. */
  let answer: (method: string, params: unknown) => unknown;

  beforeEach(async () => {
    room = await NodesRoom.open();
    const node = await room.online("worker-1", {
      answer: (method, params) => answer(method, params),
      capabilities: NODE_CAPABILITIES,
    });
    nodeId = node.nodeId;
    answer = (method) => workerAnswer(method);
  });
  afterEach(() => room.close());

  const call = async (
    method: FileMethod,
    changes: Readonly<Record<string, unknown>> = {},
  ): Promise<unknown> => {
    const spec = METHODS.get(method);
    if (spec === undefined) throw new Error("no such method");
    const params = readParams(spec, { ...exampleOf(method).params, nodeId, ...changes });
    const given: unknown = await room.nodes.methods[method](params as never, operator());
    // As its client reads it.
    return JSON.parse(JSON.stringify(given));
  };
  const sent = () => room.link.calls.at(-1)?.call;

  for (const method of METHODS_OF_FILES) {
    it(`${method} answers what the contract says, of what the node answers`, async () => {
      const answered = await call(method);
      expect(answered).to.deep.equal(exampleOf(method).result);
      expect(METHODS.get(method)?.result.parse(answered)).to.deep.equal(answered);
    });

    it(`${method} waits 30 s, for the worker life that is current, and says who asks`, async () => {
      await call(method);
      expect(sent()).to.include({
        method,
        generation: 1,
        deadlineMs: 30_000,
        mutation: !isRead(method),
      });
      expect(Object(sent()?.params)).to.include({ caller: sent()?.caller });
      expect(Object(sent()?.params)).to.not.have.property("nodeId");
    });

    it(`${method} takes the durable id, and the unique name`, async () => {
      await call(method, { nodeId: "worker-1" });
      const refusal = await refusalOf(() => call(method, { nodeId: "worker-2" }));
      expect(refusal.code).to.equal("node_not_found");
    });

    it(`${method} asks no worker that does not offer it`, async () => {
      const before = await room.online("plain");
      const { length } = room.link.calls;
      const refusal = await refusalOf(() => call(method, { nodeId: before.nodeId }));
      expect(refusal.code).to.equal("capability_missing");
      expect(
        room.link.calls.slice(length).map(({ call: { method: asked } }) => asked),
      ).to.not.include(method);
    });

    it(`${method} says of a lost answer what may have happened, and how to find out`, async () => {
      for (const code of ["timeout", "link_lost"] as const) {
        answer = () => {
          throw new LemonError(code, { mutationMayHaveApplied: !isRead(method) });
        };
        const refusal = await refusalOf(() => call(method));
        const mutation = !isRead(method);
        expect(refusal.code).to.equal(mutation ? "filesystem_outcome_unknown" : code);
        expect(refusal.wire).to.equal(code === "timeout" ? "TIMEOUT" : "UNAVAILABLE");
        expect(refusal.mutationMayHaveApplied).to.equal(mutation);
        if (!mutation) continue;
        expect(refusal.retrySafe).to.equal(false);
        expect(refusal.message).to.include("node.fs.stat").and.include(nodeId);
        expect(`${refusal.message} ${JSON.stringify(refusal.details)}`).to.not.include("note.txt");
      }
    });

    it(`${method} believes no answer that is none`, async () => {
      for (const nonsense of [null, {}, [], "x", { path: 1 }]) {
        answer = () => nonsense;
        const refusal = await refusalOf(() => call(method));
        expect(refusal.code).to.equal(
          isRead(method) ? "invalid_remote_payload" : "filesystem_outcome_unknown",
        );
        expect(refusal.mutationMayHaveApplied).to.equal(!isRead(method));
      }
    });

    it(`${method} passes on what the node refuses it with`, async () => {
      answer = () => {
        throw new LemonError("path_not_allowed");
      };
      const refusal = await refusalOf(() => call(method));
      expect(refusal).to.include({
        code: "path_not_allowed",
        wire: "FORBIDDEN",
        mutationMayHaveApplied: false,
      });
    });
  }

  it("keeps a node's word for what went wrong in the middle of it", async () => {
    answer = () => {
      throw new LemonError("stale_preview", {
        mutationMayHaveApplied: true,
        details: { removed: 3, leftUnderTemporaryName: 1 },
      });
    };
    const refusal = await refusalOf(() => call("node.fs.delete"));
    expect(refusal.details).to.deep.equal({ removed: 3, leftUnderTemporaryName: 1, nodeId });
    expect(refusal).to.include({
      code: "stale_preview",
      wire: "CONFLICT",
      retrySafe: false,
      mutationMayHaveApplied: true,
    });
    expect(refusal.message).to.include("node.fs.stat");
  });

  it("passes bytes as bytes", async () => {
    await call("node.fs.write", { dataBase64: "SGVsbG8g" });
    expect(Object(sent()?.params).bytes).to.deep.equal(Buffer.from("Hello "));
    expect(Object(sent()?.params)).to.include({ expectedModifiedAtMs: 0 });
    expect(Object(sent()?.params)).to.not.have.property("dataBase64");
  });

  it("says that no revision was named", async () => {
    await call("node.fs.write", { expectedModifiedAtMs: null });
    expect(Object(sent()?.params).expectedModifiedAtMs).to.equal(null);
  });

  it("makes room for the answer that it asks for", async () => {
    await call("node.fs.read", { length: 1_048_576 });
    expect(sent()?.answerBytes).to.be.greaterThan(1_048_576);
    await call("node.fs.stat");
    expect(sent()?.answerBytes).to.be.lessThan(65_536);
  });

  it("believes no chunk that was not asked for", async () => {
    const chunk = workerAnswer("node.fs.read");
    for (const other of [{ offset: 7 }, { bytes: new Uint8Array(7) }]) {
      answer = () => ({ ...chunk, ...other });
      const refusal = await refusalOf(() => call("node.fs.read"));
      expect(refusal).to.include({ code: "invalid_remote_payload", retrySafe: true });
    }
  });

  it("believes no write of something else", async () => {
    for (const other of [{ offset: 1 }, { bytesWritten: 5 }]) {
      answer = () => ({ ...workerAnswer("node.fs.write"), ...other });
      const refusal = await refusalOf(() => call("node.fs.write"));
      expect(refusal.code).to.equal("filesystem_outcome_unknown");
    }
  });

  it("shows of a listing's entries only what is declared", async () => {
    answer = () => ({
      path: "/a",
      entries: [{ name: "x", error: "permission_denied", target: "/secret" }],
      truncated: true,
    });
    expect(await call("node.fs.list")).to.deep.equal({
      path: "/a",
      entries: [{ name: "x", error: "permission_denied" }],
      limit: 500,
      truncated: true,
    });
  });
});

/** What a worker answers where the reference's example is the answer over `/ws`. */
function workerAnswer(method: string): Readonly<Record<string, unknown>> {
  const { dataBase64, length, created, moved, deleted, limit, ...result } = Object(
    exampleOf(method).result,
  );
  return method === "node.fs.read"
    ? { ...result, bytes: new Uint8Array(Buffer.from(dataBase64, "base64")) }
    : result;
}
