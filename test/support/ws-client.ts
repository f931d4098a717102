/**
 * Owns a client of `/ws` for tests: a real `ws` socket whose frames and end can be waited for, and a bare TCP
 * socket that speaks the opening handshake and then whatever bytes it is told to.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type ClientOptions, WebSocket } from "ws";
import { OPERATOR_TOKEN } from "./gateway.ts";

/** A frame as it came; what it should hold is the test's to say. */
export type Frame = Readonly<Record<string, unknown>> & {
  readonly id?: unknown;
  readonly ok?: unknown;
  readonly payload?: unknown;
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly details?: Readonly<Record<string, unknown>>;
  };
};

export class WsClient {
  readonly socket: WebSocket;
  readonly #frames: Frame[] = [];
  readonly #waiting: ((frame: Frame) => void)[] = [];
  readonly #closed: Promise<{ code: number; reason: string }>;
  #nextId = 1;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data) => {
      const frame: Frame = JSON.parse(String(data));
      const take = this.#waiting.shift();
      if (take === undefined) this.#frames.push(frame);
      else take(frame);
    });
    // An abrupt end is what some tests are about; `closed` tells it.
    socket.on("error", () => {});
    this.#closed = new Promise((resolve) => {
      socket.once("close", (code, reason) => resolve({ code, reason: reason.toString() }));
    });
  }

  /** Opens the socket; nothing is said yet. */
  static async open(url: string, options: ClientOptions = {}): Promise<WsClient> {
    const client = new WsClient(new WebSocket(url, options));
    await once(client.socket, "open");
    return client;
  }

  /** Opens the socket and connects as the operator, or as `params` say. */
  static async connect(url: string, params: object = operator()): Promise<WsClient> {
    const client = await WsClient.open(url);
    const hello = await client.call("connect", params);
    if (hello["type"] !== "hello-ok") throw new Error(`no hello-ok: ${JSON.stringify(hello)}`);
    return client;
  }

  /** Frames that came and were not taken yet. */
  get unread(): readonly Frame[] {
    return this.#frames;
  }

  send(frame: unknown): void {
    this.socket.send(typeof frame === "string" ? frame : JSON.stringify(frame));
  }

  /** Sends a request; its id. */
  request(method: string, params?: unknown, id = `r${this.#nextId}`): string {
    this.#nextId += 1;
    this.send({ type: "req", id, method, params });
    return id;
  }

  /** Sends a request and takes the next frame. */
  async call(method: string, params?: unknown): Promise<Frame> {
    this.request(method, params);
    return this.next();
  }

  /** The next frame, in the order they came; rejects when the socket ends first. */
  async next(): Promise<Frame> {
    const frame = this.#frames.shift();
    if (frame !== undefined) return frame;
    const ended = this.#closed.then(({ code, reason }): never => {
      throw new Error(`the socket ended: ${code} ${reason}`);
    });
    return Promise.race([new Promise<Frame>((resolve) => this.#waiting.push(resolve)), ended]);
  }

  async take(count: number): Promise<Frame[]> {
    const frames: Frame[] = [];
    while (frames.length < count) frames.push(await this.next());
    return frames;
  }

  closed(): Promise<{ code: number; reason: string }> {
    return this.#closed;
  }

  async close(): Promise<void> {
    this.socket.close();
    await this.#closed;
  }
}

export function operator(more: object = {}): object {
  return { auth: { token: OPERATOR_TOKEN }, ...more };
}

/** A TCP connection whose every byte is the test's. */
export class RawClient {
  readonly socket: Socket;
  readonly #chunks: Buffer[] = [];
  readonly ended: Promise<void>;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk) => this.#chunks.push(chunk));
    socket.on("error", () => {});
    this.ended = new Promise((resolve) => {
      socket.once("end", resolve);
      socket.once("close", () => resolve());
    });
  }

  /** `lingers`: it keeps its side open when the other has ended. */
  static async open(port: number, { lingers = false } = {}): Promise<RawClient> {
    const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: lingers });
    await once(socket, "connect");
    return new RawClient(socket);
  }

  /** Opens a WebSocket by hand. */
  static async upgrade(
    port: number,
    options: {
      readonly headers?: Readonly<Record<string, string>>;
      readonly lingers?: boolean;
    } = {},
  ): Promise<RawClient> {
    const client = await RawClient.open(port, options);
    client.socket.write(upgradeRequest(port, "/ws", options.headers));
    await client.until("\r\n\r\n");
    return client;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  /** Everything received so far, as Latin-1. */
  get received(): string {
    return this.bytes.toString("latin1");
  }

  /** Resolves with everything received when `text` (Latin-1) is among it, or when the other side has ended. */
  async until(text: string): Promise<string> {
    const needle = Buffer.from(text, "latin1");
    let tail = this.bytes;
    const found = Promise.withResolvers<void>();
    const look = (chunk: Buffer): void => {
      tail = Buffer.concat([tail.subarray(1 - needle.length), chunk]);
      if (tail.includes(needle)) found.resolve();
    };
    if (tail.includes(needle)) found.resolve();
    this.socket.on("data", look);
    await Promise.race([found.promise, this.ended]);
    this.socket.off("data", look);
    return this.received;
  }

  /** Everything until the other side ends. */
  async all(): Promise<string> {
    await this.ended;
    return this.received;
  }
}

export function upgradeRequest(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): string {
  const all = {
    Host: `127.0.0.1:${port}`,
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return [`GET ${path} HTTP/1.1`, ...lines, "", ""].join("\r\n");
}

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** One client frame (masked with zeros, which is a mask), as RFC 6455 5.2 lays it out. */
export function wsFrame(opcode: number, payload: Buffer | string, fin = true): Buffer {
  const data = Buffer.from(payload);
  const first = (fin ? 0x80 : 0) | opcode;
  let head: Buffer;
  if (data.length < 126) {
    head = Buffer.from([first, 0x80 | data.length]);
  } else if (data.length < 65_536) {
    head = Buffer.from([first, 0x80 | 126, data.length >> 8, data.length & 0xff]);
  } else {
    head = Buffer.alloc(10);
    head[0] = first;
    head[1] = 0x80 | 127;
    head.writeBigUInt64BE(BigInt(data.length), 2);
  }
  return Buffer.concat([head, Buffer.alloc(4), data]);
}
