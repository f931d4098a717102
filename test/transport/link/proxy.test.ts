import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { expect } from "chai";
import { refuseLeaf } from "../../../gateways/http/leaf-refusal.ts";
import { createLeafProxy, type LeafProxy } from "../../../transport/link/proxy.ts";
import type { Ration } from "../../../transport/link/ration.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import { logLines } from "../../support/log-lines.ts";

const KEY = "dGhlIHNhbXBsZSBub25jZQ==";
/** The example of RFC 6455, section 1.3. */
const ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const REQUEST = [
  "GET /leafnode HTTP/1.1",
  "Host: controller:4040",
  "Upgrade: websocket",
  "Connection: Upgrade",
  `Sec-WebSocket-Key: ${KEY}`,
  "Sec-WebSocket-Version: 13",
];
const CONSENT = [
  "HTTP/1.1 101 Switching Protocols",
  "Upgrade: websocket",
  "Connection: Upgrade",
  `Sec-WebSocket-Accept: ${ACCEPT}`,
];
const head = (lines: readonly string[]): string => `${lines.join("\r\n")}\r\n\r\n`;
/** The request with one line in place of the one that begins like it, or added. */
const withLine = (line: string, instead?: string): string[] =>
  instead === undefined
    ? [...REQUEST, line]
    : REQUEST.map((own) => (own.startsWith(instead) ? line : own));

