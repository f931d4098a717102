/**
 * Measures calls to a node through the real chain (`/ws`, controller, hub, leaf, worker), each beside
 * its floor in the same run. `node bench/calls.ts [--json]`.
 *
 * - `node.process.get` beside two bare NATS requests, one to the hub and one through a leaf.
 * - `node.process.run` of `/bin/true` beside a bare spawn and reap and two syncs of 4 KiB; and 16 at a
 *   time beside one at a time, and beside 16 bare spawns at a time (what the cores allow).
 */

import { connect } from "../client/index.ts";
import { socketOpener } from "../client/node/socket.ts";
import { bareNats, startFleet, TOKEN } from "./fleet.ts";
import { BARE, floor, SYNC } from "./process.ts";
import { Report } from "./report.ts";

/** A node retains 1,000 ids: what is spent here has to fit. Much of it warms up: code is compiled as it is used. */
const WARM_UP = 400;
const RUNS = 300;
const TURN = 20;
const AT_ONCE = 16;
const BATCHES = 12;
const GETS = 2_000;
const HUB = "bare NATS request, 256 B";
const LEAF = "bare NATS request through a leaf, 256 B";

type Measured = () => Promise<unknown>;

async function sample(
  report: Report,
  name: string,
  kind: Parameters<Report["sample"]>[2],
  once: Measured,
) {
  const startedMs = performance.now();
  await once();
  report.sample(name, performance.now() - startedMs, kind);
}

async function measure(): Promise<void> {
  const report = new Report("calls");
  await using stack = new AsyncDisposableStack();
  const nats = await bareNats(stack);
  const { url, nodeId } = await startFleet(stack);
  const client = await connect({
    url,
    token: TOKEN,
    clientId: "bench",
    openSocket: socketOpener(),
  });
  stack.defer(() => client.close());
  const bare = floor();
  stack.defer(() => bare.close());

  let serial = 0;
  const run = async (): Promise<void> => {
    serial += 1;
    const { state, exitCode } = await client.call("node.process.run", {
      nodeId,
      processId: `bench:${serial}`,
      cwd: ".",
      argv: ["/bin/true"],
      stdinBase64: "",
      timeoutMs: 10_000,
      maxOutputBytes: 1_024,
    });
    if (state !== "completed" || exitCode !== 0) throw new Error(`a run ended ${state}`);
  };
  const get = () => client.call("node.process.get", { nodeId, processId: "bench:1" });
  const warm = async (once: Measured): Promise<void> => {
    for (let n = 0; n < WARM_UP; n += 1) await once();
  };
  for (const once of [run, get, nats.hub, nats.leaf, bare.spawn, bare.sync]) await warm(once);

  for (let done = 0; done < GETS; done += TURN) {
    for (let n = 0; n < TURN; n += 1) {
      await sample(report, HUB, { unit: "ms" }, nats.hub);
      await sample(report, LEAF, { unit: "ms" }, nats.leaf);
      await sample(report, "node.process.get", { unit: "ms", of: [HUB, LEAF], atMost: 2.5 }, get);
    }
  }
  for (let done = 0; done < RUNS; done += TURN) {
    for (let n = 0; n < TURN; n += 1) {
      await sample(report, BARE, { unit: "ms" }, bare.spawn);
      await sample(report, SYNC, { unit: "ms" }, bare.sync);
    }
    for (let n = 0; n < TURN; n += 1) {
      await sample(
        report,
        "node.process.run",
        { unit: "ms", of: [BARE, SYNC, SYNC], atMost: 2.5 },
        run,
      );
    }
  }
  await throughput(report, "bare spawns, 1 at a time", [], 1, bare.spawn);
  await throughput(
    report,
    "bare spawns, 16 at a time",
    ["bare spawns, 1 at a time"],
    AT_ONCE,
    bare.spawn,
  );
  await throughput(report, "runs, 1 at a time", [], 1, run);
  await throughput(report, "runs, 16 at a time", ["runs, 1 at a time"], AT_ONCE, run);
  report.print();
}

async function throughput(
  report: Report,
  name: string,
  of: readonly string[],
  atOnce: number,
  once: Measured,
) {
  for (let batch = 0; batch < BATCHES; batch += 1) {
    const startedMs = performance.now();
    await Promise.all(Array.from({ length: atOnce }, once));
    report.sample(name, (atOnce * 1_000) / (performance.now() - startedMs), { unit: "/s", of });
  }
}

await measure();
