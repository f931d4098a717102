/**
 * Owns the host-agent's gateway on a socket of the test's own, in front of a fake host and jobs that the test
 * chooses; and callers of it that send what they please.
 */
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import type { Jobs } from "../../actors/job/messages.ts";
import { machineHandlers } from "../../actors/machine/machine-handlers.ts";
import { createUnixHttp, type UnixHttpLimits } from "../../gateways/unix-http/server.ts";
import { startStreams } from "../../gateways/unix-http/sse.ts";
import { systemClock } from "../../host/clock.ts";
import type { Host } from "../../host/machine/host.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { fakeHost } from "./fake-host.ts";
import { type LogLines, logLines } from "./log-lines.ts";
import { tempFolder } from "./temp-folder.ts";

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The text, parsed. */
  readonly json: unknown;
}

export interface Ask {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface TestGateway extends AsyncDisposable {
  readonly path: string;
  readonly folder: string;
  readonly host: Host;
  readonly log: LogLines;
  ask(method: string, path: string, ask?: Ask): Promise<Answer>;
  /** POST of an object. */
  post(path: string, body: unknown): Promise<Answer>;
  /** A socket whose bytes are the test's own. */
  raw(): RawPeer;
  /** Resolves once an upload's first bytes have come. */
  uploading(): Promise<void>;
  close(graceMs: number, hurry?: AbortSignal): Promise<void>;
}

export interface TestGatewayOptions {
  readonly limits?: Partial<UnixHttpLimits>;
  readonly host?: (host: Host) => Host;
  readonly jobs?: Partial<Jobs>;
}

/** No job is known, and none can be started. */
const NO_JOBS: Jobs = {
  start: () => Promise.reject(new HostAgentError("unavailable")),
  get: () => Promise.reject(new HostAgentError("unknown-job")),
  list: () => Promise.resolve([]),
  cancel: () => Promise.reject(new HostAgentError("unknown-job")),
  log: () => Promise.reject(new HostAgentError("unknown-job")),
  drain: () => Promise.resolve(),
};

export async function startUnixHttp(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const folder = tempFolder();
  const path = join(folder.path, "agent.sock");
  const log = logLines();
  const clock = systemClock;
  const made = await fakeHost(folder.path, { clock });
  const uploading = Promise.withResolvers<void>();
  const host = options.host?.(made) ?? made;
  const system = createActorSystem({ name: "test", log: log.log, clock });
  const streams = await startStreams(system.root, { clock });
  const handlers = machineHandlers({
    host,
    jobs: { ...NO_JOBS, ...options.jobs },
    clock,
    version: "2026.11.0",
    openApi: () => Promise.resolve({ openapi: "3.1.0" }),
  });
  async function* heard(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      uploading.resolve();
      yield chunk;
    }
  }
  const http = await createUnixHttp({
    handlers: {
      ...handlers,
      filesUpload: (call, bytes) => handlers.filesUpload(call, heard(bytes)),
    },
    streams,
    clock,
    log: log.log,
    limits: { checkMs: 50, ...options.limits },
  });
  await http.listen({ path });
  const peers: RawPeer[] = [];
  const ask = (method: string, target: string, request?: Ask) =>
    askSocket(path, method, target, request);
  return {
    path,
    folder: folder.path,
    host,
    log,
    ask,
    post: (target, body) => ask("POST", target, { body: JSON.stringify(body) }),
    raw() {
      const peer = new RawPeer(path);
      peers.push(peer);
      return peer;
    },
    uploading: () => uploading.promise,
    close: (graceMs, hurry) => http.close(graceMs, hurry),
    async [Symbol.asyncDispose]() {
      for (const peer of peers) peer.socket.destroy();
      await system.shutdown();
      await http.close(0);
      folder[Symbol.dispose]();
    },
  };
}

/** One request on a connection of its own. */
export function askSocket(
  socketPath: string,
  method: string,
  path: string,
  { headers = {}, body }: Ask = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { "Content-Length": Buffer.byteLength(body) };
    const options = { socketPath, method, path, headers: { ...length, ...headers }, agent: false };
    const request = httpRequest(options, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.once("error", reject);
      response.once("end", () => {
        const text = Buffer.concat(parts).toString("utf8");
        const status = response.statusCode ?? 0;
        resolve({ status, headers: response.headers, text, json: parsed(text) });
      });
    });
    request.once("error", reject);
    request.end(body);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Bytes as they are sent and come, in one direction of time. */
export class RawPeer {
  readonly socket: Socket;
  #received = "";
  #over = false;
  #tell: () => void = () => {};

  constructor(path: string) {
    this.socket = createConnection({ path, allowHalfOpen: true });
    this.socket.setEncoding("latin1");
    this.socket.on("data", (text: string) => {
      this.#received += text;
      this.#tell();
    });
    // A peer that is cut may be told by a reset.
    this.socket.on("error", () => {});
    this.socket.once("close", () => this.#end());
    this.socket.once("end", () => this.#end());
  }

  send(text: string | Uint8Array): void {
    this.socket.write(text);
  }

  /** All that came, once that holds `text` as often as asked. Rejects when the other side ended before. */
  async until(text: string, times = 1): Promise<string> {
    while (this.#received.split(text).length <= times) {
      if (this.#over) throw new Error(`ended without it: ${JSON.stringify(this.#received)}`);
      await this.#change();
    }
    return this.#received;
  }

  /** All that came, once the other side has ended. */
  async ended(): Promise<string> {
    while (!this.#over) await this.#change();
    return this.#received;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve;
    });
  }

  #end(): void {
    this.#over = true;
    this.#tell();
  }
}
