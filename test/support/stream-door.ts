/**
 * Owns a bare HTTP server on a UNIX socket whose every request opens a stream, and what a client sees of it:
 * everything through a real socket.
 */
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { join } from "node:path";
import type { FrameReader } from "../../actors/job/messages.ts";
import { type Streams, startStreams } from "../../gateways/unix-http/sse.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { type TestSystem, testSystem } from "./supervision.ts";
import { tempFolder } from "./temp-folder.ts";

export interface SeenStream {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** All that came so far. */
  readonly text: () => string;
  /** Resolves when what came so far satisfies it. */
  until(holds: (text: string) => boolean): Promise<string>;
  /** Resolves when the response is over: whether it came to its proper end. */
  readonly ended: Promise<boolean>;
  /** Takes no more from the socket, until `resume`. */
  pause(): void;
  resume(): void;
  /** Goes away. */
  leave(): void;
}

export interface StreamDoor extends AsyncDisposable {
  /** Its socket. */
  readonly path: string;
  readonly system: TestSystem;
  readonly streams: Streams;
  /** How many actors carry a stream. */
  readonly carried: () => number;
  follow(headers?: Readonly<Record<string, string>>): Promise<SeenStream>;
  /** Resolves when a stream of the server has closed; to be asked for before. */
  closed(): Promise<void>;
}

export type Source = (headers: IncomingMessage["headers"]) => FrameReader<unknown>;

export async function streamDoor(source: Source, limit?: number): Promise<StreamDoor> {
  const folder = tempFolder();
  const system = testSystem();
  const options = limit === undefined ? {} : { limit };
  const streams = await startStreams(system.root, { clock: system.clock, ...options });
  let tellClosed: (() => void)[] = [];
  const server = createServer((asked, response: ServerResponse) => {
    response.on("close", () => {
      const told = tellClosed;
      tellClosed = [];
      for (const tell of told) tell();
    });
    streams
      .open(response, () => source(asked.headers))
      .catch((failure: unknown) => {
        const { status, refusal } =
          failure instanceof HostAgentError ? failure : new HostAgentError("internal-error");
        response.writeHead(status, { "Content-Type": "application/json" });
        response.end(JSON.stringify(refusal));
      });
  });
  const socketPath = join(folder.path, "door.sock");
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));

  return {
    path: socketPath,
    system,
    streams,
    carried: () => system.snapshot().children[0]?.children.length ?? 0,
    follow: (headers = {}) => follow(socketPath, headers),
    closed: () => new Promise((resolve) => tellClosed.push(resolve)),
    async [Symbol.asyncDispose]() {
      await system.shutdown();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      folder[Symbol.dispose]();
    },
  };
}

function follow(
  socketPath: string,
  headers: Readonly<Record<string, string>>,
): Promise<SeenStream> {
  const ended = Promise.withResolvers<boolean>();
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath, path: "/", headers, agent: false }, (response) => {
      let text = "";
      let check = (): void => {};
      response.setEncoding("utf8");
      response.on("data", (part: string) => {
        text += part;
        check();
      });
      response.on("close", () => {
        ended.resolve(response.complete);
        check();
      });
      response.on("error", () => {});
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text: () => text,
        until: (holds) =>
          new Promise((found, never) => {
            check = () => {
              if (holds(text)) found(text);
              else if (response.closed) never(new Error(`the stream ended: ${text.slice(-200)}`));
            };
            check();
          }),
        ended: ended.promise,
        pause: () => void response.pause(),
        resume: () => void response.resume(),
        leave: () => void asked.destroy(),
      });
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** The data of each frame in a stream's text. */
export function dataOf(text: string): unknown[] {
  return fieldsOf(text, "data: ").map((json) => JSON.parse(json));
}

/** The id of each frame in a stream's text. */
export function idsOf(text: string): number[] {
  return fieldsOf(text, "id: ").map(Number);
}

function fieldsOf(text: string, field: string): string[] {
  const lines = text.split("\n").filter((line) => line.startsWith(field));
  return lines.map((line) => line.slice(field.length));
}
