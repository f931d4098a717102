/**
 * Measures calls to a node through the real chain (`/ws`, controller, hub, leaf, worker), each beside
 * its floor in the same run. `node bench/calls.ts [--json]`.
 *
 * - `node.process.get` beside two bare NATS requests, one to the hub and one through a leaf.
 * - `node.process.run` of `/bin/true` beside a bare spawn and reap and two syncs of 4 KiB; and 16 at a
 *   time beside one at a time, and beside 16 bare spawns at a time (what the cores allow).
 */
import { connect as connectNats } from "@nats-io/transport-node";
import { socketOpener } from "../cli/socket.ts";
import { type Client, connect } from "../client/index.ts";
import { startServer } from "../test/support/nats.ts";
import { RoleProcess } from "../test/support/role-process.ts";
import { tempFolder } from "../test/support/temp-folder.ts";
import { BARE, floor, SYNC } from "./process.ts";
import { Report } from "./report.ts";

const TOKEN = "bench-operator-token-0123456789";
/** A node retains 1,000 ids: what is spent here has to fit. */
const WARM_UP = 20;
const RUNS = 200;
const TURN = 20;
const AT_ONCE = 16;
const BATCHES = 12;
const GETS = 2_000;
const PAYLOAD = new Uint8Array(256);
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

/** Two plain servers, a leaf between them, somebody who answers on each. */
async function bareNats(stack: AsyncDisposableStack): Promise<{ hub: Measured; leaf: Measured }> {
  const hub = stack.use(
    await startServer(({ ports, portsDirectory }) =>
      [
        `listen: "127.0.0.1:${ports.client}"`,
        `ports_file_dir: "${portsDirectory}"`,
        `leafnodes { listen: "127.0.0.1:${ports.leaf}" }`,
      ].join("\n"),
    ),
  );
  const leaf = stack.use(
    await startServer(({ ports, portsDirectory }) =>
      [
        `listen: "127.0.0.1:${ports.client}"`,
        `ports_file_dir: "${portsDirectory}"`,
        `leafnodes { remotes: [ { url: "nats://127.0.0.1:${hub.child.ports.leaf}" } ] }`,
      ].join("\n"),
    ),
  );
  const asking = await connectNats({ servers: hub.child.clientUrl });
  stack.defer(() => asking.close());
  for (const { server, subject } of [
    { server: hub, subject: "bench.hub" },
    { server: leaf, subject: "bench.leaf" },
  ]) {
    const answering = await connectNats({ servers: server.child.clientUrl });
    stack.defer(() => answering.close());
    answering.subscribe(subject, {
      callback: (_error, message) => void message.respond(message.data),
    });
    await answering.flush();
  }
  const ask =
    (subject: string): Measured =>
    () =>
      asking.request(subject, PAYLOAD, { timeout: 2_000 });
  const through = ask("bench.leaf");
  // The hub hears of the leaf's interest a moment later.
  while ((await through().catch(() => null)) === null);
  return { hub: ask("bench.hub"), leaf: through };
}

/** A controller and a joined node, each a process with a nats-server of its own. */
async function fleet(stack: AsyncDisposableStack): Promise<{ client: Client; nodeId: string }> {
  const folder = stack.use(tempFolder());
  const environment = {
    LEMON_CONTROL_PLANE_OPERATOR_TOKEN: TOKEN,
    LEMON_NODE_OPERATOR_TOKEN: TOKEN,
    LEMON_LOG_LEVEL: "warn",
  };
  const controller = new RoleProcess(["start", "--port", "0"], {
    home: `${folder.path}/c`,
    environment,
  });
  stack.defer(async () => void (await controller.end("SIGTERM")));
  const { url } = await controller.said("ready");
  const node = new RoleProcess(["node", "join", "--name", "bench", "--controller", String(url)], {
    home: `${folder.path}/n`,
    environment,
  });
  stack.defer(async () => void (await node.end("SIGTERM")));
  const { nodeId } = await node.said("joined");
  const client = await connect({
    url: String(url),
    token: TOKEN,
    clientId: "bench",
    openSocket: socketOpener(),
  });
  stack.defer(() => client.close());
  return { client, nodeId: String(nodeId) };
}

async function measure(): Promise<void> {
  const report = new Report("calls");
  await using stack = new AsyncDisposableStack();
  const nats = await bareNats(stack);
  const { client, nodeId } = await fleet(stack);
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
