/** Proves native processes as a client asks for them: what is passed on, and what is not sent. */
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import {
  nodeProcessCancel,
  nodeProcessGet,
  nodeProcessRun,
} from "../../../protocol/methods/process.ts";
import { AskedProcesses, PROCESS_ID, PROCESS_METHODS } from "../../support/asked-processes.ts";
import { CAPABILITIES, opening, operator, ping } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a process method", () => {
  let asked: AskedProcesses;

  beforeEach(async () => {
    asked = await AskedProcesses.open();
  });
  afterEach(() => asked.close());

  describe("that is passed on", () => {
    it("carries the run's fields with bytes as bytes, to the worker life that is current", async () => {
      asked.answer = () => asked.receipt();
      const asker = operator();
      await asked.room.nodes.methods["node.process.run"](asked.runParams(), asker);
      expect(asked.room.link.calls.at(-1)).to.deep.equal({
        account: asked.node.nodeKey,
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
      asked.answer = () => asked.receipt();
      for (const [method, deadlineMs, mutation] of [
        ["node.process.run", 10_000, true],
        ["node.process.get", 30_000, false],
        ["node.process.cancel", 30_000, true],
      ] as const) {
        await asked.call(method);
        expect(asked.room.link.calls.at(-1)?.call).to.include({ deadlineMs, mutation });
      }
    });

    it("answers the seven fields of the contract, and nothing else", async () => {
      asked.answer = () => asked.receipt();
      for (const [method, spec] of [
        ["node.process.run", nodeProcessRun],
        ["node.process.get", nodeProcessGet],
        ["node.process.cancel", nodeProcessCancel],
      ] as const) {
        const answered = await asked.call(method);
        expect(answered).to.deep.equal({
          processId: PROCESS_ID,
          nodeId: asked.node.nodeId,
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
      asked.answer = () => asked.receipt({ stdout: around.subarray(2, 4) });
      expect((await asked.call("node.process.get")).stdoutBase64).to.equal("AQI=");
    });

    it("keeps null apart from empty output, and absence for get alone", async () => {
      for (const state of ["running", "outcome_unknown", "cancelled", "not_found"] as const) {
        asked.answer = () => asked.bare(state);
        const read = await asked.call("node.process.get");
        expect(read).to.deep.include({ state, stdoutBase64: null, stderrBase64: null });
        for (const method of ["node.process.run", "node.process.cancel"] as const) {
          if (state === "not_found") {
            const refusal = await refusalOf(() => asked.call(method));
            expect(refusal.code).to.equal("process_outcome_unknown");
          } else {
            expect((await asked.call(method)).state).to.equal(state);
          }
        }
      }
    });

    it("does not hold up another to the same node", async () => {
      const slow = Promise.withResolvers<unknown>();
      asked.answer = () => slow.promise;
      const first = asked.call("node.process.run");
      await asked.room.clock.advance(0);
      asked.answer = () => asked.receipt();
      await asked.call("node.process.get");
      slow.resolve(asked.receipt());
      await first;
    });
  });

  describe("that is not sent", () => {
    const sent = (): number =>
      asked.room.link.calls.filter(({ call: { method } }) => method !== "node.ping").length;

    it("names a node that is not there, or is named by anything but its id", async () => {
      for (const method of PROCESS_METHODS) {
        for (const selector of [
          "worker-1",
          asked.node.nodeId.toUpperCase(),
          ` ${asked.node.nodeId}`,
        ]) {
          const refusal = await refusalOf(() => asked.call(method, selector));
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
      asked.room.link.workers.delete(asked.node.nodeKey);
      asked.room.nodes.linkEvent({
        type: "disconnected",
        connection: {
          id: "1",
          account: asked.node.nodeKey,
          userKey: asked.node.opening.linkKey,
          name: asked.node.opening.serverName,
        },
        remaining: 0,
        reason: "",
      });
      await asked.room.clock.advance(0);
      for (const method of PROCESS_METHODS) {
        const refusal = await refusalOf(() => asked.call(method));
        expect(refusal).to.include({
          code: "node_offline",
          wire: "UNAVAILABLE",
          retrySafe: true,
          mutationMayHaveApplied: false,
        });
        expect(refusal.details).to.deep.equal({ nodeId: asked.node.nodeId, processId: PROCESS_ID });
      }
      expect(sent()).to.equal(0);
    });

    it("asks a node that never opened a link, or is revoked", async () => {
      const { nodeId } = await asked.room.join("worker-2");
      expect((await refusalOf(() => asked.call("node.process.get", nodeId))).code).to.equal(
        "node_offline",
      );
      await asked.room.nodes.methods["node.revoke"]({ nodeId: asked.node.nodeId }, operator());
      const refusal = await refusalOf(() => asked.call("node.process.run"));
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
        await asked.room.nodes.methods["node.link.open"](life, asked.node.session);
        await asked.room.clock.advance(100);
        const refusal = await refusalOf(() => asked.call("node.process.run"));
        expect(refusal).to.include({
          code: "capability_missing",
          wire: "UNAVAILABLE",
          mutationMayHaveApplied: false,
        });
        asked.answer = () => asked.receipt();
        await asked.call("node.process.get");
      }
      const none = opening({ capabilities: JSON.parse('{"__proto__":{"version":1}}') });
      await asked.room.nodes.methods["node.link.open"](none, asked.node.session);
      await asked.room.clock.advance(100);
      for (const method of PROCESS_METHODS) {
        expect((await refusalOf(() => asked.call(method))).code).to.equal("capability_missing");
      }
    });

    it("meets nobody on the link: definite, and the node is offline from then on", async () => {
      asked.room.link.workers.delete(asked.node.nodeKey);
      const refusal = await refusalOf(() => asked.call("node.process.run"));
      expect(refusal).to.include({ code: "node_offline", mutationMayHaveApplied: false });
      expect((await asked.room.row("worker-1")).status).to.equal("offline");
    });
  });

  it("never lets what a run carries or brings back into a log", async () => {
    asked.answer = () =>
      asked.receipt({ stdout: Buffer.from("canary-out"), outputTruncated: false });
    await asked.room.nodes.methods["node.process.run"](
      asked.runParams({
        argv: ["canary-argv"],
        cwd: "canary-cwd",
        stdinBase64: Buffer.from("canary-in").toString("base64"),
      }),
      operator(),
    );
    expect(asked.room.system.text()).to.not.match(/canary/);
  });

  it("goes to a worker whose pings were the only thing it ever answered", async () => {
    const silent = await asked.room.online("worker-2");
    asked.room.link.workers.set(silent.nodeKey as NodeKey, ({ method }) => {
      if (method === "node.ping") return ping();
      throw new LemonError("capability_missing");
    });
    expect((await refusalOf(() => asked.call("node.process.get", silent.nodeId))).code).to.equal(
      "capability_missing",
    );
  });
});
