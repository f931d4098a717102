/** Owns a host-agent's socket that answers what a test says, also what no real one would. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { HostAgent } from "../../client/host-agent/index.ts";
import type { Timers } from "../../client/index.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

export interface Heard {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

type Script = (request: IncomingMessage, response: ServerResponse, body: string) => void;

export class ScriptedHostAgent {
  readonly path: string;
  readonly client: HostAgent;
  readonly heard: Heard[] = [];
  readonly sockets = new Set<Socket>();
  /** Connections that were made. */
  connections = 0;
  /** Says what the script says before the body has come. */
  answersEarly = false;
  script: Script = (_request, response) => json(response, {});
  readonly #folder: TempFolder;
  readonly #server: Server;

  private constructor(folder: TempFolder, timers: Timers | undefined) {
    this.#folder = folder;
    this.path = join(folder.path, "agent.sock");
    const extra = timers === undefined ? {} : { timers };
    this.client = new HostAgent({ socketPath: this.path, timeoutMs: 10_000, ...extra });
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.on("connection", (socket) => {
      this.connections += 1;
      this.sockets.add(socket);
      socket.on("close", () => this.sockets.delete(socket));
    });
  }

  static async open(timers?: Timers): Promise<ScriptedHostAgent> {
    const agent = new ScriptedHostAgent(tempFolder(), timers);
    await agent.listen();
    return agent;
  }

  async listen(): Promise<void> {
    this.#server.listen(this.path);
    await once(this.#server, "listening");
  }

  /** Nobody answers on the socket any more, and what was open is cut. */
  async unlisten(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cut();
    await closed;
  }

  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.client.close();
    if (this.#server.listening) await this.unlisten();
    this.#folder[Symbol.dispose]();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url, headers } = request;
    const chunks: Buffer[] = [];
    if (this.answersEarly) {
      this.script(request, response, "");
      request.on("error", () => {}).resume();
      return;
    }
    try {
      for await (const chunk of request) chunks.push(chunk);
    } catch {
      return;
    }
    const body = Buffer.concat(chunks).toString("utf8");
    this.heard.push({ method, url, headers, body });
    this.script(request, response, body);
  }
}

export function json(response: ServerResponse, value: unknown, status = 200): void {
  const text = `${JSON.stringify(value)}\n`;
  response.writeHead(status, { "content-type": "application/json" }).end(text);
}

/** The head of a stream, flushed; frames follow with `send`. */
export function stream(response: ServerResponse): (id: number, data: unknown) => void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write("retry: 1000\n\n");
  return (id, data) => response.write(`id: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
}
