/** Proves calls to a node: answered, refused, never sent, met by nobody, not answered, forged. */
import { headers } from "@nats-io/transport-node";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import { callSubject, replySubject } from "../../../transport/rpc/subjects.ts";
import { CalledNodes, GENERATION, MAX_PAYLOAD } from "../../support/called-nodes.ts";
import { logLines } from "../../support/log-lines.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a call to a node", () => {
  let rpc: CalledNodes;

  before(async () => {
    rpc = await CalledNodes.open();
  });
  after(() => rpc.close());
  beforeEach(() => rpc.begin());
  afterEach(() => rpc.end());

  describe("that is answered", () => {
    it("brings back what the handler returned, bytes as bytes", async () => {
      const node = await rpc.serve({ echo: (params) => params });
      const params = { text: "é", bytes: Buffer.from([0, 255]), list: [1.5, null, true] };
      expect(await rpc.call(node, "echo", params)).to.deep.equal(params);
    });

    it("brings back null where the handler returned nothing", async () => {
      const node = await rpc.serve({ nothing: () => undefined });
      expect(await rpc.call(node, "nothing")).to.equal(null);
    });

    it("tells the handler how long its caller waits", async () => {
      const node = await rpc.serve({ deadline: (_params, { deadlineMs }) => deadlineMs });
      expect(await rpc.call(node, "deadline", null, { deadlineMs: 1_234 })).to.equal(1_234);
    });

    it("does not wait for a slower call before it", async () => {
      const slow = Promise.withResolvers<string>();
      const node = await rpc.serve({ slow: () => slow.promise, fast: () => "fast" });
      const first = rpc.call(node, "slow");
      expect(await rpc.call(node, "fast")).to.equal("fast");
      slow.resolve("slow");
      expect(await first).to.equal("slow");
    });

    it("rejects with the handler's own error, flags and all", async () => {
      const node = await rpc.serve({
        fail() {
          throw new LemonError("no_space", { details: { needed: 7 }, retrySafe: false });
        },
      });
      expect(await refusalOf(() => rpc.call(node, "fail"))).to.deep.include({
        code: "no_space",
        details: { needed: 7 },
        retrySafe: false,
        mutationMayHaveApplied: false,
      });
    });

    it("rejects with internal_error for a crash, of which nothing crosses and nothing is logged but its class", async () => {
      const log = logLines();
      const node = await rpc.serve(
        {
          crash() {
            throw new TypeError("/home/someone/secret");
          },
        },
        { log },
      );
      const error = await refusalOf(() => rpc.call(node, "crash"));
      expect(error).to.include({ code: "internal_error", mutationMayHaveApplied: true });
      expect(`${error.message} ${JSON.stringify(error.details)} ${log.text()}`).not.to.include(
        "secret",
      );
      expect(log.text()).to.include("TypeError");
    });
  });

  describe("that the node refuses", () => {
    it("is node_superseded for another worker life, and its handler never hears of it", async () => {
      let heard = 0;
      const node = await rpc.serve({ count: () => (heard += 1) });
      for (const generation of [GENERATION - 1, GENERATION + 1]) {
        const error = await refusalOf(() => rpc.call(node, "count", null, { generation }));
        expect(error).to.include({ code: "node_superseded", mutationMayHaveApplied: false });
      }
      expect(heard).to.equal(0);
    });

    it("is capability_missing for a method it does not offer", async () => {
      const node = await rpc.serve({});
      for (const method of ["unknown", "constructor", "__proto__", "toString"]) {
        expect(await refusalOf(() => rpc.call(node, method))).to.include({
          code: "capability_missing",
          mutationMayHaveApplied: false,
        });
      }
    });

    it("is response_too_large when the answer does not fit the link", async () => {
      const node = await rpc.serve({ grow: (bytes) => Buffer.alloc(Number(bytes)) });
      // Five bytes of frame around the largest answer that fits.
      const room = MAX_PAYLOAD - 5;
      expect(await rpc.call(node, "grow", room)).to.have.length(room);
      expect(await refusalOf(() => rpc.call(node, "grow", room + 1))).to.include({
        code: "response_too_large",
        mutationMayHaveApplied: true,
      });
    });
  });

  describe("that is never sent", () => {
    it("is too_large when the request does not fit the link", async () => {
      const node = await rpc.serve({ length: (params) => (params as Uint8Array).length });
      // Sixteen bytes of frame around the largest request that fits.
      const room = MAX_PAYLOAD - 16;
      expect(await rpc.call(node, "length", Buffer.alloc(room))).to.equal(room);
      expect(await refusalOf(() => rpc.call(node, "length", Buffer.alloc(room + 1)))).to.include({
        code: "too_large",
        mutationMayHaveApplied: false,
      });
    });

    it("is invalid_request without a deadline that can be met, or with a generation that is none", async () => {
      const node = rpc.newNode();
      for (const extra of [
        { deadlineMs: 0 },
        { deadlineMs: Number.NaN },
        { deadlineMs: Number.POSITIVE_INFINITY },
        { generation: 1.5 },
      ]) {
        expect(await refusalOf(() => rpc.call(node, "x", null, extra))).to.include({
          code: "invalid_request",
        });
      }
    });
  });

  describe("that meets nobody", () => {
    /** Moves time on in small steps, each with the server's answers in, until `done`. */
    async function pass(done: () => boolean, atMostMs: number): Promise<number> {
      let atMs = 0;
      while (!done()) {
        expect(atMs, "ms that passed").to.be.at.most(atMostMs);
        await rpc.controller.flush();
        await rpc.clock.advance(5);
        atMs += 5;
      }
      return atMs;
    }

    it("is sent again for 50 ms, is node_offline then, and nothing was delivered", async () => {
      const node = rpc.newNode();
      const before = rpc.controller.stats().outMsgs;
      let settled = false;
      const outcome = refusalOf(() => rpc.call(node, "x")).finally(() => {
        settled = true;
      });
      expect(await pass(() => settled, 100)).to.be.at.least(50);
      expect(await outcome).to.include({
        code: "node_offline",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
      expect(rpc.controller.stats().outMsgs - before).to.be.within(2, 11);
    });

    it("reaches a node that comes back within the 50 ms, once", async () => {
      const node = rpc.newNode();
      let heard = 0;
      const outcome = rpc.call(node, "count");
      await rpc.controller.flush();
      await rpc.clock.advance(20);
      await rpc.serve({ count: () => (heard += 1) }, { node });
      const answered = outcome.then(() => true);
      let done = false;
      void answered.then(() => {
        done = true;
      });
      await pass(() => done, 50);
      expect(heard).to.equal(1);
    });
  });

  describe("that is not answered", () => {
    it("ends with its deadline: uncertain for a mutation, safe to repeat for a read", async () => {
      const arrived = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const node = await rpc.serve({
        hang(params) {
          arrived[Number(params)]?.resolve();
          return new Promise(() => undefined);
        },
      });
      // This server never comes to rest; it is left behind with the connection.
      rpc.served.pop();
      const mutation = refusalOf(() => rpc.call(node, "hang", 0, { deadlineMs: 1_000 }));
      const read = refusalOf(() =>
        rpc.call(node, "hang", 1, { deadlineMs: 1_000, mutation: false }),
      );
      await Promise.all(arrived.map(({ promise }) => promise));
      await rpc.clock.advance(999);
      expect(rpc.caller.snapshot().inFlight).to.equal(2);
      await rpc.clock.advance(1);
      expect(await mutation).to.include({
        code: "timeout",
        retrySafe: false,
        mutationMayHaveApplied: true,
      });
      expect(await read).to.include({
        code: "timeout",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
    });

    it("drops the answer that comes after its end but for telling who gave it, and the next call is not confused by it", async () => {
      const late = Promise.withResolvers<string>();
      const arrived = Promise.withResolvers<void>();
      const node = await rpc.serve({
        late() {
          arrived.resolve();
          return late.promise;
        },
        next: () => "next",
      });
      const first = refusalOf(() => rpc.call(node, "late", null, { deadlineMs: 1_000 }));
      await arrived.promise;
      await rpc.clock.advance(1_000);
      expect((await first).code).to.equal("timeout");
      expect(rpc.strays).to.deep.equal([]);
      late.resolve("late");
      expect(await rpc.call(node, "next")).to.equal("next");
      expect(rpc.strays).to.deep.equal([node]);
    });
  });

  describe("whose answer is forged", () => {
    /** A node that speaks the subjects itself: gets the call's id and says what it wants. */
    async function forger(answer: (id: string, node: NodeKey) => void): Promise<NodeKey> {
      const node = rpc.newNode();
      rpc.worker.subscribe(callSubject(node), {
        callback: (_error, message) => answer(message.reply?.split(".").at(-1) ?? "", node),
      });
      await rpc.worker.flush();
      return node;
    }

    it("ignores what another node says under the call's id, and takes the node's own", async () => {
      const other = rpc.newNode();
      const node = await forger((id, self) => {
        rpc.worker.publish(
          replySubject(other, id),
          Uint8Array.from([0x92, 0x00, 0xa5, ...Buffer.from("other")]),
        );
        rpc.worker.publish(
          replySubject(self, "no-such-call"),
          Uint8Array.from([0x92, 0x00, 0xa1, 0x78]),
        );
        rpc.worker.publish(
          replySubject(self, id),
          Uint8Array.from([0x92, 0x00, 0xa3, ...Buffer.from("own")]),
        );
        rpc.worker.publish(
          replySubject(self, id),
          Uint8Array.from([0x92, 0x00, 0xa5, ...Buffer.from("twice")]),
        );
      });
      expect(await rpc.call(node, "x")).to.equal("own");
    });

    for (const [name, bytes] of Object.entries({
      "no msgpack": [0xc1],
      "an answer of a foreign shape": [0x93, 0x00, 0x01, 0x02],
      "an answer of an unknown kind": [0x92, 0x02, 0x01],
      "a failure without a code": [0x92, 0x01, 0x80],
      nothing: [],
    })) {
      it(`is invalid_remote_payload when the node sends ${name}`, async () => {
        const node = await forger((id, self) =>
          rpc.worker.publish(replySubject(self, id), Uint8Array.from(bytes)),
        );
        expect(await refusalOf(() => rpc.call(node, "x"))).to.include({
          code: "invalid_remote_payload",
          retrySafe: false,
          mutationMayHaveApplied: true,
        });
        expect(await refusalOf(() => rpc.call(node, "x", null, { mutation: false }))).to.include({
          code: "invalid_remote_payload",
          retrySafe: true,
          mutationMayHaveApplied: false,
        });
      });
    }

    it("believes a node that says nobody was there only about itself", async () => {
      const forged = headers(503, "No Responders");
      const victim = await rpc.serve({ x: () => "fine" });
      const node = await forger((id) =>
        rpc.worker.publish(replySubject(victim, id), new Uint8Array(), { headers: forged }),
      );
      const lost = refusalOf(() => rpc.call(node, "x", null, { deadlineMs: 500 }));
      expect(await rpc.call(victim, "x")).to.equal("fine");
      await rpc.clock.advance(500);
      expect((await lost).code).to.equal("timeout");
    });
  });
});
