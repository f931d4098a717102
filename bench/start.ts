/**
 * Measures `lemon up` as its user meets it: from the command to `ready`, warm (the home and the compiled code
 * are there), beside the start of a bare Node.js and of a bare nats-server with JetStream; and what the
 * process and its nats-server hold in memory when nothing happens. `node bench/start.ts [--json]`. Linux.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { startServer } from "../test/support/nats.ts";
import { RoleProcess } from "../test/support/role-process.ts";
import { tempFolder } from "../test/support/temp-folder.ts";
import { residentTreeMib } from "./processes.ts";
import { Report } from "./report.ts";

const ROUNDS = 7;
const IDLE_MS = 10_000;
const NODE = "bare Node.js, from start to end";
const SERVER = "bare nats-server with JetStream, from start to ready";

async function timed<T>(report: Report, name: string, work: () => Promise<T>): Promise<T> {
  const startedMs = performance.now();
  const result = await work();
  report.sample(name, performance.now() - startedMs, { unit: "ms" });
  return result;
}

async function bareNode(): Promise<void> {
  await once(spawn(process.execPath, ["-e", "0"], { stdio: "ignore" }), "exit");
}

function bareServer() {
  return startServer(({ ports, portsDirectory, storeDirectory }) =>
    [
      `listen: "127.0.0.1:${ports.client}"`,
      `ports_file_dir: "${portsDirectory}"`,
      `jetstream { store_dir: "${storeDirectory}" }`,
    ].join("\n"),
  );
}

const report = new Report("start");
using folder = tempFolder();
for (let round = 0; round <= ROUNDS; round += 1) {
  const isWarmUp = round === 0;
  const into = isWarmUp ? new Report("warm-up") : report;
  await timed(into, NODE, bareNode);
  const server = await timed(into, SERVER, bareServer);
  await server[Symbol.asyncDispose]();
  const startedMs = performance.now();
  const up = new RoleProcess(["up", "--port", "0"], { home: `${folder.path}/home` });
  await up.said("ready");
  into.sample("lemon up, from start to ready", performance.now() - startedMs, {
    unit: "ms",
    of: [NODE, SERVER],
    below: 1_500,
  });
  await up.said("probe");
  if (round === ROUNDS) {
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
    report.sample("lemon up and its nats-server, idle", residentTreeMib(up.child.pid ?? 0), {
      unit: "MiB",
      below: 180,
    });
  }
  await up.end("SIGTERM");
}
report.print();
