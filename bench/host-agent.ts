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
import { cpuMs, residentMib, residentTreeMib } from "./processes.ts";
import { Report } from "./report.ts";

const WARM_UP = 10;
const ROUNDS = 41;
const REQUESTS = 3_200;
const CONNECTIONS = 32;
const STREAMS = 16;
const IDLE_MS = 10_000;
const STATUS = "GET /v1/system/status HTTP/1.1\r\nHost: agent\r\n\r\n";
const OK = Buffer.from("HTTP/1.1 200 ");
const LINE_END = 0x0a;
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
  const answer = JSON.stringify(await client.call("systemStatus"));
  client.close();
  const barePath = `${folder.path}/bare.sock`;
  const bare = await startServer("bare", barePath, folder.path, answer);
  const subjects = [
    { name: BARE, pid: bare.pid, sockets: await connections(barePath), beganCpuMs: 0 },
    {
      name: "lemon host-agent",
      pid: role.child.pid ?? 0,
      sockets: await connections(socketPath),
      beganCpuMs: 0,
    },
  ];
  const what = `GET /v1/system/status, ${CONNECTIONS} at a time`;
  // Round by round, and short ones, so that a busy moment of the machine falls on both alike.
  for (let round = 0; round < WARM_UP + ROUNDS; round += 1) {
    for (const subject of subjects) {
      if (round === WARM_UP) subject.beganCpuMs = cpuMs(subject.pid);
      const beganMs = performance.now();
      await Promise.all(subject.sockets.map((socket) => ask(socket, REQUESTS / CONNECTIONS)));
      const rate = (REQUESTS * 1_000) / (performance.now() - beganMs);
      if (round >= WARM_UP) {
        report.sample(`${subject.name}: ${what}`, rate, {
          unit: "/s",
          ...(subject.name === BARE ? {} : { of: `${BARE}: ${what}`, atLeast: 0.8 }),
        });
      }
    }
  }
  for (const { name, pid, beganCpuMs } of subjects) {
    const us = ((cpuMs(pid) - beganCpuMs) * 1_000) / (ROUNDS * REQUESTS);
    report.sample(`${name}: processor time of one`, us, {
      unit: "µs",
      ...(name === BARE ? {} : { of: `${BARE}: processor time of one` }),
    });
  }
  for (const socket of subjects.flatMap(({ sockets }) => sockets)) socket.destroy();
  await bare.kill();
}

async function connections(path: string): Promise<readonly Socket[]> {
  return await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const socket = createConnection(path);
      await once(socket, "connect");
      return socket;
    }),
  );
}

/**
 * One request after the other. No HTTP client: it would take longer than the servers that are measured. An answer
 * is short, comes whole, and ends with a line.
 */
function ask(socket: Socket, times: number): Promise<void> {
  return new Promise((resolve) => {
    let left = times;
    const heard = (chunk: Buffer): void => {
      if (!isOk(chunk)) throw new Error("no such answer");
      left -= 1;
      if (left > 0) socket.write(STATUS);
      else {
        socket.off("data", heard);
        resolve();
      }
    };
    socket.on("data", heard);
    socket.write(STATUS);
  });
}

function isOk(answer: Buffer): boolean {
  return OK.equals(answer.subarray(0, OK.byteLength)) && answer.at(-1) === LINE_END;
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
