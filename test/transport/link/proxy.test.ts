/** Proves what the leaf proxy asks of the hub, what it refuses, and what it answers for it. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect } from "chai";
import {
  ACCEPT,
  CONSENT,
  head,
  KEY,
  ProxiedLeaf,
  REQUEST,
  withLine,
} from "../../support/proxied-leaf.ts";

describe("the leaf proxy", () => {
  let leaf: ProxiedLeaf;

  beforeEach(async () => {
    leaf = await ProxiedLeaf.open();
  });
  afterEach(() => leaf.close());

  describe("asks the hub", () => {
    it("in a head of its own, in which nothing of the client's stands but its key", async () => {
      await leaf.ask(
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
      const behind = await leaf.hub.line();
      await behind.holds("\r\n\r\n");
      expect(behind.text).to.equal(
        head([
          "GET /leafnode HTTP/1.1",
          `Host: 127.0.0.1:${leaf.hub.port}`,
          "Upgrade: websocket",
          "Connection: Upgrade",
          `Sec-WebSocket-Key: ${KEY}`,
          "Sec-WebSocket-Version: 13",
        ]),
      );
    });

    it("and passes its consent on, and what came right behind it", async () => {
      const node = await leaf.ask(head(REQUEST));
      const behind = await leaf.hub.line();
      await behind.holds("\r\n\r\n");
      behind.socket.write(`${head([...CONSENT, "Server: nats", "Set-Cookie: x=y"])}INFO {}`);
      await node.holds("INFO {}");
      expect(node.text).to.equal(`${head(CONSENT)}INFO {}`);
      expect(leaf.proxy.snapshot()).to.deep.equal({ links: 1, pending: 0 });
    });

    it("however its answer is cut into pieces", async () => {
      const node = await leaf.ask(head(REQUEST));
      const behind = await leaf.hub.line();
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
        const node = await leaf.ask(request);
        await node.closed();
        expect(node.text).to.match(new RegExp(`^HTTP/1\\.1 ${status} `));
        expect(node.text).to.match(/connection: close/i);
        expect(leaf.hub.lines).to.have.length(0);
        expect(leaf.proxy.snapshot()).to.deep.equal({ links: 0, pending: 0 });
      });
    }

    it("what a plain byte proxy lets through: a request that the hub refuses, and one for another path behind it", async () => {
      // The second request comes only after the first was passed on, and before the hub has answered.
      const node = await leaf.ask(head(REQUEST));
      const behind = await leaf.hub.line();
      await behind.holds("\r\n\r\n");
      node.socket.write(head(withLine("GET / HTTP/1.1", "GET")));
      await leaf.clock.advance(1);
      behind.socket.write(head(["HTTP/1.1 400 Bad Request", "Content-Length: 0"]));
      await node.closed();
      await behind.closed();
      expect(node.text).to.match(/^HTTP\/1\.1 502 /);
      expect(behind.text.match(/GET /g)).to.have.length(1);
      expect(behind.text).not.to.include("GET / HTTP");
    });
  });

  it("passes nothing on before the hub has consented, and everything after", async () => {
    const node = await leaf.ask(head(REQUEST));
    const behind = await leaf.hub.line();
    await behind.holds("\r\n\r\n");
    node.socket.write("early");
    // A round trip of another connection: by then the early bytes have long arrived.
    const other = await leaf.ask(head(withLine("GET / HTTP/1.1", "GET")));
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
        const node = await leaf.ask(head(REQUEST));
        const behind = await leaf.hub.line();
        await behind.holds("\r\n\r\n");
        behind.socket.write(head(answer));
        await node.closed();
        expect(node.text).to.match(/^HTTP\/1\.1 502 /);
        await behind.closed();
      });
    }

    it("502 when it hangs up, is not there, or never ends its head", async () => {
      const node = await leaf.ask(head(REQUEST));
      (await leaf.hub.line()).socket.end();
      await node.closed();
      expect(node.text).to.match(/^HTTP\/1\.1 502 /);

      const endless = await leaf.ask(head(REQUEST));
      (await leaf.hub.line(1)).socket.write(`HTTP/1.1 101 X\r\n${"x".repeat(5_000)}`);
      await endless.closed();
      expect(endless.text).to.match(/^HTTP\/1\.1 502 /);

      const gone = createServer();
      gone.listen(0, "127.0.0.1");
      await once(gone, "listening");
      const { port } = gone.address() as AddressInfo;
      await new Promise((resolve) => gone.close(resolve));
      leaf.proxy = leaf.newProxy({}, port);
      const alone = await leaf.ask(head(REQUEST));
      await alone.closed();
      expect(alone.text).to.match(/^HTTP\/1\.1 502 /);
    });

    it("504 when it does not answer within 5 s, and takes its consent no more", async () => {
      const node = await leaf.ask(head(REQUEST));
      const behind = await leaf.hub.line();
      await behind.holds("\r\n\r\n");
      await leaf.clock.advance(4_999);
      expect(node.text).to.equal("");
      await leaf.clock.advance(1);
      await node.closed();
      expect(node.text).to.match(/^HTTP\/1\.1 504 /);
      await behind.closed();
      expect(leaf.proxy.snapshot()).to.deep.equal({ links: 0, pending: 0 });
    });

    it("503 beyond its bounds: handshakes under way, links, and once it is closed", async () => {
      leaf.proxy = leaf.newProxy({ pendingHandshakes: 1, links: 2 });
      await leaf.ask(head(REQUEST));
      await (await leaf.hub.line()).holds("\r\n\r\n");
      const second = await leaf.ask(head(REQUEST));
      await second.closed();
      expect(second.text).to.match(/^HTTP\/1\.1 503 /);

      const [node, behind] = [leaf.lines[0], await leaf.hub.line()];
      if (node === undefined) throw new Error("there is no first line");
      behind.socket.write(head(CONSENT));
      await node.holds("101");
      await leaf.known({ node, behind });
      await leaf.known(await leaf.link());
      const third = await leaf.ask(head(REQUEST));
      await third.closed();
      expect(third.text).to.match(/^HTTP\/1\.1 503 /);

      leaf.proxy.close();
      const late = await leaf.ask(head(REQUEST));
      await late.closed();
      expect(late.text).to.match(/^HTTP\/1\.1 503 /);
    });
  });

  it("lets go of the hub when the client goes before its answer", async () => {
    const node = await leaf.ask(head(REQUEST));
    const behind = await leaf.hub.line();
    await behind.holds("\r\n\r\n");
    node.socket.resetAndDestroy();
    await leaf.clock.advance(5_000);
    await behind.closed();
    expect(leaf.proxy.snapshot()).to.deep.equal({ links: 0, pending: 0 });
  });
});
