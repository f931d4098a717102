/**
 * Measures the host-agent beside a bare node:http server on a UNIX socket, in one run: how many `GET
 * /v1/system/status` a second the whole role answers (`lemon host-agent --fake`, over kept connections that each
 * have one request under way); 16 streams of 1,000 lines a second; and what the role holds in memory when nothing
 * happens. Each server has a process of its own. `node bench/host-agent.ts [--json]`. Linux.
 */
import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { HostAgent } from "../client/host-agent/index.ts";
import { RoleProcess } from "../test/support/role-process.ts";
import { tempFolder } from "../test/support/temp-folder.ts";
import { bareNode } from "./bare-node.ts";
import { LINES, LINES_PER_SECOND, startServer } from "./host-agent-server.ts";
import { Report } from "./report.ts";
import { residentMib, residentTreeMib } from "./resident.ts";

const ROUNDS = 7;
const REQUESTS = 20_000;
const CONNECTIONS = 32;
const STREAMS = 16;
const IDLE_MS = 10_000;
const STATUS = "GET /v1/system/status HTTP/1.1\r\nHost: agent\r\n\r\n";
const BARE = "bare node:http";

const report = new Report("host-agent");
using folder = tempFolder();
const socketPath = `${folder.path}/agent.sock`;
const role = new RoleProcess(["host-agent", "--fake", "--socket", socketPath], {
  home: `${folder.path}/home`,
});
await role.said("ready");
await memory();
await status();
await role.end("SIGTERM");
await streams();
report.print();

/** Before anything was asked of it. */
async function memory(): Promise<void> {
  const bare = await bareNode(`${folder.path}/bare-idle.sock`);
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  const pid = role.child.pid ?? 0;
  const name = `${BARE} server of one .ts, idle`;
  report.sample(name, residentMib(bare.pid), { unit: "MiB" });
  report.sample("lemon host-agent, idle", residentMib(pid), { unit: "MiB", of: name, atMost: 1.7 });
  report.sample("lemon host-agent and its nats-server, idle", residentTreeMib(pid), {
    unit: "MiB",
    of: name,
  });
  await bare.kill();
}

async function status(): Promise<void> {
  const client = new HostAgent({ socketPath });
  const answer = `${JSON.stringify(await client.call("systemStatus"))}\n`;
  client.close();
  const barePath = `${folder.path}/bare.sock`;
  const bare = await startServer("bare", barePath, folder.path, answer);
  const subjects = [
    { name: BARE, path: barePath },
    { name: "lemon host-agent", path: socketPath },
  ];
  // Round by round, so that a busy moment of the machine falls on both alike. Round 0 warms up.
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const { name, path } of subjects) {
      const rate = await perSecond(path);
      if (round === 0) continue;
      report.sample(`${name}: GET /v1/system/status, ${CONNECTIONS} at a time`, rate, {
        unit: "/s",
        ...(name === BARE
          ? {}
          : { of: `${BARE}: GET /v1/system/status, ${CONNECTIONS} at a time`, atLeast: 0.8 }),
      });
    }
  }
  await bare.kill();
}

async function perSecond(path: string): Promise<number> {
  const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, () => connected(path)));
  const beganMs = performance.now();
  const each = Math.floor(REQUESTS / CONNECTIONS);
  await Promise.all(sockets.map((socket) => ask(socket, each)));
  const tookMs = performance.now() - beganMs;
  for (const socket of sockets) socket.destroy();
  return (each * CONNECTIONS * 1_000) / tookMs;
}

async function connected(path: string): Promise<Socket> {
  const socket = createConnection(path);
  await once(socket, "connect");
  return socket;
}

/** One request after the other. No HTTP client: it would take longer than the servers that are measured. */
function ask(socket: Socket, times: number): Promise<void> {
  return new Promise((resolve) => {
    let left = times;
    let received = 0;
    let length: number | null = null;
    socket.on("data", (chunk: Buffer) => {
      length ??= lengthOf(chunk);
      received += chunk.byteLength;
      if (received < length) return;
      received = 0;
      left -= 1;
      if (left === 0) resolve();
      else socket.write(STATUS);
    });
    socket.write(STATUS);
  });
}

/** Of a whole answer, which comes in one piece and is as long every time. */
function lengthOf(answer: Buffer): number {
  const text = answer.toString("latin1");
  const body = /^Content-Length: (\d+)\r$/im.exec(text)?.[1];
  if (!text.startsWith("HTTP/1.1 200 ") || body === undefined) throw new Error("no such answer");
  return text.indexOf("\r\n\r\n") + 4 + Number(body);
}

async function streams(): Promise<void> {
  for (const [name, subject] of [
    [BARE, "bare"],
    ["lemon", "streams"],
  ] as const) {
    const path = `${folder.path}/${subject}-streams.sock`;
    const server = await startServer(subject, path, folder.path, '{"job_id":"j_000001"}');
    const client = new HostAgent({ socketPath: path });
    const beganMs = performance.now();
    const read = await Promise.all(Array.from({ length: STREAMS }, () => lines(client)));
    const tookS = (performance.now() - beganMs) / 1_000;
    const label = (what: string) => `${name}: ${STREAMS} × ${LINES_PER_SECOND} lines/s, ${what}`;
    const missing = STREAMS * LINES - read.reduce((sum, { whole }) => sum + whole, 0);
    report.sample(label("lost"), missing, {
      unit: "lines",
      ...(subject === "bare" ? {} : { below: 1 }),
    });
    report.sample(label("read"), (STREAMS * LINES) / tookS, { unit: "/s" });
    for (const lateMs of read.flatMap(({ latesMs }) => latesMs)) {
      report.sample(label("from writing to reading"), lateMs, { unit: "ms" });
    }
    client.close();
    await server.kill();
  }
}

/** The lines that came in their order, each once, and how late. */
async function lines(client: HostAgent) {
  const job = await client.start("systemUpdate", {});
  const latesMs: number[] = [];
  let whole = 0;
  for await (const { id, data } of job.log()) {
    if (Number(id) !== whole + 1 || !("line" in data)) continue;
    whole += 1;
    const writtenAtMs = Number(data.line.slice(0, data.line.indexOf(" ")));
    latesMs.push(performance.timeOrigin + performance.now() - writtenAtMs);
  }
  return { whole, latesMs };
}
