/** Proves calls to a node over links that are lost, shared, renewed and closed. */
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import { systemClock } from "../../../host/clock.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import { createRpcCaller } from "../../../transport/rpc/caller.ts";
import { serveRpc } from "../../../transport/rpc/server.ts";
import { CalledNodes, GENERATION, NORMAL_CALL } from "../../support/called-nodes.ts";
import { logLines } from "../../support/log-lines.ts";
import { plainServer } from "../../support/plain-nats.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a call to a node", () => {
  let rpc: CalledNodes;

  before(async () => {
    rpc = await CalledNodes.open();
  });
  after(() => rpc.close());
  beforeEach(() => rpc.begin());
  afterEach(() => rpc.end());

  describe("over a link that is lost", () => {
    async function hanging(): Promise<{ node: NodeKey; arrived: Promise<void>; end: () => void }> {
      const arrived = Promise.withResolvers<void>();
      const end = Promise.withResolvers<void>();
      const node = await rpc.serve({
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
      const mutation = refusalOf(() => rpc.call(cut.node, "hang"));
      const read = refusalOf(() => rpc.call(cut.node, "hang", null, { mutation: false }));
      const other = rpc.call(whole.node, "hang");
      await Promise.all([cut.arrived, whole.arrived]);
      rpc.caller.settleNode(cut.node, "link_lost");
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
      rpc.limit({ nodeBytes: 1 });
      const { node, arrived, end } = await hanging();
      const sent = refusalOf(() => rpc.call(node, "hang"));
      const waiting = refusalOf(() => rpc.call(node, "hang"));
      await arrived;
      expect(rpc.caller.snapshot()).to.include({ inFlight: 2, waiting: 1 });
      rpc.caller.settleNode(node, "link_lost");
      expect((await sent).code).to.equal("link_lost");
      expect(await waiting).to.include({ code: "node_offline", mutationMayHaveApplied: false });
      expect(rpc.caller.snapshot()).to.deep.equal({ inFlight: 0, waiting: 0, bytesOnLinks: 0 });
      end();
    });

    it("is settled with the reason that the one who cut it gives", async () => {
      const { node, arrived, end } = await hanging();
      const revoked = refusalOf(() => rpc.call(node, "hang"));
      await arrived;
      rpc.caller.settleNode(node, "node_revoked");
      expect(await revoked).to.include({ code: "node_revoked", mutationMayHaveApplied: true });
      end();
    });
  });

  describe("that shares the links with others", () => {
    it("waits for its turn, and its deadline counts that too: then nothing was sent", async () => {
      rpc.limit({ nodeBytes: 1 });
      const release = Promise.withResolvers<void>();
      let heard = 0;
      const node = await rpc.serve({
        async first() {
          await release.promise;
        },
        second: () => (heard += 1),
      });
      const first = rpc.call(node, "first");
      const second = refusalOf(() => rpc.call(node, "second", null, { deadlineMs: 1_000 }));
      await rpc.clock.advance(1_000);
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
      rpc.limit({ nodeBytes: 1, waitingCallsPerCaller: 2 });
      const release = Promise.withResolvers<void>();
      const node = await rpc.serve({ wait: () => release.promise });
      const greedy = [0, 1, 2].map(() => rpc.call(node, "wait", null, { caller: "greedy" }));
      expect(await refusalOf(() => rpc.call(node, "wait", null, { caller: "greedy" }))).to.include({
        code: "rate_limited",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
      const modest = rpc.call(node, "wait", null, { caller: "modest" });
      release.resolve();
      await Promise.all([...greedy, modest]);
    });

    it("stops counting as on the link after 10 s, so that long runs do not fill it, and is answered all the same", async () => {
      const release = Promise.withResolvers<string>();
      const arrived = Promise.withResolvers<void>();
      const node = await rpc.serve({
        run() {
          arrived.resolve();
          return release.promise;
        },
      });
      const run = rpc.call(node, "run", null, { deadlineMs: 1_800_000 });
      await arrived.promise;
      await rpc.clock.advance(9_999);
      expect(rpc.caller.snapshot().bytesOnLinks).to.be.above(65_536);
      await rpc.clock.advance(1);
      expect(rpc.caller.snapshot()).to.deep.equal({ inFlight: 1, waiting: 0, bytesOnLinks: 0 });
      release.resolve("done");
      expect(await run).to.equal("done");
    });
  });

  describe("while its node renews the link", () => {
    it("waits, and goes when the node is back", async () => {
      let heard = 0;
      const node = await rpc.serve({ count: () => (heard += 1) });
      rpc.caller.hold(node);
      const outcome = rpc.call(node, "count");
      await rpc.clock.advance(2_999);
      expect([heard, rpc.caller.snapshot().waiting]).to.deep.equal([0, 1]);
      rpc.caller.resume(node);
      expect(await outcome).to.equal(1);
      await rpc.clock.advance(1_000);
    });

    it("is known to be in renewal until a second after it: the old link's end may be told late", async () => {
      const node = rpc.newNode();
      expect(rpc.caller.renewal(node)).to.equal(null);
      rpc.caller.hold(node);
      expect(rpc.caller.renewal(node)).to.be.a("number");
      rpc.caller.resume(node);
      await rpc.clock.advance(999);
      expect(rpc.caller.renewal(node)).to.be.a("number");
      await rpc.clock.advance(1);
      expect(rpc.caller.renewal(node)).to.equal(null);
    });

    it("waits no longer once that link is gone: what follows is another one", async () => {
      const node = await rpc.serve({ ok: () => "ok" });
      rpc.caller.hold(node);
      rpc.caller.settleNode(node, "link_lost");
      expect(rpc.caller.renewal(node)).to.equal(null);
      expect(await rpc.call(node, "ok")).to.equal("ok");
    });

    it("waits 3 s at most, however often the node asks", async () => {
      const node = await rpc.serve({ ok: () => "ok" });
      rpc.caller.hold(node);
      const outcome = rpc.call(node, "ok");
      await rpc.clock.advance(2_000);
      rpc.caller.hold(node);
      expect(rpc.caller.snapshot().waiting).to.equal(1);
      await rpc.clock.advance(1_000);
      expect(await outcome).to.equal("ok");
      await rpc.clock.advance(1_000);
    });

    it("gets its answer after the renewal when the node keeps answers back meanwhile", async () => {
      const node = await rpc.serve({ ok: () => "ok" });
      const server = rpc.served.at(-1);
      server?.hold();
      const outcome = rpc.call(node, "ok");
      let answered = false;
      void outcome.then(() => {
        answered = true;
      });
      await rpc.worker.flush();
      await rpc.controller.flush();
      expect(answered).to.equal(false);
      server?.resume();
      expect(await outcome).to.equal("ok");
    });
  });

  describe("at the end of things", () => {
    it("is settled as uncertain when its caller stops, and no further one is taken", async () => {
      const arrived = Promise.withResolvers<void>();
      const release = Promise.withResolvers<void>();
      const node = await rpc.serve({
        wait() {
          arrived.resolve();
          return release.promise;
        },
      });
      const outcome = refusalOf(() => rpc.call(node, "wait"));
      await arrived.promise;
      rpc.caller.stop();
      rpc.caller.stop();
      expect(await outcome).to.include({ code: "link_lost", mutationMayHaveApplied: true });
      expect(await refusalOf(() => rpc.call(node, "wait"))).to.include({
        code: "unavailable",
        mutationMayHaveApplied: false,
      });
      release.resolve();
    });

    it("is answered by a server that stops meanwhile, which takes no other", async () => {
      const arrived = Promise.withResolvers<void>();
      const release = Promise.withResolvers<string>();
      const node = await rpc.serve({
        wait() {
          arrived.resolve();
          return release.promise;
        },
      });
      const outcome = rpc.call(node, "wait");
      await arrived.promise;
      const stopped = rpc.served.pop()?.stop();
      await rpc.worker.flush();
      const late = refusalOf(() => rpc.call(node, "wait"));
      await rpc.controller.flush();
      for (let step = 0; step < 12; step++) {
        await rpc.clock.advance(5);
        await rpc.controller.flush();
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
    const call = (params: string) => caller.call(node, { ...NORMAL_CALL, method: "note", params });
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
