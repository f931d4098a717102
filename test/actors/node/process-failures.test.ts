/** Proves what a client is told of a process call that fails on the way, or meets a node that freezes. */
import { expect } from "chai";
import { ERRORS, type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import { AskedProcesses, PROCESS_ID, PROCESS_METHODS } from "../../support/asked-processes.ts";
import { opening, ping } from "../../support/nodes-room.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a process method", () => {
  let asked: AskedProcesses;

  beforeEach(async () => {
    asked = await AskedProcesses.open();
  });
  afterEach(() => asked.close());

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
        asked.answer = () => {
          throw new LemonError(code, { mutationMayHaveApplied: true });
        };
        const late = ERRORS[code].wire === "TIMEOUT";
        for (const method of ["node.process.run", "node.process.cancel"] as const) {
          const refusal = await refusalOf(() => asked.call(method));
          expect(refusal).to.include({
            code: "process_outcome_unknown",
            wire: late ? "TIMEOUT" : "UNAVAILABLE",
            // A run must never be sent again; a cancel changes nothing when it is.
            retrySafe: method === "node.process.cancel",
            mutationMayHaveApplied: true,
          });
          const first = method === "node.process.run" ? " before anything else" : "";
          expect(refusal.message).to.equal(
            `The outcome is unknown; read process ${PROCESS_ID} on node ${asked.node.nodeId} with node.process.get${first}`,
          );
          expect(refusal.details).to.deep.equal({
            nodeId: asked.node.nodeId,
            processId: PROCESS_ID,
          });
        }
        const read = await refusalOf(() => asked.call("node.process.get"));
        expect(read).to.include({ code, mutationMayHaveApplied: false, retrySafe: true });
      });
    }

    it("with a group that could not be stopped keeps that word, and says how to settle it", async () => {
      asked.answer = () => {
        throw new LemonError("process_stop_failed");
      };
      const refusal = await refusalOf(() => asked.call("node.process.cancel"));
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
        asked.answer = () => {
          throw own;
        };
        const refusal = await refusalOf(() => asked.call("node.process.run"));
        expect(refusal).to.include({
          code,
          wire: ERRORS[code].wire,
          message: ERRORS[code].message,
          retrySafe: ERRORS[code].retrySafe,
          mutationMayHaveApplied: false,
        });
        expect(refusal.details).to.deep.equal({
          extra: 1,
          nodeId: asked.node.nodeId,
          processId: PROCESS_ID,
        });
      });
    }

    it("because it met another worker life was not delivered, and may be sent again", async () => {
      asked.answer = () => {
        throw new LemonError("node_superseded");
      };
      for (const method of PROCESS_METHODS) {
        expect(await refusalOf(() => asked.call(method))).to.include({
          code: "node_offline",
          message: "The node changes its worker just now; nothing was delivered",
          retrySafe: true,
          mutationMayHaveApplied: false,
        });
      }
    });

    it("because a newer worker life took over is settled at once, as unknown", async () => {
      asked.answer = () => new Promise(() => {});
      const running = refusalOf(() => asked.call("node.process.run"));
      const reading = refusalOf(() => asked.call("node.process.get"));
      await asked.room.clock.advance(0);
      await asked.room.nodes.methods["node.link.open"](opening(), asked.node.session);
      expect((await running).code).to.equal("process_outcome_unknown");
      const read = await reading;
      expect(read).to.include({ code: "link_lost", mutationMayHaveApplied: false });
      expect(asked.room.link.calls.at(-1)?.call.generation).to.equal(2);
    });

    it("because the hub saw the link go is settled at once; a renewal's other link keeps it", async () => {
      asked.answer = () => new Promise(() => {});
      const running = refusalOf(() => asked.call("node.process.run"));
      await asked.room.clock.advance(0);
      const gone = (remaining: number, userKey = asked.node.opening.linkKey): void =>
        asked.room.nodes.linkEvent({
          type: "disconnected",
          connection: { id: "1", account: asked.node.nodeKey, userKey, name: "n" },
          remaining,
          reason: "",
        });
      gone(1);
      gone(0, opening().linkKey);
      await asked.room.clock.advance(0);
      expect((await asked.room.row("worker-1")).status).to.equal("online");
      gone(0);
      expect((await running).code).to.equal("process_outcome_unknown");
      expect((await asked.room.row("worker-1")).status).to.equal("offline");
    });

    it("because the leaf has come back over another link is settled at once, and the node stays online", async () => {
      asked.answer = () => new Promise(() => {});
      const running = refusalOf(() => asked.call("node.process.run"));
      await asked.room.clock.advance(0);
      const back = (displaces: boolean, userKey = asked.node.opening.linkKey): void =>
        asked.room.nodes.linkEvent({
          type: "connected",
          connection: { id: "2", account: asked.node.nodeKey, userKey, name: "n" },
          displaces,
        });
      let ended = false;
      void running.then(() => {
        ended = true;
      });
      back(false);
      back(true, opening().linkKey);
      await asked.room.clock.advance(0);
      expect(ended).to.equal(false);
      back(true);
      expect((await running).code).to.equal("process_outcome_unknown");
      expect((await asked.room.row("worker-1")).status).to.equal("online");
    });

    it("because the controller stops is settled, not left hanging", async () => {
      asked.answer = () => new Promise(() => {});
      const running = refusalOf(() => asked.call("node.process.run"));
      await asked.room.clock.advance(0);
      await asked.room.close();
      const refusal = await running;
      expect(refusal.code).to.equal("process_outcome_unknown");
      expect(refusal.mutationMayHaveApplied).to.equal(true);
    });

    it("ends one second after the broker's deadline even when the link forgot it", async () => {
      asked.answer = () => new Promise(() => {});
      let ended = false;
      const running = refusalOf(() => asked.call("node.process.run")).finally(() => {
        ended = true;
      });
      await asked.room.clock.advance(10_999);
      expect(ended).to.equal(false);
      await asked.room.clock.advance(1);
      const refusal = await running;
      expect([refusal.code, refusal.wire]).to.deep.equal(["process_outcome_unknown", "TIMEOUT"]);
    });
  });

  describe("of a node that freezes", () => {
    const never = () => new Promise<never>(() => {});
    const freeze = () =>
      asked.room.link.workers.set(
        asked.node.nodeKey,
        ({ deadlineMs }) =>
          new Promise((_, reject) => {
            asked.room.clock.after(deadlineMs, () => reject(new LemonError("timeout")));
          }),
      );

    it("ends as unknown when the node is offline by its silence, and not before", async () => {
      asked.answer = never;
      const ended: string[] = [];
      const run = refusalOf(() => asked.call("node.process.run")).finally(() => ended.push("run"));
      const get = refusalOf(() => asked.call("node.process.get")).finally(() => ended.push("get"));
      await asked.room.clock.advance(1_500);
      freeze();
      await asked.room.clock.advance(4_999);
      expect((await asked.room.row("worker-1")).status).to.equal("online");
      expect(ended).to.deep.equal([]);
      await asked.room.clock.advance(2_000);
      expect((await asked.room.row("worker-1")).status).to.equal("offline");
      expect(await run).to.include({ mutationMayHaveApplied: true, retrySafe: false });
      expect(await get).to.include({ mutationMayHaveApplied: false, retrySafe: true });
    });

    it("is taken again as soon as the node answers anything, also what nobody waits for any more", async () => {
      freeze();
      // Between two pings, with room for one more.
      await asked.room.clock.advance(13_500);
      expect((await refusalOf(() => asked.call("node.process.get"))).code).to.equal("node_offline");
      asked.answer = () => asked.receipt();
      asked.room.link.workers.set(asked.node.nodeKey, ({ method }) =>
        method === "node.ping" ? ping() : asked.receipt(),
      );
      asked.room.nodes.heard(asked.node.nodeKey);
      await asked.room.clock.advance(0);
      expect(await asked.call("node.process.get")).to.include({ state: "completed" });
    });
  });
});
