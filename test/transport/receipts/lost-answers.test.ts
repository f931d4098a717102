import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import type { StoreState } from "../../../transport/receipts/receipt.ts";
import { type Bench, bench, done, running, type WorkStore } from "../../support/receipts.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TcpProxy, tcpProxy } from "../../support/tcp-proxy.ts";

const intent = Buffer.from("do it");
const unknown = { phase: "unknown", step: 0 } as const;

describe("a receipt store whose answers are lost", () => {
  let ground: Bench;
  let proxy: TcpProxy;
  let connection: NatsConnection;
  let store: WorkStore;

  before(async () => {
    ground = await bench();
  });
  beforeEach(async () => {
    proxy = await tcpProxy(ground.server.child.ports.client);
    connection = await ground.server.connectStore({ servers: proxy.url });
    store = await open();
  });
  afterEach(async () => {
    await store.close();
    await connection.close();
    await proxy[Symbol.asyncDispose]();
    await ground.clear();
  });
  after(() => ground[Symbol.asyncDispose]());

  function open(generation = 1, timeouts = {}): Promise<WorkStore> {
    return ground.open({ connection, generation, timeouts });
  }

  function reaches(state: StoreState): Promise<void> {
    return new Promise((resolve) => {
      const unwatch = store.watch(look);
      function look(): void {
        if (store.condition !== state) return;
        unwatch();
        resolve();
      }
      look();
    });
  }

  /** Resolves when the stream holds `count` messages, which another connection sees. */
  async function streamHolds(count: number): Promise<void> {
    const direct = await ground.server.connectStore();
    for (;;) {
      const info = await direct.request("$JS.API.STREAM.INFO.KV_work");
      if (info.json<{ state: { messages: number } }>().state.messages >= count) break;
    }
    await direct.close();
  }

  it("finds by reading back that its admission was stored, and executes it", async () => {
    proxy.swallowReplies();
    const admission = store.admit("run:1", intent, running);
    await streamHolds(2);
    proxy.cut();
    expect((await admission).outcome).to.equal("admitted");
    expect((await store.admit("run:1", intent, running)).outcome).to.equal("existing");
  });

  it("finds by reading back that its change was stored", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    proxy.swallowReplies();
    const change = store.advance(receipt, { phase: "running", step: 1 });
    await streamHolds(3);
    proxy.cut();
    const changed = await change;
    expect(changed.state).to.deep.equal({ phase: "running", step: 1 });
    expect(await store.read("run:1")).to.deep.equal(changed);
  });

  it("writes an end once, however often its answer is lost", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    proxy.swallowReplies();
    const end = store.advance(receipt, done);
    await streamHolds(3);
    proxy.cut();
    const ended = await end;
    expect(ended.state).to.deep.equal(done);
    await store.close();
    store = await open();
    expect(await store.read("run:1")).to.deep.equal(ended);
  });

  it("admits nobody when the admission lands after it was given up, and says what is so", async () => {
    proxy.holdRequests();
    const heard = proxy.heard();
    const admission = refusalOf(() => store.admit("run:1", intent, running));
    await heard;
    proxy.cut();
    const refusal = await admission;
    expect(refusal).to.include({ code: "timeout", mutationMayHaveApplied: true, retrySafe: false });
    expect(await store.read("run:1")).to.equal(null);
    proxy.release();
    await streamHolds(2);
    expect((await store.read("run:1"))?.state).to.deep.equal(unknown);
    const again = await store.admit("run:1", intent, running);
    expect(again).to.include({ outcome: "existing", sameIntent: true });
    expect(again.receipt.state).to.deep.equal(unknown);
  });

  it("admits the second try when it comes before the first one lands, and refuses the first", async () => {
    proxy.holdRequests();
    const heard = proxy.heard();
    const admission = refusalOf(() => store.admit("run:1", intent, running));
    await heard;
    proxy.cut();
    await admission;
    const second = await store.admit("run:1", intent, running);
    expect(second.outcome).to.equal("admitted");
    proxy.release();
    // The late one is refused by the server; whatever it does, the receipt stays the second's.
    await store.admit("run:2", intent, running);
    expect(await store.read("run:1")).to.deep.equal(second.receipt);
    expect((await store.advance(second.receipt, done)).state).to.deep.equal(done);
  });

  it("lets a change that lands after it was given up win or lose, and never both", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    proxy.holdRequests();
    const heard = proxy.heard();
    const change = refusalOf(() => store.advance(receipt, { phase: "running", step: 1 }));
    await heard;
    proxy.cut();
    expect((await change).code).to.equal("timeout");
    proxy.release();
    await streamHolds(3);
    const ended = await store.advance(receipt, done);
    expect(ended.state).to.deep.equal({ phase: "running", step: 1 });
    expect((await store.advance(ended, done)).state).to.deep.equal(done);
  });

  it("is uncertain while nothing is answered at all, and settles it when it is", async () => {
    await store.close();
    store = await open(1, { putMs: 100, readMs: 100, readBackMs: 100 });
    await store.admit("run:0", intent, running);
    proxy.swallowReplies();
    const refusal = await refusalOf(() => store.admit("run:1", intent, running));
    expect(refusal).to.include({ code: "timeout", mutationMayHaveApplied: true });
    expect(store.condition).to.equal("verifying");
    const meanwhile = await refusalOf(() => store.admit("run:2", intent, running));
    expect(meanwhile.code).to.equal("receipt_store_unavailable");
    proxy.cut();
    await reaches("serving");
    expect((await store.read("run:1"))?.state).to.deep.equal(unknown);
    expect((await store.admit("run:1", intent, running)).outcome).to.equal("existing");
    expect((await store.read("run:0"))?.state).to.deep.equal(running);
  });

  it("is uncertain while its server is frozen, and settles it when that goes on", async () => {
    await store.close();
    store = await open(1, { putMs: 100, readMs: 100, readBackMs: 100 });
    ground.server.freeze();
    const refusal = await refusalOf(() => store.admit("run:1", intent, running));
    expect(refusal.code).to.equal("timeout");
    ground.server.thaw();
    await reaches("serving");
    // The server took the message before or after the thaw: it can be unknown, and never run.
    const again = await store.admit("run:1", intent, running);
    expect(again.outcome).to.equal("existing");
    expect(again.receipt.state).to.deep.equal(unknown);
  });

  it("gives back the places of puts whose answers were lost", async function () {
    this.timeout(40_000);
    await store.close();
    store = await open(1, { putMs: 200, readMs: 200, readBackMs: 200 });
    proxy.swallowReplies();
    const ids = Array.from({ length: 64 }, (_, n) => `run:${n}`);
    const outcomes = await Promise.all(
      ids.map((id) => refusalOf(() => store.admit(id, intent, running))),
    );
    for (const { code } of outcomes) expect(code).to.equal("timeout");
    proxy.cut();
    await reaches("serving");
    for (const id of ids) expect((await store.read(id))?.state).to.deep.equal(unknown);
    const more = await Promise.all(ids.map((id) => store.admit(`more ${id}`, intent, running)));
    expect(new Set(more.map(({ outcome }) => outcome))).to.deep.equal(new Set(["admitted"]));
  });

  it("reads nothing as absent while it cannot ask", async () => {
    proxy.refuse(true);
    proxy.cut();
    await reaches("verifying");
    const refusal = await refusalOf(() => store.read("run:never"));
    expect(refusal.code).to.equal("receipt_store_unavailable");
    proxy.refuse(false);
    await reaches("serving");
    expect(await store.read("run:never")).to.equal(null);
  });
});
