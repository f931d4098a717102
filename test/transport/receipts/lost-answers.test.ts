import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import { Ledger } from "../../../transport/receipts/ledger.ts";
import type { StoreState } from "../../../transport/receipts/receipt.ts";
import { hashOf } from "../../../transport/receipts/record.ts";
import { parseWitness } from "../../../transport/receipts/witness-format.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import {
  type Bench,
  bench,
  done,
  running,
  type WorkStore,
  type WorkStoreOptions,
} from "../../support/receipts.ts";
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

  function open(options: WorkStoreOptions = {}): Promise<WorkStore> {
    return ground.open({ connection, ...options });
  }

  /** Opens the store anew on a clock that stands still. */
  async function onBentTime(options: WorkStoreOptions = {}): Promise<FakeClock> {
    await store.close();
    const clock = new FakeClock();
    const timeouts = { putMs: 3_000, readMs: 2_000, readBackMs: 2_000 };
    store = await open({ clock, timeouts, ...options });
    return clock;
  }

  /**
   * Lets time pass until the promise is settled: by steps so small, a real round trip each, that the
   * server answers long before one of our timeouts is up.
   */
  async function inTime<T>(clock: FakeClock, promise: Promise<T>): Promise<T> {
    let settled = false;
    const settle = (): void => {
      settled = true;
    };
    promise.then(settle, settle);
    while (!settled && store.condition !== "closed") {
      await clock.advance(10);
      await ground.connection.flush();
    }
    return promise;
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

  it("withdraws, with the next that it writes, what stayed uncertain: nobody was told of it", async () => {
    proxy.holdRequests();
    const heard = proxy.heard();
    const admissions = ["run:1", "run:2"].map((id) =>
      refusalOf(() => store.admit(id, intent, running)),
    );
    await heard;
    proxy.cut();
    for (const { code } of await Promise.all(admissions)) expect(code).to.equal("timeout");
    await store.admit("run:3", intent, running);
    const left = parseWitness(readFileSync(join(ground.files, "witness")), "work");
    const { open: announced } = new Ledger(left?.entries ?? []);
    expect([...announced.keys()]).to.deep.equal([hashOf("run:3")]);
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
    const clock = await onBentTime();
    await store.admit("run:0", intent, running);
    proxy.swallowReplies();
    const admission = refusalOf(() => store.admit("run:1", intent, running));
    await proxy.heard();
    await clock.advance(3_000);
    // The put was given up, and the read that asks for it hears nothing either.
    await clock.advance(2_000);
    expect(await admission).to.include({ code: "timeout", mutationMayHaveApplied: true });
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
    const clock = await onBentTime();
    await ground.server.freeze();
    const admission = refusalOf(() => store.admit("run:1", intent, running));
    await proxy.heard();
    await clock.advance(3_000);
    await clock.advance(2_000);
    expect((await admission).code).to.equal("timeout");
    ground.server.thaw();
    await inTime(clock, reaches("serving"));
    // The server took the message when it went on: the id is spent, and nobody runs it.
    const again = await store.admit("run:1", intent, running);
    expect(again.outcome).to.equal("existing");
    expect(again.receipt.state).to.deep.equal(unknown);
  });

  it("has a server replaced that stays frozen, and serves on the next one", async () => {
    const replaced: string[] = [];
    const clock = await onBentTime({
      async restartServer(serverId) {
        replaced.push(serverId);
        await ground.server.kill();
        await ground.server.restart();
      },
    });
    const { receipt } = await store.admit("run:1", intent, running);
    const before = ground.server.child.serverId;
    await ground.server.freeze();
    const end = store.advance(receipt, done);
    await proxy.heard();
    while (replaced.length === 0 && store.condition !== "closed") await clock.advance(100);
    await reaches("serving");
    expect(replaced).to.deep.equal([before]);
    expect((await inTime(clock, end)).state).to.deep.equal(done);
  });

  it("gives back the places of puts whose answers were lost", async () => {
    const clock = await onBentTime();
    proxy.swallowReplies();
    const ids = Array.from({ length: 64 }, (_, n) => `run:${n}`);
    const admissions = ids.map((id) => refusalOf(() => store.admit(id, intent, running)));
    await streamHolds(65);
    await clock.advance(3_000);
    await clock.advance(2_000);
    for (const { code } of await Promise.all(admissions)) expect(code).to.equal("timeout");
    proxy.cut();
    await reaches("serving");
    for (const id of ids) expect((await store.read(id))?.state).to.deep.equal(unknown);
    const more = await Promise.all(ids.map((id) => store.admit(`more ${id}`, intent, running)));
    expect(new Set(more.map(({ outcome }) => outcome))).to.deep.equal(new Set(["admitted"]));
  });

  it("turns away who waits for a turn when the server goes away, and settles what was sent", async () => {
    proxy.swallowReplies();
    proxy.refuse(true);
    const outcomes = Array.from({ length: 70 }, (_, n) =>
      store.admit(`run:${n}`, intent, running).then(
        ({ outcome }) => outcome,
        (failure) => failure.code,
      ),
    );
    await streamHolds(65);
    proxy.cut();
    const waited = await Promise.all(outcomes.slice(64));
    expect(new Set(waited)).to.deep.equal(new Set(["receipt_store_unavailable"]));
    proxy.refuse(false);
    const sent = await Promise.all(outcomes.slice(0, 64));
    expect(new Set(sent)).to.deep.equal(new Set(["admitted"]));
    expect(store.retained).to.equal(64);
  });

  it("admits as soon as whoever proves that the server syncs is back", async () => {
    await store.close();
    await using between = await tcpProxy(ground.server.child.ports.client);
    const sys = await ground.server.connectSys({ servers: between.url });
    between.refuse(true);
    const cut = disconnected(sys);
    between.cut();
    await cut;
    store = await ground.open({ connection, sys });
    expect(store.condition).to.equal("unproven");
    between.refuse(false);
    await reaches("serving");
    expect((await store.admit("run:1", intent, running)).outcome).to.equal("admitted");
    await sys.close();
  });

  it("loses nothing of what is under way when it is closed", async () => {
    const ids = Array.from({ length: 200 }, (_, n) => `run:${n}`);
    const answers = ids.map((id) =>
      store.admit(id, intent, running).then(
        ({ outcome }) => outcome,
        (failure) => failure.code,
      ),
    );
    // With the first answer the others are on their way, or wait for their turn.
    await answers[0];
    await store.close();
    const outcomes = await Promise.all(answers);
    expect(new Set(outcomes)).to.deep.equal(new Set(["admitted", "receipt_store_unavailable"]));
    store = await open();
    expect(store.retained).to.equal(outcomes.filter((outcome) => outcome === "admitted").length);
    for (const [n, id] of ids.entries()) {
      const state = outcomes[n] === "admitted" ? running : undefined;
      expect((await store.read(id))?.state).to.deep.equal(state);
    }
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

/** Resolves when the connection has noticed that it is cut. */
async function disconnected(connection: NatsConnection): Promise<void> {
  for await (const status of connection.status()) if (status.type === "disconnect") return;
}
