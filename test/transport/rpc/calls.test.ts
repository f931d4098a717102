import type { NatsConnection } from "@nats-io/transport-node";
import { headers } from "@nats-io/transport-node";
import { expect } from "chai";
import { systemClock } from "../../../host/clock.ts";
import { LemonError } from "../../../protocol/errors.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import {
  type CallOptions,
  createRpcCaller,
  type RpcCaller,
} from "../../../transport/rpc/caller.ts";
import type { FlowLimits } from "../../../transport/rpc/flow.ts";
import { type RpcHandler, type RpcServer, serveRpc } from "../../../transport/rpc/server.ts";
import { callSubject, replySubject } from "../../../transport/rpc/subjects.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { logLines } from "../../support/log-lines.ts";
import type { TestServer } from "../../support/nats.ts";
import { plainServer } from "../../support/plain-nats.ts";
import { refusalOf } from "../../support/refusal.ts";

const MAX_PAYLOAD = 65_536;
const GENERATION = 7;
const NORMAL: Omit<CallOptions, "method" | "params"> = {
  generation: GENERATION,
  deadlineMs: 30_000,
  mutation: true,
};

describe("a call to a node", () => {
  let nats: TestServer;
  let controller: NatsConnection;
  let worker: NatsConnection;
  let caller: RpcCaller;
  let clock: FakeClock;
  let nodes = 0;
  const strays: NodeKey[] = [];
  const served: RpcServer[] = [];

  before(async () => {
    nats = await plainServer(MAX_PAYLOAD);
    controller = await nats.connect({});
    worker = await nats.connect({});
  });
  after(() => nats[Symbol.asyncDispose]());

  beforeEach(() => {
    clock = new FakeClock();
    strays.length = 0;
    const onStray = (node: NodeKey) => strays.push(node);
    caller = createRpcCaller({ connection: controller, clock, onStray });
  });
  afterEach(async () => {
    caller.stop();
    await Promise.all(served.splice(0).map((server) => server.stop()));
    expect(clock.pending, "timers left").to.equal(0);
  });

  /** A node of its own for each use: no test can hear another's. */
  const newNode = (): NodeKey => {
    nodes += 1;
    return `N${nodes}` as NodeKey;
  };

  async function serve(
    handlers: Readonly<Record<string, RpcHandler>>,
    options: { node?: NodeKey; log?: ReturnType<typeof logLines> } = {},
  ): Promise<NodeKey> {
    const node = options.node ?? newNode();
    served.push(
      serveRpc({
        connection: worker,
        nodeKey: node,
        generation: GENERATION,
        handlers,
        clock: systemClock,
        log: (options.log ?? logLines()).log,
      }),
    );
    await worker.flush();
    return node;
  }

  const call = (node: NodeKey, method: string, params: unknown = null, extra = {}) =>
    caller.call(node, { ...NORMAL, method, params, ...extra });

  describe("that is answered", () => {
    it("brings back what the handler returned, bytes as bytes", async () => {
      const node = await serve({ echo: (params) => params });
      const params = { text: "é", bytes: Buffer.from([0, 255]), list: [1.5, null, true] };
      expect(await call(node, "echo", params)).to.deep.equal(params);
    });

    it("brings back null where the handler returned nothing", async () => {
      const node = await serve({ nothing: () => undefined });
      expect(await call(node, "nothing")).to.equal(null);
    });

    it("tells the handler how long its caller waits", async () => {
      const node = await serve({ deadline: (_params, { deadlineMs }) => deadlineMs });
      expect(await call(node, "deadline", null, { deadlineMs: 1_234 })).to.equal(1_234);
    });

    it("does not wait for a slower call before it", async () => {
      const slow = Promise.withResolvers<string>();
      const node = await serve({ slow: () => slow.promise, fast: () => "fast" });
      const first = call(node, "slow");
      expect(await call(node, "fast")).to.equal("fast");
      slow.resolve("slow");
      expect(await first).to.equal("slow");
    });

    it("rejects with the handler's own error, flags and all", async () => {
      const node = await serve({
        fail() {
          throw new LemonError("no_space", { details: { needed: 7 }, retrySafe: false });
        },
      });
      expect(await refusalOf(() => call(node, "fail"))).to.deep.include({
        code: "no_space",
        details: { needed: 7 },
        retrySafe: false,
        mutationMayHaveApplied: false,
      });
    });

    it("rejects with internal_error for a crash, of which nothing crosses and nothing is logged but its class", async () => {
      const log = logLines();
      const node = await serve(
        {
          crash() {
            throw new TypeError("/home/someone/secret");
          },
        },
        { log },
      );
      const error = await refusalOf(() => call(node, "crash"));
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
      const node = await serve({ count: () => (heard += 1) });
      for (const generation of [GENERATION - 1, GENERATION + 1]) {
        const error = await refusalOf(() => call(node, "count", null, { generation }));
        expect(error).to.include({ code: "node_superseded", mutationMayHaveApplied: false });
      }
      expect(heard).to.equal(0);
    });

    it("is capability_missing for a method it does not offer", async () => {
      const node = await serve({});
      for (const method of ["unknown", "constructor", "__proto__", "toString"]) {
        expect(await refusalOf(() => call(node, method))).to.include({
          code: "capability_missing",
          mutationMayHaveApplied: false,
        });
      }
    });

    it("is response_too_large when the answer does not fit the link", async () => {
      const node = await serve({ grow: (bytes) => Buffer.alloc(Number(bytes)) });
      // Five bytes of frame around the largest answer that fits.
      const room = MAX_PAYLOAD - 5;
      expect(await call(node, "grow", room)).to.have.length(room);
      expect(await refusalOf(() => call(node, "grow", room + 1))).to.include({
        code: "response_too_large",
        mutationMayHaveApplied: true,
      });
    });
  });

  describe("that is never sent", () => {
    it("is too_large when the request does not fit the link", async () => {
      const node = await serve({ length: (params) => (params as Uint8Array).length });
      // Sixteen bytes of frame around the largest request that fits.
      const room = MAX_PAYLOAD - 16;
      expect(await call(node, "length", Buffer.alloc(room))).to.equal(room);
      expect(await refusalOf(() => call(node, "length", Buffer.alloc(room + 1)))).to.include({
        code: "too_large",
        mutationMayHaveApplied: false,
      });
    });

    it("is invalid_request without a deadline that can be met, or with a generation that is none", async () => {
      const node = newNode();
      for (const extra of [
        { deadlineMs: 0 },
        { deadlineMs: Number.NaN },
        { deadlineMs: Number.POSITIVE_INFINITY },
        { generation: 1.5 },
      ]) {
        expect(await refusalOf(() => call(node, "x", null, extra))).to.include({
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
        await controller.flush();
        await clock.advance(5);
        atMs += 5;
      }
      return atMs;
    }

    it("is sent again for 50 ms, is node_offline then, and nothing was delivered", async () => {
      const node = newNode();
      const before = controller.stats().outMsgs;
      let settled = false;
      const outcome = refusalOf(() => call(node, "x")).finally(() => {
        settled = true;
      });
      expect(await pass(() => settled, 100)).to.be.at.least(50);
      expect(await outcome).to.include({
        code: "node_offline",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
      expect(controller.stats().outMsgs - before).to.be.within(2, 11);
    });

    it("reaches a node that comes back within the 50 ms, once", async () => {
      const node = newNode();
      let heard = 0;
      const outcome = call(node, "count");
      await controller.flush();
      await clock.advance(20);
      await serve({ count: () => (heard += 1) }, { node });
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
      const node = await serve({
        hang(params) {
          arrived[Number(params)]?.resolve();
          return new Promise(() => undefined);
        },
      });
      // This server never comes to rest; it is left behind with the connection.
      served.pop();
      const mutation = refusalOf(() => call(node, "hang", 0, { deadlineMs: 1_000 }));
      const read = refusalOf(() => call(node, "hang", 1, { deadlineMs: 1_000, mutation: false }));
      await Promise.all(arrived.map(({ promise }) => promise));
      await clock.advance(999);
      expect(caller.snapshot().inFlight).to.equal(2);
      await clock.advance(1);
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
      const node = await serve({
        late() {
          arrived.resolve();
          return late.promise;
        },
        next: () => "next",
      });
      const first = refusalOf(() => call(node, "late", null, { deadlineMs: 1_000 }));
      await arrived.promise;
      await clock.advance(1_000);
      expect((await first).code).to.equal("timeout");
      expect(strays).to.deep.equal([]);
      late.resolve("late");
      expect(await call(node, "next")).to.equal("next");
      expect(strays).to.deep.equal([node]);
    });
  });

  describe("whose answer is forged", () => {
    /** A node that speaks the subjects itself: gets the call's id and says what it wants. */
    async function forger(answer: (id: string, node: NodeKey) => void): Promise<NodeKey> {
      const node = newNode();
      worker.subscribe(callSubject(node), {
        callback: (_error, message) => answer(message.reply?.split(".").at(-1) ?? "", node),
      });
      await worker.flush();
      return node;
    }

    it("ignores what another node says under the call's id, and takes the node's own", async () => {
      const other = newNode();
      const node = await forger((id, self) => {
        worker.publish(
          replySubject(other, id),
          Uint8Array.from([0x92, 0x00, 0xa5, ...Buffer.from("other")]),
        );
        worker.publish(
          replySubject(self, "no-such-call"),
          Uint8Array.from([0x92, 0x00, 0xa1, 0x78]),
        );
        worker.publish(
          replySubject(self, id),
          Uint8Array.from([0x92, 0x00, 0xa3, ...Buffer.from("own")]),
        );
        worker.publish(
          replySubject(self, id),
          Uint8Array.from([0x92, 0x00, 0xa5, ...Buffer.from("twice")]),
        );
      });
      expect(await call(node, "x")).to.equal("own");
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
          worker.publish(replySubject(self, id), Uint8Array.from(bytes)),
        );
        expect(await refusalOf(() => call(node, "x"))).to.include({
          code: "invalid_remote_payload",
          retrySafe: false,
          mutationMayHaveApplied: true,
        });
        expect(await refusalOf(() => call(node, "x", null, { mutation: false }))).to.include({
          code: "invalid_remote_payload",
          retrySafe: true,
          mutationMayHaveApplied: false,
        });
      });
    }

    it("believes a node that says nobody was there only about itself", async () => {
      const forged = headers(503, "No Responders");
      const victim = await serve({ x: () => "fine" });
      const node = await forger((id) =>
        worker.publish(replySubject(victim, id), new Uint8Array(), { headers: forged }),
      );
      const lost = refusalOf(() => call(node, "x", null, { deadlineMs: 500 }));
      expect(await call(victim, "x")).to.equal("fine");
      await clock.advance(500);
      expect((await lost).code).to.equal("timeout");
    });
  });

  describe("over a link that is lost", () => {
    async function hanging(): Promise<{ node: NodeKey; arrived: Promise<void>; end: () => void }> {
      const arrived = Promise.withResolvers<void>();
      const end = Promise.withResolvers<void>();
      const node = await serve({
        hang() {
          arrived.resolve();
          return end.promise;
        },
      });
      return { node, arrived: arrived.promise, end: end.resolve };
    }

    it("is settled at once, as uncertain, and no other node's call with it", async () => {
      const cut = await hanging();
      const whole = await hanging();
      const mutation = refusalOf(() => call(cut.node, "hang"));
      const read = refusalOf(() => call(cut.node, "hang", null, { mutation: false }));
      const other = call(whole.node, "hang");
      await Promise.all([cut.arrived, whole.arrived]);
      caller.settleNode(cut.node, "link_lost");
      expect(await mutation).to.include({
        code: "link_lost",
        retrySafe: false,
        mutationMayHaveApplied: true,
      });
      expect(await read).to.include({
        code: "link_lost",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
      whole.end();
      cut.end();
      expect(await other).to.equal(null);
    });

    it("is refused as not sent when it still waited for its turn", async () => {
      caller.stop();
      caller = createRpcCaller({ connection: controller, clock, limits: { nodeBytes: 1 } });
      const { node, arrived, end } = await hanging();
      const sent = refusalOf(() => call(node, "hang"));
      const waiting = refusalOf(() => call(node, "hang"));
      await arrived;
      expect(caller.snapshot()).to.include({ inFlight: 2, waiting: 1 });
      caller.settleNode(node, "link_lost");
      expect((await sent).code).to.equal("link_lost");
      expect(await waiting).to.include({ code: "node_offline", mutationMayHaveApplied: false });
      expect(caller.snapshot()).to.deep.equal({ inFlight: 0, waiting: 0, bytesOnLinks: 0 });
      end();
    });

    it("is settled with the reason that the one who cut it gives", async () => {
      const { node, arrived, end } = await hanging();
      const revoked = refusalOf(() => call(node, "hang"));
      await arrived;
      caller.settleNode(node, "node_revoked");
      expect(await revoked).to.include({ code: "node_revoked", mutationMayHaveApplied: true });
      end();
    });
  });

  describe("that shares the links with others", () => {
    it("waits for its turn, and its deadline counts that too: then nothing was sent", async () => {
      caller.stop();
      caller = createRpcCaller({ connection: controller, clock, limits: { nodeBytes: 1 } });
      const release = Promise.withResolvers<void>();
      let heard = 0;
      const node = await serve({
        async first() {
          await release.promise;
        },
        second: () => (heard += 1),
      });
      const first = call(node, "first");
      const second = refusalOf(() => call(node, "second", null, { deadlineMs: 1_000 }));
      await clock.advance(1_000);
      expect(await second).to.include({
        code: "timeout",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
      release.resolve();
      await first;
      expect(heard).to.equal(0);
    });

    it("is rate_limited when its caller has too much waiting, while another's call still gets its turn", async () => {
      caller.stop();
      const limits: Partial<FlowLimits> = { nodeBytes: 1, waitingCallsPerCaller: 2 };
      caller = createRpcCaller({ connection: controller, clock, limits });
      const release = Promise.withResolvers<void>();
      const node = await serve({ wait: () => release.promise });
      const greedy = [0, 1, 2].map(() => call(node, "wait", null, { caller: "greedy" }));
      expect(await refusalOf(() => call(node, "wait", null, { caller: "greedy" }))).to.include({
        code: "rate_limited",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
      const modest = call(node, "wait", null, { caller: "modest" });
      release.resolve();
      await Promise.all([...greedy, modest]);
    });

    it("stops counting as on the link after 10 s, so that long runs do not fill it, and is answered all the same", async () => {
      const release = Promise.withResolvers<string>();
      const arrived = Promise.withResolvers<void>();
      const node = await serve({
        run() {
          arrived.resolve();
          return release.promise;
        },
      });
      const run = call(node, "run", null, { deadlineMs: 1_800_000 });
      await arrived.promise;
      await clock.advance(9_999);
      expect(caller.snapshot().bytesOnLinks).to.be.above(65_536);
      await clock.advance(1);
      expect(caller.snapshot()).to.deep.equal({ inFlight: 1, waiting: 0, bytesOnLinks: 0 });
      release.resolve("done");
      expect(await run).to.equal("done");
    });
  });

  describe("while its node renews the link", () => {
    it("waits, and goes when the node is back", async () => {
      let heard = 0;
      const node = await serve({ count: () => (heard += 1) });
      caller.hold(node);
      const outcome = call(node, "count");
      await clock.advance(2_999);
      expect([heard, caller.snapshot().waiting]).to.deep.equal([0, 1]);
      caller.resume(node);
      expect(await outcome).to.equal(1);
      await clock.advance(1_000);
    });

    it("is known to be in renewal until a second after it: the old link's end may be told late", async () => {
      const node = newNode();
      expect(caller.renewal(node)).to.equal(null);
      caller.hold(node);
      expect(caller.renewal(node)).to.be.a("number");
      caller.resume(node);
      await clock.advance(999);
      expect(caller.renewal(node)).to.be.a("number");
      await clock.advance(1);
      expect(caller.renewal(node)).to.equal(null);
    });

    it("waits no longer once that link is gone: what follows is another one", async () => {
      const node = await serve({ ok: () => "ok" });
      caller.hold(node);
      caller.settleNode(node, "link_lost");
      expect(caller.renewal(node)).to.equal(null);
      expect(await call(node, "ok")).to.equal("ok");
    });

    it("waits 3 s at most, however often the node asks", async () => {
      const node = await serve({ ok: () => "ok" });
      caller.hold(node);
      const outcome = call(node, "ok");
      await clock.advance(2_000);
      caller.hold(node);
      expect(caller.snapshot().waiting).to.equal(1);
      await clock.advance(1_000);
      expect(await outcome).to.equal("ok");
      await clock.advance(1_000);
    });

    it("gets its answer after the renewal when the node keeps answers back meanwhile", async () => {
      const node = await serve({ ok: () => "ok" });
      const server = served.at(-1);
      server?.hold();
      const outcome = call(node, "ok");
      let answered = false;
      void outcome.then(() => {
        answered = true;
      });
      await worker.flush();
      await controller.flush();
      expect(answered).to.equal(false);
      server?.resume();
      expect(await outcome).to.equal("ok");
    });
  });

  describe("at the end of things", () => {
    it("is settled as uncertain when its caller stops, and no further one is taken", async () => {
      const arrived = Promise.withResolvers<void>();
      const release = Promise.withResolvers<void>();
      const node = await serve({
        wait() {
          arrived.resolve();
          return release.promise;
        },
      });
      const outcome = refusalOf(() => call(node, "wait"));
      await arrived.promise;
      caller.stop();
      caller.stop();
      expect(await outcome).to.include({ code: "link_lost", mutationMayHaveApplied: true });
      expect(await refusalOf(() => call(node, "wait"))).to.include({
        code: "unavailable",
        mutationMayHaveApplied: false,
      });
      release.resolve();
    });

    it("is answered by a server that stops meanwhile, which takes no other", async () => {
      const arrived = Promise.withResolvers<void>();
      const release = Promise.withResolvers<string>();
      const node = await serve({
        wait() {
          arrived.resolve();
          return release.promise;
        },
      });
      const outcome = call(node, "wait");
      await arrived.promise;
      const stopped = served.pop()?.stop();
      await worker.flush();
      const late = refusalOf(() => call(node, "wait"));
      await controller.flush();
      for (let step = 0; step < 12; step++) {
        await clock.advance(5);
        await controller.flush();
      }
      expect((await late).code).to.equal("node_offline");
      release.resolve("answered");
      expect(await outcome).to.equal("answered");
      await stopped;
    });
  });
});

describe("the controller's connection", () => {
  it("settles what was sent as uncertain when it is cut, refuses what comes meanwhile, and sends none of it later", async () => {
    await using nats = await plainServer();
    const controller = await nats.connect({});
    const worker = await nats.connect({});
    const node = "N" as NodeKey;
    const heard: unknown[] = [];
    const arrived = Promise.withResolvers<void>();
    const server = serveRpc({
      connection: worker,
      nodeKey: node,
      generation: GENERATION,
      clock: systemClock,
      log: logLines().log,
      handlers: {
        note(params) {
          heard.push(params);
          arrived.resolve();
          return params === "before" ? new Promise(() => undefined) : params;
        },
      },
    });
    await worker.flush();
    const caller = createRpcCaller({ connection: controller, clock: systemClock });
    const call = (params: string) => caller.call(node, { ...NORMAL, method: "note", params });
    const back = (connection: NatsConnection) =>
      (async () => {
        for await (const status of connection.status()) if (status.type === "reconnect") return;
      })();
    const reconnected = Promise.all([back(controller), back(worker)]);

    const before = refusalOf(() => call("before"));
    await arrived.promise;
    await nats.kill();
    expect(await before).to.include({ code: "link_lost", mutationMayHaveApplied: true });
    expect(await refusalOf(() => call("meanwhile"))).to.include({
      code: "unavailable",
      retrySafe: true,
      mutationMayHaveApplied: false,
    });

    await nats.restart();
    await reconnected;
    await worker.flush();
    expect(await call("after")).to.equal("after");
    expect(heard).to.deep.equal(["before", "after"]);
    caller.stop();
    void server;
  });
});
