/** Owns the leaf proxy between a hub and nodes that a test plays itself, byte by byte. */
import { once } from "node:events";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { expect } from "chai";
import { refuseLeaf } from "../../gateways/http/leaf-refusal.ts";
import { createLeafProxy, type LeafProxy } from "../../transport/link/proxy.ts";
import type { Ration } from "../../transport/link/ration.ts";
import { FakeClock, settle } from "./fake-clock.ts";
import { logLines } from "./log-lines.ts";

export const KEY = "dGhlIHNhbXBsZSBub25jZQ==";
/** The example of RFC 6455, section 1.3. */
export const ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
export const REQUEST = [
  "GET /leafnode HTTP/1.1",
  "Host: controller:4040",
  "Upgrade: websocket",
  "Connection: Upgrade",
  `Sec-WebSocket-Key: ${KEY}`,
  "Sec-WebSocket-Version: 13",
];
export const CONSENT = [
  "HTTP/1.1 101 Switching Protocols",
  "Upgrade: websocket",
  "Connection: Upgrade",
  `Sec-WebSocket-Accept: ${ACCEPT}`,
];
export const head = (lines: readonly string[]): string => `${lines.join("\r\n")}\r\n\r\n`;
/** The request with one line in place of the one that begins like it, or added. */
export const withLine = (line: string, instead?: string): string[] =>
  instead === undefined
    ? [...REQUEST, line]
    : REQUEST.map((own) => (own.startsWith(instead) ? line : own));
/** A socket whose bytes a test can wait for. */
export class Line {
  readonly socket: Socket;
  received = Buffer.alloc(0);
  ended = false;
  readonly #waiting = new Set<() => void>();

  constructor(socket: Socket) {
    this.socket = socket;
    const look = (): void => {
      for (const resolve of [...this.#waiting]) resolve();
    };
    socket.on("data", (chunk: Buffer) => {
      this.received = Buffer.concat([this.received, chunk]);
      look();
    });
    socket.on("end", () => {
      this.ended = true;
      look();
    });
    socket.on("error", () => undefined);
    socket.on("close", look);
  }

  get text(): string {
    return this.received.toString("latin1");
  }

  /** Resolves when `wanted` holds, looked at whenever something comes. */
  async until(wanted: () => boolean): Promise<void> {
    while (!wanted()) {
      await new Promise<void>((resolve) => {
        const once = (): void => {
          this.#waiting.delete(once);
          resolve();
        };
        this.#waiting.add(once);
      });
    }
  }

  holds(text: string): Promise<void> {
    return this.until(() => this.text.includes(text));
  }

  closed(): Promise<void> {
    return this.until(() => this.socket.destroyed || this.ended);
  }
}

/** A hub's websocket listener that the test plays itself. */
class FakeHub {
  readonly server: Server;
  readonly lines: Line[] = [];
  readonly #waiting: (() => void)[] = [];

  constructor() {
    this.server = createServer({ allowHalfOpen: true }, (socket) => {
      this.lines.push(new Line(socket));
      for (const resolve of this.#waiting.splice(0)) resolve();
    });
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async line(at = 0): Promise<Line> {
    for (;;) {
      const line = this.lines[at];
      if (line !== undefined) return line;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }
}

/** Both ends of a link that stands. */
export interface ProxiedLink {
  readonly node: Line;
  readonly behind: Line;
}

export class ProxiedLeaf {
  readonly hub: FakeHub;
  readonly clock = new FakeClock();
  readonly lines: Line[] = [];
  proxy: LeafProxy;
  /** What the ration was told: bytes taken, given, links that left; and the link it may hold. */
  taken = 0;
  given = 0;
  left = 0;
  held: { hold(): void; release(): void } | null = null;
  readonly #http: HttpServer;

  private constructor(hub: FakeHub) {
    this.hub = hub;
    this.proxy = this.newProxy();
    this.#http = createHttpServer((_request, response) => response.end("plain"));
    this.#http.on("upgrade", (request, socket, first) =>
      this.proxy.upgrade(request, socket, first),
    );
  }

  static async open(): Promise<ProxiedLeaf> {
    const hub = new FakeHub();
    hub.server.listen(0, "127.0.0.1");
    await once(hub.server, "listening");
    const leaf = new ProxiedLeaf(hub);
    leaf.#http.listen(0, "127.0.0.1");
    await once(leaf.#http, "listening");
    return leaf;
  }

  async close(): Promise<void> {
    for (const { socket } of [...this.lines, ...this.hub.lines]) socket.destroy();
    this.proxy.close();
    this.#http.closeAllConnections();
    await Promise.all([
      new Promise((resolve) => this.#http.close(resolve)),
      new Promise((resolve) => this.hub.server.close(resolve)),
    ]);
    await settle();
    expect(this.clock.pending, "timers left").to.equal(0);
  }

  newProxy(limits = {}, port = this.hub.port): LeafProxy {
    const ration: Ration = {
      join: (holdable) => {
        this.held = holdable;
        return {
          took: (bytes) => {
            this.taken += bytes;
          },
          gave: (bytes) => {
            this.given += bytes;
          },
          leave: () => {
            this.left += 1;
          },
        };
      },
    };
    return createLeafProxy({
      hubWebsocket: { host: "127.0.0.1", port },
      refuse: refuseLeaf,
      clock: this.clock,
      log: logLines().log,
      ration,
      limits,
    });
  }

  async client(): Promise<Line> {
    const { port } = this.#http.address() as AddressInfo;
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    await once(socket, "connect");
    const line = new Line(socket);
    this.lines.push(line);
    return line;
  }

  async ask(text: string): Promise<Line> {
    const line = await this.client();
    line.socket.write(text);
    return line;
  }

  async link(): Promise<ProxiedLink> {
    const node = await this.ask(head(REQUEST));
    const behind = await this.hub.line(this.hub.lines.length);
    await behind.holds("\r\n\r\n");
    behind.socket.write(head(CONSENT));
    await node.holds("\r\n\r\n");
    node.received = Buffer.alloc(0);
    behind.received = Buffer.alloc(0);
    return { node, behind };
  }

  /** What the hub says when it takes a leaf in. */
  async known({ node, behind }: ProxiedLink): Promise<void> {
    behind.socket.write("INFO {}");
    await node.holds("INFO {}");
    behind.socket.write("PING");
    await node.holds("PING");
  }
}