/** A socket whose bytes a test can wait for. */
class Line {
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

describe("the leaf proxy", () => {
  let hub: FakeHub;
  let http: HttpServer;
  let proxy: LeafProxy;
  let clock: FakeClock;
  let lines: Line[] = [];
  let held: { hold(): void; release(): void } | null = null;
  let taken = 0;
  let given = 0;
  let left = 0;
  const ration: Ration = {
    join(holdable) {
      held = holdable;
      return {
        took: (bytes) => {
          taken += bytes;
        },
        gave: (bytes) => {
          given += bytes;
        },
        leave: () => {
          left += 1;
        },
      };
    },
  };

  beforeEach(async () => {
    hub = new FakeHub();
    hub.server.listen(0, "127.0.0.1");
    await once(hub.server, "listening");
    clock = new FakeClock();
    [taken, given, left] = [0, 0, 0];
    proxy = newProxy();
    http = createHttpServer((_request, response) => response.end("plain"));
    http.on("upgrade", (request, socket, first) => proxy.upgrade(request, socket, first));
    http.listen(0, "127.0.0.1");
    await once(http, "listening");
  });
  afterEach(async () => {
    for (const { socket } of [...lines, ...hub.lines]) socket.destroy();
    lines = [];
    proxy.close();
    http.closeAllConnections();
    await Promise.all([
      new Promise((resolve) => http.close(resolve)),
      new Promise((resolve) => hub.server.close(resolve)),
    ]);
    await settle();
    expect(clock.pending, "timers left").to.equal(0);
  });

  const newProxy = (limits = {}, port = hub.port): LeafProxy =>
    createLeafProxy({
      hubWebsocket: { host: "127.0.0.1", port },
      refuse: refuseLeaf,
      clock,
      log: logLines().log,
      ration,
      limits,
    });

  async function client(): Promise<Line> {
    const { port } = http.address() as AddressInfo;
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    await once(socket, "connect");
    const line = new Line(socket);
    lines.push(line);
    return line;
  }

  async function ask(text: string): Promise<Line> {
    const line = await client();
    line.socket.write(text);
    return line;
  }

  /** Both ends of a link that stands. */
  async function link(): Promise<{ node: Line; behind: Line }> {
    const node = await ask(head(REQUEST));
    const behind = await hub.line(hub.lines.length);
    await behind.holds("\r\n\r\n");
    behind.socket.write(head(CONSENT));
    await node.holds("\r\n\r\n");
    node.received = Buffer.alloc(0);
    behind.received = Buffer.alloc(0);
    return { node, behind };
  }

  /** What the hub says when it takes a leaf in. */
  async function known({ node, behind }: { node: Line; behind: Line }): Promise<void> {
    behind.socket.write("INFO {}");
    await node.holds("INFO {}");
    behind.socket.write("PING");
    await node.holds("PING");
  }

  describe("asks the hub", () => {
    it("in a head of its own, in which nothing of the client's stands but its key", async () => {
      await ask(
        head([
          ...REQUEST,
          "Origin: https://evil.example",
          "X-Forwarded-For: 10.0.0.1",
          "Forwarded: for=10.0.0.1",
          "Cookie: a=b",
          "Authorization: Bearer x",
          "Sec-WebSocket-Extensions: permessage-deflate",
          "Sec-WebSocket-Protocol: nats",
          "Nats-No-Masking: true",
        ]),
      );
      const behind = await hub.line();
      await behind.holds("\r\n\r\n");
      expect(behind.text).to.equal(
        head([
          "GET /leafnode HTTP/1.1",
          `Host: 127.0.0.1:${hub.port}`,
          "Upgrade: websocket",
          "Connection: Upgrade",
          `Sec-WebSocket-Key: ${KEY}`,
          "Sec-WebSocket-Version: 13",
        ]),
      );
    });

    it("and passes its consent on, and what came right behind it", async () => {
      const node = await ask(head(REQUEST));
      const behind = await hub.line();
      await behind.holds("\r\n\r\n");
      behind.socket.write(`${head([...CONSENT, "Server: nats", "Set-Cookie: x=y"])}INFO {}`);
      await node.holds("INFO {}");
      expect(node.text).to.equal(`${head(CONSENT)}INFO {}`);
      expect(proxy.snapshot()).to.deep.equal({ links: 1, pending: 0 });
    });

    it("however its answer is cut into pieces", async () => {
      const node = await ask(head(REQUEST));
      const behind = await hub.line();
      await behind.holds("\r\n\r\n");
      behind.socket.setNoDelay(true);
      for (const byte of `${head(CONSENT)}x`) {
        behind.socket.write(byte);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await node.holds("\r\n\r\nx");
      expect(node.text).to.equal(`${head(CONSENT)}x`);
    });
  });

  describe("refuses, and the hub hears nothing of", () => {
    const refused: readonly (readonly [what: string, status: number, request: string])[] = [
      ["another path", 404, head(withLine("GET / HTTP/1.1", "GET"))],
      ["a path with a query", 404, head(withLine("GET /leafnode?x HTTP/1.1", "GET"))],
      [
        "a path that only resolves to it",
        404,
        head(withLine("GET /a/../leafnode HTTP/1.1", "GET")),
      ],
      ["a path with an escape", 404, head(withLine("GET /leafn%6fde HTTP/1.1", "GET"))],
      ["a path behind a prefix", 404, head(withLine("GET /x/leafnode HTTP/1.1", "GET"))],
      ["a trailing slash", 404, head(withLine("GET /leafnode/ HTTP/1.1", "GET"))],
      ["an absolute URL", 404, head(withLine("GET http://hub/leafnode HTTP/1.1", "GET"))],
      ["another method", 405, head(withLine("POST /leafnode HTTP/1.1", "GET"))],
      ["HTTP/1.0", 400, head(withLine("GET /leafnode HTTP/1.0", "GET"))],
      ["another protocol", 426, head(withLine("Upgrade: h2c", "Upgrade"))],
      ["a list of protocols", 426, head(withLine("Upgrade: websocket, h2c", "Upgrade"))],
      ["two Upgrade headers", 426, head(withLine("Upgrade: websocket"))],
      [
        "a Connection that names more",
        400,
        head(withLine("Connection: Upgrade, Sec-WebSocket-Key", "Connection")),
      ],
      ["two Connection headers", 400, head(withLine("Connection: Upgrade"))],
      ["two Host headers", 400, head(withLine("Host: other"))],
      ["no key", 400, head(withLine("X: y", "Sec-WebSocket-Key"))],
      ["two keys", 400, head(withLine(`Sec-WebSocket-Key: ${KEY}`))],
      [
        "a key of the wrong length",
        400,
        head(withLine("Sec-WebSocket-Key: AAAA", "Sec-WebSocket-Key")),
      ],
      [
        "a key with something behind it",
        400,
        head(withLine(`Sec-WebSocket-Key: ${KEY}, x`, "Sec-WebSocket-Key")),
      ],
      ["another version", 426, head(withLine("Sec-WebSocket-Version: 8", "Sec-WebSocket-Version"))],
      ["no version", 426, head(withLine("X: y", "Sec-WebSocket-Version"))],
      ["a Content-Length, even of nothing", 400, head(withLine("Content-Length: 0"))],
      ["a body", 400, `${head(withLine("Content-Length: 5"))}hello`],
      ["a Transfer-Encoding", 400, head(withLine("Transfer-Encoding: chunked"))],
      ["an Expect", 400, head(withLine("Expect: 100-continue"))],
      ["a TE", 400, head(withLine("TE: trailers"))],
      ["bytes behind the request", 400, `${head(REQUEST)}\u0081\u0000`],
      [
        "a second request behind it",
        400,
        `${head(REQUEST)}${head(withLine("GET / HTTP/1.1", "GET"))}`,
      ],
      ["a space before a colon", 400, head(withLine("Upgrade : websocket", "Upgrade"))],
      ["a folded header", 400, head(withLine("X: a\r\n b"))],
      [
        "a bare line feed",
        400,
        head(REQUEST).replace("Upgrade: websocket\r\n", "Upgrade: websocket\n"),
      ],
    ];
    for (const [what, status, request] of refused) {
      it(what, async () => {
        const node = await ask(request);
        await node.closed();
        expect(node.text).to.match(new RegExp(`^HTTP/1\\.1 ${status} `));
        expect(node.text).to.match(/connection: close/i);
        expect(hub.lines).to.have.length(0);
        expect(proxy.snapshot()).to.deep.equal({ links: 0, pending: 0 });
      });
    }

    it("what a plain byte proxy lets through: a request that the hub refuses, and one for another path behind it", async () => {
      // The second request comes only after the first was passed on, and before the hub has answered.
      const node = await ask(head(REQUEST));
      const behind = await hub.line();
      await behind.holds("\r\n\r\n");
      node.socket.write(head(withLine("GET / HTTP/1.1", "GET")));
      await clock.advance(1);
      behind.socket.write(head(["HTTP/1.1 400 Bad Request", "Content-Length: 0"]));
      await node.closed();
      await behind.closed();
      expect(node.text).to.match(/^HTTP\/1\.1 502 /);
      expect(behind.text.match(/GET /g)).to.have.length(1);
      expect(behind.text).not.to.include("GET / HTTP");
    });
  });

  it("passes nothing on before the hub has consented, and everything after", async () => {
    const node = await ask(head(REQUEST));
    const behind = await hub.line();
    await behind.holds("\r\n\r\n");
    node.socket.write("early");
    // A round trip of another connection: by then the early bytes have long arrived.
    const other = await ask(head(withLine("GET / HTTP/1.1", "GET")));
    await other.closed();
    expect(behind.text).not.to.include("early");
    behind.socket.write(head(CONSENT));
    await behind.holds("early");
    expect(behind.text).to.match(/\r\n\r\nearly$/);
  });

  describe("answers for the hub", () => {
    const wrongs: Readonly<Record<string, readonly string[]>> = {
      "a refusal": ["HTTP/1.1 403 Forbidden", "Content-Length: 0"],
      "a plain success": ["HTTP/1.1 200 OK", "Content-Length: 0"],
      "a consent to another key": CONSENT.map((line) =>
        line.replace(ACCEPT, createHash("sha1").update("x").digest("base64")),
      ),
      "a consent without proof": CONSENT.slice(0, 3),
      "a consent to something that was not asked for": [
        ...CONSENT,
        "Sec-WebSocket-Extensions: permessage-deflate",
      ],
      "no HTTP at all": ["INFO {}"],
    };
    for (const [what, answer] of Object.entries(wrongs)) {
      it(`502 when it gives ${what}`, async () => {
        const node = await ask(head(REQUEST));
        const behind = await hub.line();
        await behind.holds("\r\n\r\n");
        behind.socket.write(head(answer));
        await node.closed();
        expect(node.text).to.match(/^HTTP\/1\.1 502 /);
        await behind.closed();
      });
    }

    it("502 when it hangs up, is not there, or never ends its head", async () => {
      const node = await ask(head(REQUEST));
      (await hub.line()).socket.end();
      await node.closed();
      expect(node.text).to.match(/^HTTP\/1\.1 502 /);

      const endless = await ask(head(REQUEST));
      (await hub.line(1)).socket.write(`HTTP/1.1 101 X\r\n${"x".repeat(5_000)}`);
      await endless.closed();
      expect(endless.text).to.match(/^HTTP\/1\.1 502 /);

      const gone = createServer();
      gone.listen(0, "127.0.0.1");
      await once(gone, "listening");
      const { port } = gone.address() as AddressInfo;
      await new Promise((resolve) => gone.close(resolve));
      proxy = newProxy({}, port);
      const alone = await ask(head(REQUEST));
      await alone.closed();
      expect(alone.text).to.match(/^HTTP\/1\.1 502 /);
    });

    it("504 when it does not answer within 5 s, and takes its consent no more", async () => {
      const node = await ask(head(REQUEST));
      const behind = await hub.line();
      await behind.holds("\r\n\r\n");
      await clock.advance(4_999);
      expect(node.text).to.equal("");
      await clock.advance(1);
      await node.closed();
      expect(node.text).to.match(/^HTTP\/1\.1 504 /);
      await behind.closed();
      expect(proxy.snapshot()).to.deep.equal({ links: 0, pending: 0 });
    });

    it("503 beyond its bounds: handshakes under way, links, and once it is closed", async () => {
      proxy = newProxy({ pendingHandshakes: 1, links: 2 });
      await ask(head(REQUEST));
      await (await hub.line()).holds("\r\n\r\n");
      const second = await ask(head(REQUEST));
      await second.closed();
      expect(second.text).to.match(/^HTTP\/1\.1 503 /);

      const [node, behind] = [lines[0], await hub.line()];
      if (node === undefined) throw new Error("there is no first line");
      behind.socket.write(head(CONSENT));
      await node.holds("101");
      await known({ node, behind });
      await known(await link());
      const third = await ask(head(REQUEST));
      await third.closed();
      expect(third.text).to.match(/^HTTP\/1\.1 503 /);

      proxy.close();
      const late = await ask(head(REQUEST));
      await late.closed();
      expect(late.text).to.match(/^HTTP\/1\.1 503 /);
    });
  });

  describe("gives strangers room of their own", () => {
    it("in which the one that has been silent longest makes room for the next", async () => {
      proxy = newProxy({ strangers: 2 });
      const first = await link();
      const second = await link();
      const third = await link();
      await first.node.closed();
      await first.behind.closed();
      await known(second);
      await known(third);
    });

    it("and a node that the hub took in is none of them, however many knock", async () => {
      proxy = newProxy({ strangers: 2, links: 4 });
      const node = await link();
      await known(node);
      const flood: Line[] = [];
      for (let n = 0; n < 6; n += 1) flood.push((await link()).node);
      for (const stranger of flood.slice(0, 4)) await stranger.closed();
      const another = await link();
      await known(another);
      await known(node);
      expect(node.node.ended || node.node.socket.destroyed).to.equal(false);
    });
  });

  describe("joins the two", () => {
    it("byte for byte, in both directions, and counts what each sends", async () => {
      const { node, behind } = await link();
      const bytes = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
      const up = Buffer.concat(Array.from({ length: 4_000 }, () => bytes));
      const down = up.subarray(0, 500_000);
      node.socket.write(up);
      behind.socket.write(down);
      await Promise.all([
        behind.until(() => behind.received.length === up.length),
        node.until(() => node.received.length === down.length),
      ]);
      expect(behind.received.equals(up)).to.equal(true);
      expect(node.received.equals(down)).to.equal(true);
      expect([taken, given]).to.deep.equal([up.length, down.length]);
    });

    it("and lets a node wait that the ration holds, while the hub's bytes still come", async () => {
      const { node, behind } = await link();
      held?.hold();
      node.socket.write("held");
      behind.socket.write("comes");
      await node.holds("comes");
      expect(behind.text).to.equal("");
      held?.release();
      await behind.holds("held");
    });

    it("until one ends: what is under way arrives, and the other may still answer", async () => {
      const { node, behind } = await link();
      node.socket.end("last words");
      await behind.until(() => behind.ended);
      expect(behind.text).to.equal("last words");
      behind.socket.end("answer");
      await node.until(() => node.ended);
      expect(node.text).to.equal("answer");
      await Promise.all([node.closed(), behind.closed()]);
    });

    it("until the hub ends, in the same way", async () => {
      const { node, behind } = await link();
      behind.socket.end("last words");
      await node.until(() => node.ended);
      node.socket.end("answer");
      await behind.until(() => behind.ended);
      expect([node.text, behind.text]).to.deep.equal(["last words", "answer"]);
    });

    it("and cuts a side that does not end within 5 s of the other", async () => {
      const { node, behind } = await link();
      node.socket.end();
      await behind.until(() => behind.ended);
      await clock.advance(4_999);
      expect(behind.socket.destroyed).to.equal(false);
      const cut = once(node.socket, "close");
      await clock.advance(1);
      await node.closed();
      node.socket.destroy();
      await cut;
    });

    for (const first of ["node", "hub"] as const) {
      it(`and cuts the other at once when the ${first}'s line breaks`, async () => {
        const { node, behind } = await link();
        const [broken, other] = first === "node" ? [node, behind] : [behind, node];
        broken.socket.resetAndDestroy();
        await other.closed();
        other.socket.destroy();
      });
    }

    it("and forgets a link that is over", async () => {
      const { node, behind } = await link();
      expect(proxy.snapshot().links).to.equal(1);
      node.socket.end();
      behind.socket.end();
      await Promise.all([node.closed(), behind.closed()]);
      node.socket.destroy();
      behind.socket.destroy();
      // Another link's round trip: by then the first one's end has been seen.
      await link();
      expect([proxy.snapshot(), left]).to.deep.equal([{ links: 1, pending: 0 }, 1]);
    });

    it("until it is closed itself", async () => {
      const { node, behind } = await link();
      proxy.close();
      await Promise.all([node.closed(), behind.closed()]);
    });
  });

  it("lets go of the hub when the client goes before its answer", async () => {
    const node = await ask(head(REQUEST));
    const behind = await hub.line();
    await behind.holds("\r\n\r\n");
    node.socket.resetAndDestroy();
    await clock.advance(5_000);
    await behind.closed();
    expect(proxy.snapshot()).to.deep.equal({ links: 0, pending: 0 });
  });
});
