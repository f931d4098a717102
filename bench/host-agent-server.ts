/**
 * Owns the servers beside which the host-agent is measured, each in a process of its own on a UNIX socket: a bare
 * node:http server, and our gateway in front of jobs that write lines at a steady pace (no job of the fake host
 * writes that much). Started with `startServer`.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import pino from "pino";
import type { JobTools } from "../actors/job/kind.ts";
import { jobKind } from "../actors/job/registry.ts";
import { startJobService } from "../actors/job/service.ts";
import { jobReceipts } from "../actors/job/state.ts";
import { machineHandlers } from "../actors/machine/machine-handlers.ts";
import { createUnixHttp } from "../gateways/unix-http/server.ts";
import { startStreams } from "../gateways/unix-http/sse.ts";
import { systemClock } from "../host/clock.ts";
import { createActorSystem } from "../supervision/system.ts";
import { fakeHost } from "../test/support/fake-host.ts";
import { FakeSpawner } from "../test/support/fake-spawner.ts";
import { MemoryReceipts } from "../test/support/memory-receipts.ts";

export const LINES_PER_SECOND = 1_000;
export const SECONDS = 5;
export const LINES = LINES_PER_SECOND * SECONDS;
const PACE_MS = 10;

export type Subject = "bare" | "streams";

export interface MeasuredServer {
  readonly pid: number;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

/** `answer`: the JSON of what the bare server answers to every request that asks for no stream. */
export async function startServer(
  subject: Subject,
  socketPath: string,
  folder: string,
  answer = "",
): Promise<MeasuredServer> {
  const words = [subject, socketPath, folder, answer];
  // In a session of its own, as the role: Linux shares the processors out among sessions (sched(7), "autogroup").
  const child: ChildProcess = fork(new URL(import.meta.url), words, { detached: true });
  await once(child, "message");
  return {
    pid: child.pid ?? 0,
    async kill() {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}

if (import.meta.main) {
  const [, , subject, socketPath = "", folder = "", answer = ""] = process.argv;
  await (subject === "bare" ? serveBare(socketPath, answer) : serveJobs(socketPath, folder));
  process.once("disconnect", () => process.exit());
  process.send?.("ready");
}

async function serveBare(socketPath: string, answer: string): Promise<void> {
  // A status is another one each second, so that any server has to write it each time.
  const value: unknown = JSON.parse(answer);
  const server = createServer((request, response) => {
    if (request.url?.endsWith("/log")) {
      void writeFrames(response);
      return;
    }
    const text = `${JSON.stringify(value)}\n`;
    response.writeHead(200, {
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(text),
    });
    response.end(text);
  });
  server.listen(socketPath);
  await once(server, "listening");
}

/** Frames as ours are, and nothing else: no ring, no resume, nobody who is waited for. */
async function writeFrames(response: ServerResponse): Promise<void> {
  response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
  let id = 0;
  await paced((line) => {
    id += 1;
    const data = { ts: new Date().toISOString(), stream: "stdout", line };
    response.write(`id: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
  });
  response.end();
}

async function serveJobs(socketPath: string, folder: string): Promise<void> {
  const clock = systemClock;
  const log = pino({ level: "silent" });
  const system = createActorSystem({ name: "bench", log, clock });
  const kind = jobKind({
    name: "system-update",
    maxDurationMs: 60_000,
    dangerous: false,
    resourceClass: "none",
    stallPolicy: "none",
    whenBusy: "queue",
    read: () => ({}),
    credentials: () => [],
    run: async ({ log: write }: JobTools) => {
      await paced((line) => write("stdout", line));
      return {};
    },
  });
  const jobs = await startJobService(system.root, {
    kinds: [kind],
    receipts: new MemoryReceipts(jobReceipts, 1),
    spawner: () => new FakeSpawner(),
    environment: {},
    clock,
    log,
  });
  const http = await createUnixHttp({
    handlers: machineHandlers({
      host: await fakeHost(folder, { clock }),
      jobs,
      clock,
      version: "bench",
      openApi: async () => ({}),
    }),
    streams: await startStreams(system.root, { clock }),
    clock,
    log,
  });
  await http.listen({ path: socketPath });
}

/** `LINES` lines, `LINES_PER_SECOND` of them a second; each says when it was written (Unix ms). */
async function paced(write: (line: string) => void): Promise<void> {
  const beganMs = performance.now();
  let written = 0;
  while (written < LINES) {
    await new Promise((resolve) => setTimeout(resolve, PACE_MS));
    const due = Math.floor(((performance.now() - beganMs) * LINES_PER_SECOND) / 1_000);
    for (; written < Math.min(due, LINES); written += 1) {
      write(`${performance.timeOrigin + performance.now()} a line of a log, as long as most are`);
    }
  }
}
