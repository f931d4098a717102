/** Proves native processes as a client asks for them: what is passed on, what is believed, what each failure says. */
import { expect } from "chai";
import fc from "fast-check";
import { ERRORS, type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import { errorText } from "../../../protocol/frames.ts";
import type { NodeKey, ProcessId } from "../../../protocol/ids.ts";
import {
  nodeProcessCancel,
  nodeProcessGet,
  nodeProcessRun,
} from "../../../protocol/methods/process.ts";
import type { ParamsOf } from "../../../protocol/methods.ts";
import type { ProcessReceipt } from "../../../protocol/process.ts";
import { CAPABILITIES, NodesRoom, opening, operator, ping } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

const PROCESS_ID = "probe:1" as ProcessId;
const METHODS = ["node.process.run", "node.process.get", "node.process.cancel"] as const;
type Method = (typeof METHODS)[number];

describe("a process method", () => {
  let room: NodesRoom;
  let node: Awaited<ReturnType<NodesRoom["online"]>>;
  /** What the worker answers next. */
  let answer: () => unknown;

  beforeEach(async () => {
    room = await NodesRoom.open();
    node = await room.online("worker-1", { answer: () => answer() });
  });
  afterEach(() => room.close());

  const runParams = (
    changes: Partial<ParamsOf<"node.process.run">> = {},
  ): ParamsOf<"node.process.run"> => ({
    nodeId: node.nodeId,
    processId: PROCESS_ID,
    cwd: ".",
    argv: ["/bin/cat"],
    stdinBase64: "AP+A",
    timeoutMs: 5_000,
    maxOutputBytes: 100,
    ...changes,
  });
  const call = async (method: Method, nodeId: string = node.nodeId) =>
    method === "node.process.run"
      ? await room.nodes.methods[method](runParams({ nodeId }), operator())
      : await room.nodes.methods[method]({ nodeId, processId: PROCESS_ID }, operator());
  const receipt = (changes: Partial<ProcessReceipt> = {}): ProcessReceipt => ({
    processId: PROCESS_ID,
    nodeId: node.nodeId,
    state: "completed",
    exitCode: 0,
    stdout: Uint8Array.of(1, 2, 255),
    stderr: new Uint8Array(),
    outputTruncated: false,
    ...changes,
  });
  const bare = (state: ProcessReceipt["state"]): ProcessReceipt =>
    receipt({ state, exitCode: null, stdout: null, stderr: null, outputTruncated: true });

  describe("that is passed on", () => {
    it("carries the run's fields with bytes as bytes, to the worker life that is current", async () => {
      answer = () => receipt();
      const asker = operator();
      await room.nodes.methods["node.process.run"](runParams(), asker);
      expect(room.link.calls.at(-1)).to.deep.equal({
        account: node.nodeKey,
        call: {
          method: "node.process.run",
          params: {
            processId: PROCESS_ID,
            cwd: ".",
            argv: ["/bin/cat"],
            timeoutMs: 5_000,
            maxOutputBytes: 100,
            stdin: Buffer.from([0, 255, 128]),
          },
          generation: 1,
          deadlineMs: 10_000,
          mutation: true,
          caller: asker.connectionId,
          answerBytes: 100 + 1_024,
        },
      });
    });

    it("waits for the node as long as the contract has it", async () => {
      answer = () => receipt();
      for (const [method, deadlineMs, mutation] of [
        ["node.process.run", 10_000, true],
        ["node.process.get", 30_000, false],
        ["node.process.cancel", 30_000, true],
      ] as const) {
        await call(method);
        expect(room.link.calls.at(-1)?.call).to.include({ deadlineMs, mutation });
      }
    });

    it("answers the seven fields of the contract, and nothing else", async () => {
      answer = () => receipt();
      for (const [method, spec] of [
        ["node.process.run", nodeProcessRun],
        ["node.process.get", nodeProcessGet],
        ["node.process.cancel", nodeProcessCancel],
      ] as const) {
        const answered = await call(method);
        expect(answered).to.deep.equal({
          processId: PROCESS_ID,
          nodeId: node.nodeId,
          state: "completed",
          exitCode: 0,
          stdoutBase64: "AQL/",
          stderrBase64: "",
          outputTruncated: false,
        });
        expect(spec.result.safeParse(answered).success).to.equal(true);
      }
    });

    it("encodes only the bytes of a view, not those around it", async () => {
      const around = Uint8Array.of(9, 9, 1, 2, 9);
      answer = () => receipt({ stdout: around.subarray(2, 4) });
      expect((await call("node.process.get")).stdoutBase64).to.equal("AQI=");
    });

    it("keeps null apart from empty output, and absence for get alone", async () => {
      for (const state of ["running", "outcome_unknown", "cancelled", "not_found"] as const) {
        answer = () => bare(state);
        const read = await call("node.process.get");
        expect(read).to.deep.include({ state, stdoutBase64: null, stderrBase64: null });
        for (const method of ["node.process.run", "node.process.cancel"] as const) {
          if (state === "not_found") {
            const refusal = await refusalOf(() => call(method));
            expect(refusal.code).to.equal("process_outcome_unknown");
          } else {
            expect((await call(method)).state).to.equal(state);
          }
        }
      }
    });

    it("does not hold up another to the same node", async () => {
      const slow = Promise.withResolvers<unknown>();
      answer = () => slow.promise;
      const first = call("node.process.run");
      await room.clock.advance(0);
      answer = () => receipt();
      await call("node.process.get");
      slow.resolve(receipt());
      await first;
    });
  });

  describe("that is not sent", () => {
    const sent = (): number =>
      room.link.calls.filter(({ call: { method } }) => method !== "node.ping").length;

    it("names a node that is not there, or is named by anything but its id", async () => {
      for (const method of METHODS) {
        for (const selector of ["worker-1", node.nodeId.toUpperCase(), ` ${node.nodeId}`]) {
          const refusal = await refusalOf(() => call(method, selector));
          expect([refusal.code, refusal.wire, refusal.message]).to.deep.equal([
            "node_not_found",
            "NOT_FOUND",
            "Node not found",
          ]);
        }
      }
      expect(sent()).to.equal(0);
    });

    it("asks a node that is offline: nothing was delivered, and it may be sent again", async () => {
      room.link.workers.delete(node.nodeKey);
      room.nodes.linkEvent({
        type: "disconnected",
        connection: {
          id: "1",
          account: node.nodeKey,
          userKey: node.opening.linkKey,
          name: node.opening.serverName,
        },
        remaining: 0,
        reason: "",
      });
      await room.clock.advance(0);
      for (const method of METHODS) {
        const refusal = await refusalOf(() => call(method));
        expect(refusal).to.include({
          code: "node_offline",
          wire: "UNAVAILABLE",
          retrySafe: true,
          mutationMayHaveApplied: false,
        });
        expect(refusal.details).to.deep.equal({ nodeId: node.nodeId, processId: PROCESS_ID });
      }
      expect(sent()).to.equal(0);
    });

    it("asks a node that never opened a link, or is revoked", async () => {
      const { nodeId } = await room.join("worker-2");
      expect((await refusalOf(() => call("node.process.get", nodeId))).code).to.equal(
        "node_offline",
      );
      await room.nodes.methods["node.revoke"]({ nodeId: node.nodeId }, operator());
      const refusal = await refusalOf(() => call("node.process.run"));
      expect(refusal).to.include({
        code: "node_offline",
        message: "The node is revoked; nothing was delivered",
        retrySafe: false,
        mutationMayHaveApplied: false,
      });
      expect(sent()).to.equal(0);
    });

    it("asks for what the live worker does not offer at version 1", async () => {
      for (const declared of [
        undefined,
        true,
        1,
        "1",
        null,
        {},
        { version: 2 },
        { version: "1" },
        [1],
      ]) {
        const life = opening({
          capabilities: { ...CAPABILITIES, "node.process.run": declared },
        });
        await room.nodes.methods["node.link.open"](life, node.session);
        await room.clock.advance(100);
        const refusal = await refusalOf(() => call("node.process.run"));
        expect(refusal).to.include({
          code: "capability_missing",
          wire: "UNAVAILABLE",
          mutationMayHaveApplied: false,
        });
        answer = () => receipt();
        await call("node.process.get");
      }
      const none = opening({ capabilities: JSON.parse('{"__proto__":{"version":1}}') });
      await room.nodes.methods["node.link.open"](none, node.session);
      await room.clock.advance(100);
      for (const method of METHODS) {
        expect((await refusalOf(() => call(method))).code).to.equal("capability_missing");
      }
    });

    it("meets nobody on the link: definite, and the node is offline from then on", async () => {
      room.link.workers.delete(node.nodeKey);
      const refusal = await refusalOf(() => call("node.process.run"));
      expect(refusal).to.include({ code: "node_offline", mutationMayHaveApplied: false });
      expect((await room.row("worker-1")).status).to.equal("offline");
    });
  });

  describe("whose answer is no receipt", () => {
    const lies: Record<string, () => unknown> = {
      nothing: () => undefined,
      null: () => null,
      text: () => "completed",
      "a list": () => [receipt()],
      "another node's": () => receipt({ nodeId: "0d6f2f5e-8d51-4b0f-9a55-2f1f3f1f7a10" }),
      "another process's": () => receipt({ processId: "probe:2" }),
      "an unknown state": () => ({ ...receipt(), state: "finished" }),
      "a field more": () => ({ ...receipt(), argv: ["secret"] }),
      "a field less": () => ({ ...receipt(), outputTruncated: undefined }),
      "output as text": () => ({ ...receipt(), stdout: "AQL/" }),
      "a completion without exit": () => receipt({ exitCode: null }),
      "half an exit": () => receipt({ exitCode: 0.5 }),
      "a run with an exit": () => ({ ...bare("running"), exitCode: 0 }),
      "a run with output": () => ({ ...bare("running"), stdout: Uint8Array.of(1) }),
      "an unknown outcome with output": () => ({
        ...bare("outcome_unknown"),
        stderr: new Uint8Array(),
      }),
      "an absence with an exit": () => ({ ...bare("not_found"), exitCode: 1 }),
      "half of its output gone, and not called cut off": () => receipt({ stderr: null }),
    };
    for (const [what, lie] of Object.entries(lies)) {
      it(`because it is ${what}: unknown for a mutation, an error for a read`, async () => {
        answer = lie;
        for (const method of METHODS) {
          const refusal = await refusalOf(() => call(method));
          expect(refusal.wire).to.equal("UNAVAILABLE");
          expect(refusal.mutationMayHaveApplied).to.equal(method !== "node.process.get");
          expect(refusal.code).to.equal(
            method === "node.process.get" ? "invalid_remote_payload" : "process_outcome_unknown",
          );
        }
      });
    }

    it("because it holds a byte more than was asked for; one byte less is fine", async () => {
      const holding = (bytes: number) =>
        receipt({ stdout: new Uint8Array(bytes - 1), stderr: Uint8Array.of(1) });
      answer = () => holding(100);
      await call("node.process.run");
      answer = () => holding(101);
      await refusalOf(() => call("node.process.run"));
      await call("node.process.get");
      answer = () => holding(1_048_577);
      await refusalOf(() => call("node.process.get"));
    });

    it("whatever it is, no crash and no content of it in an error or a log", async () => {
      await fc.assert(
        fc.asyncProperty(fc.anything(), fc.constantFrom(...METHODS), async (anything, method) => {
          answer = () => ({ ...Object(anything), canary: "canary-7f3a" });
          const refusal = await refusalOf(() => call(method));
          expect(errorText("1", refusal, true)).to.not.include("canary-7f3a");
        }),
        { numRuns: 100 },
      );
      expect(room.system.text()).to.not.include("canary-7f3a");
    });
  });

  describe("that fails on the way", () => {
    const uncertain: readonly ErrorCode[] = [
      "timeout",
      "link_lost",
      "internal_error",
      "actor_crashed",
      "deadline_exceeded",
      "response_too_large",
      "invalid_remote_payload",
    ];

    for (const code of uncertain) {
      it(`with ${code} is unknown, names the id and the read that settles it`, async () => {
        answer = () => {
          throw new LemonError(code, { mutationMayHaveApplied: true });
        };
        const late = ERRORS[code].wire === "TIMEOUT";
        for (const method of ["node.process.run", "node.process.cancel"] as const) {
          const refusal = await refusalOf(() => call(method));
          expect(refusal).to.include({
            code: "process_outcome_unknown",
            wire: late ? "TIMEOUT" : "UNAVAILABLE",
            // A run must never be sent again; a cancel changes nothing when it is.
            retrySafe: method === "node.process.cancel",
            mutationMayHaveApplied: true,
          });
          const first = method === "node.process.run" ? " before anything else" : "";
          expect(refusal.message).to.equal(
            `The outcome is unknown; read process ${PROCESS_ID} on node ${node.nodeId} with node.process.get${first}`,
          );
          expect(refusal.details).to.deep.equal({ nodeId: node.nodeId, processId: PROCESS_ID });
        }
        const read = await refusalOf(() => call("node.process.get"));
        expect(read).to.include({ code, mutationMayHaveApplied: false, retrySafe: true });
      });
    }

    it("with a group that could not be stopped keeps that word, and says how to settle it", async () => {
      answer = () => {
        throw new LemonError("process_stop_failed");
      };
      const refusal = await refusalOf(() => call("node.process.cancel"));
      expect(refusal).to.include({
        code: "process_stop_failed",
        mutationMayHaveApplied: true,
      });
      expect(refusal.message).to.include("node.process.get");
    });

    for (const code of [
      "path_not_allowed",
      "executable_not_found",
      "process_id_conflict",
      "process_generation_mismatch",
      "process_receipt_limit",
      "too_many_processes",
      "receipt_store_damaged",
      "receipt_store_unavailable",
      "durability_unproven",
      "no_space",
    ] as const) {
      it(`with ${code} of the node is refused in the node's own words, with the ids`, async () => {
        const own = new LemonError(code, { details: { extra: 1 } });
        answer = () => {
          throw own;
        };
        const refusal = await refusalOf(() => call("node.process.run"));
        expect(refusal).to.include({
          code,
          wire: ERRORS[code].wire,
          message: ERRORS[code].message,
          retrySafe: ERRORS[code].retrySafe,
          mutationMayHaveApplied: false,
        });
        expect(refusal.details).to.deep.equal({
          extra: 1,
          nodeId: node.nodeId,
          processId: PROCESS_ID,
        });
      });
    }

    it("because it met another worker life was not delivered, and may be sent again", async () => {
      answer = () => {
        throw new LemonError("node_superseded");
      };
      for (const method of METHODS) {
        expect(await refusalOf(() => call(method))).to.include({
          code: "node_offline",
          message: "The node changes its worker just now; nothing was delivered",
          retrySafe: true,
          mutationMayHaveApplied: false,
        });
      }
    });

    it("because a newer worker life took over is settled at once, as unknown", async () => {
      answer = () => new Promise(() => {});
      const running = refusalOf(() => call("node.process.run"));
      const reading = refusalOf(() => call("node.process.get"));
      await room.clock.advance(0);
      await room.nodes.methods["node.link.open"](opening(), node.session);
      expect((await running).code).to.equal("process_outcome_unknown");
      const read = await reading;
      expect(read).to.include({ code: "link_lost", mutationMayHaveApplied: false });
      expect(room.link.calls.at(-1)?.call.generation).to.equal(2);
    });

    it("because the hub saw the link go is settled at once; a renewal's other link keeps it", async () => {
      answer = () => new Promise(() => {});
      const running = refusalOf(() => call("node.process.run"));
      await room.clock.advance(0);
      const gone = (remaining: number, userKey = node.opening.linkKey): void =>
        room.nodes.linkEvent({
          type: "disconnected",
          connection: { id: "1", account: node.nodeKey, userKey, name: "n" },
          remaining,
          reason: "",
        });
      gone(1);
      gone(0, opening().linkKey);
      await room.clock.advance(0);
      expect((await room.row("worker-1")).status).to.equal("online");
      gone(0);
      expect((await running).code).to.equal("process_outcome_unknown");
      expect((await room.row("worker-1")).status).to.equal("offline");
    });

    it("because the leaf has come back over another link is settled at once, and the node stays online", async () => {
      answer = () => new Promise(() => {});
      const running = refusalOf(() => call("node.process.run"));
      await room.clock.advance(0);
      const back = (displaces: boolean, userKey = node.opening.linkKey): void =>
        room.nodes.linkEvent({
          type: "connected",
          connection: { id: "2", account: node.nodeKey, userKey, name: "n" },
          displaces,
        });
      let ended = false;
      void running.then(() => {
        ended = true;
      });
      back(false);
      back(true, opening().linkKey);
      await room.clock.advance(0);
      expect(ended).to.equal(false);
      back(true);
      expect((await running).code).to.equal("process_outcome_unknown");
      expect((await room.row("worker-1")).status).to.equal("online");
    });

    it("because the controller stops is settled, not left hanging", async () => {
      answer = () => new Promise(() => {});
      const running = refusalOf(() => call("node.process.run"));
      await room.clock.advance(0);
      await room.close();
      const refusal = await running;
      expect(refusal.code).to.equal("process_outcome_unknown");
      expect(refusal.mutationMayHaveApplied).to.equal(true);
    });

    it("ends one second after the broker's deadline even when the link forgot it", async () => {
      answer = () => new Promise(() => {});
      let ended = false;
      const running = refusalOf(() => call("node.process.run")).finally(() => {
        ended = true;
      });
      await room.clock.advance(10_999);
      expect(ended).to.equal(false);
      await room.clock.advance(1);
      const refusal = await running;
      expect([refusal.code, refusal.wire]).to.deep.equal(["process_outcome_unknown", "TIMEOUT"]);
    });
  });

  it("never lets what a run carries or brings back into a log", async () => {
    answer = () => receipt({ stdout: Buffer.from("canary-out"), outputTruncated: false });
    await room.nodes.methods["node.process.run"](
      runParams({
        argv: ["canary-argv"],
        cwd: "canary-cwd",
        stdinBase64: Buffer.from("canary-in").toString("base64"),
      }),
      operator(),
    );
    expect(room.system.text()).to.not.match(/canary/);
  });

  it("goes to a worker whose pings were the only thing it ever answered", async () => {
    const silent = await room.online("worker-2");
    room.link.workers.set(silent.nodeKey as NodeKey, ({ method }) => {
      if (method === "node.ping") return ping();
      throw new LemonError("capability_missing");
    });
    expect((await refusalOf(() => call("node.process.get", silent.nodeId))).code).to.equal(
      "capability_missing",
    );
  });

  describe("of a node that freezes", () => {
    const never = () => new Promise<never>(() => {});
    const freeze = () =>
      room.link.workers.set(
        node.nodeKey,
        ({ deadlineMs }) =>
          new Promise((_, reject) => {
            room.clock.after(deadlineMs, () => reject(new LemonError("timeout")));
          }),
      );

    it("ends as unknown when the node is offline by its silence, and not before", async () => {
      answer = never;
      const ended: string[] = [];
      const run = refusalOf(() => call("node.process.run")).finally(() => ended.push("run"));
      const get = refusalOf(() => call("node.process.get")).finally(() => ended.push("get"));
      await room.clock.advance(1_500);
      freeze();
      await room.clock.advance(4_999);
      expect((await room.row("worker-1")).status).to.equal("online");
      expect(ended).to.deep.equal([]);
      await room.clock.advance(2_000);
      expect((await room.row("worker-1")).status).to.equal("offline");
      expect(await run).to.include({ mutationMayHaveApplied: true, retrySafe: false });
      expect(await get).to.include({ mutationMayHaveApplied: false, retrySafe: true });
    });

    it("is taken again as soon as the node answers anything, also what nobody waits for any more", async () => {
      freeze();
      // Between two pings, with room for one more.
      await room.clock.advance(13_500);
      expect((await refusalOf(() => call("node.process.get"))).code).to.equal("node_offline");
      answer = () => receipt();
      room.link.workers.set(node.nodeKey, ({ method }) =>
        method === "node.ping" ? ping() : receipt(),
      );
      room.nodes.heard(node.nodeKey);
      await room.clock.advance(0);
      expect(await call("node.process.get")).to.include({ state: "completed" });
    });
  });
});
