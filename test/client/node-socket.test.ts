import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { promisify } from "node:util";
import { expect } from "chai";

const run = promisify(execFile);
const module = (path: string): string => new URL(`../../client/${path}`, import.meta.url).href;

/** Of RFC 6455 1.3. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const HELLO = textFrame({
  type: "hello-ok",
  protocol: 1,
  server: { version: "2026.1.0", commit: null, host: "frozen", connId: "c" },
  features: { methods: ["health"], events: [] },
  snapshot: { presence: {}, health: { ok: true } },
  policy: { maxPayload: 4_194_304, maxBufferedBytes: 8_388_608, tickIntervalMs: 15_000 },
  auth: { role: "operator", scopes: ["read"] },
});

/** Of 126 to 65,535 bytes (RFC 6455 5.2). */
function textFrame(value: object): Buffer {
  const text = Buffer.from(JSON.stringify(value));
  const head = Buffer.from([0x81, 126, 0, 0]);
  head.writeUInt16BE(text.length, 2);
  return Buffer.concat([head, text]);
}

describe("a program in Node on the SDK's own socket", () => {
  let server: Server;
  let sockets: Duplex[];

  /** A peer that says hello and is then frozen, with its lines open. */
  beforeEach(async () => {
    sockets = [];
    server = createServer().on("upgrade", (request, socket) => {
      sockets.push(socket);
      socket.on("error", () => {});
      const key = `${request.headers["sec-websocket-key"]}${GUID}`;
      const accept = createHash("sha1").update(key).digest("base64");
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      );
      socket.once("data", () => {
        socket.pause();
        socket.write(HELLO);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });

  it("ends when it has closed its client, though the peer is frozen", async () => {
    const { port } = server.address() as AddressInfo;
    const program = `
      import { connect } from ${JSON.stringify(module("index.ts"))};
      import { socketOpener } from ${JSON.stringify(module("node/index.ts"))};
      const url = "ws://127.0.0.1:${port}/ws";
      const lemon = await connect({ url, clientId: "p", token: "t", openSocket: socketOpener() });
      lemon.close();
      console.log(await lemon.ended);`;
    const words = ["--input-type=module", "--eval", program];
    // The platform's socket would hold it for longer than this.
    const { stdout } = await run(process.execPath, words, { timeout: 20_000 });
    expect(stdout).to.equal("null\n");
  });
});
