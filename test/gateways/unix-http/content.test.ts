import { once } from "node:events";
import { readdirSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { expect } from "chai";
import type { UserFiles } from "../../../host/machine/files.ts";
import type { Host } from "../../../host/machine/host.ts";
import { HostAgentError } from "../../../protocol/host-agent/errors.ts";
import { startUnixHttp, type TestGateway } from "../../support/unix-http.ts";

const place = (path: string): string => `/v1/files/content?user=alex&root=home&path=${path}`;
const MIB = 1_048_576;

function changedFiles(host: Host, changes: (files: UserFiles) => Partial<UserFiles>): Host {
  const own = host.files;
  const files: UserFiles = {
    list: (...request) => own.list(...request),
    stat: (...request) => own.stat(...request),
    mkdir: (...request) => own.mkdir(...request),
    move: (...request) => own.move(...request),
    copy: (...request) => own.copy(...request),
    delete: (...request) => own.delete(...request),
    download: (...request) => own.download(...request),
    upload: (...request) => own.upload(...request),
    ...changes(own),
  };
  return { ...host, files };
}

describe("the bytes of files over the socket", () => {
  const gateways: TestGateway[] = [];
  afterEach(async () => {
    for (const gateway of gateways.splice(0)) await gateway[Symbol.asyncDispose]();
  });

  async function start(options: Parameters<typeof startUnixHttp>[0] = {}): Promise<TestGateway> {
    const gateway = await startUnixHttp(options);
    gateways.push(gateway);
    return gateway;
  }

  const withFiles = (changes: (files: UserFiles) => Partial<UserFiles>) =>
    start({ host: (host) => changedFiles(host, changes) });

  const stored = (gateway: TestGateway): readonly string[] =>
    readdirSync(join(gateway.folder, "files", "home", "alex"));

  it("go up and come down as they were, told by length or in chunks", async () => {
    const gateway = await start();
    const bytes = Buffer.alloc(3 * MIB + 17, "lemon");
    expect((await gateway.ask("PUT", place("a"), { body: bytes })).text).to.equal("{}\n");
    const down = await gateway.ask("GET", place("a"));
    expect(down.headers).to.include({
      "content-type": "application/octet-stream",
      "content-length": String(bytes.length),
    });
    expect(down.text === bytes.toString("utf8")).to.equal(true);
    const upload = request({ socketPath: gateway.path, method: "PUT", path: place("b") });
    for (let part = 0; part < 3; part += 1) upload.write(`part ${part};`);
    upload.end();
    const [response] = await once(upload, "response");
    expect(response.statusCode).to.equal(200);
    response.resume();
    expect((await gateway.ask("GET", place("b"))).text).to.equal("part 0;part 1;part 2;");
    expect((await gateway.ask("PUT", place("empty"))).status).to.equal(200);
    expect((await gateway.ask("GET", place("empty"))).headers["content-length"]).to.equal("0");
  });

  it("are not read for HEAD, and their file is let go", async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const gateway = await withFiles(() => ({
      download: async () => ({
        sizeBytes: 5 * MIB,
        chunks: {
          [Symbol.asyncIterator]() {
            throw new Error("it is read");
          },
        },
        close: async () => resolve(),
      }),
    }));
    const { status, headers } = await gateway.ask("HEAD", place("a"));
    expect(status).to.equal(200);
    expect(headers["content-length"]).to.equal(String(5 * MIB));
    await closed;
  });

  it("are refused with a code before a byte is taken", async () => {
    const gateway = await start();
    const cases: readonly [string, string, number, string][] = [
      ["GET", place("missing"), 404, "not-found"],
      ["GET", place("..%2f..%2fetc%2fpasswd"), 400, "bad-path"],
      ["GET", place("a%00b"), 400, "bad-path"],
      ["GET", "/v1/files/content?root=home&path=a", 400, "bad-request"],
      ["GET", "/v1/files/content?user=alex&root=etc&path=a", 400, "bad-request"],
      ["GET", `${place("a")}&user=cindy`, 400, "bad-request"],
      ["PUT", place("no/folder"), 404, "not-found"],
      ["PUT", place(""), 400, "bad-path"],
      ["PUT", "/v1/files/content?user=%2e%2e&root=home&path=a", 404, "unknown-user"],
    ];
    for (const [method, target, status, code] of cases) {
      const answer = await gateway.ask(method, target, { body: method === "PUT" ? "x" : "" });
      expect(answer.status, target).to.equal(status);
      expect(answer.json, target).to.include({ code });
    }
  });

  it("are no file when the peer is gone in the middle of them", async () => {
    const uploads: Promise<unknown>[] = [];
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const gateway = await withFiles((own) => ({
      upload(...request) {
        const upload = own.upload(...request);
        uploads.push(upload);
        if (uploads.length === 2) begin();
        return upload;
      },
    }));
    await gateway.ask("PUT", place("a"), { body: "whole" });
    const peer = gateway.raw();
    peer.send(`PUT ${place("a")} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhalf`);
    await begun;
    peer.socket.destroy();
    expect((await Promise.allSettled(uploads)).map(({ status }) => status)).to.deep.equal([
      "fulfilled",
      "rejected",
    ]);
    expect((await gateway.ask("GET", place("a"))).text).to.equal("whole");
    expect(stored(gateway)).to.deep.equal(["a"]);
    // A caller that goes is no failure of ours.
    expect(gateway.log.lines.filter(({ level }) => Number(level) > 40)).to.deep.equal([]);
  });

  it("are let go when the peer is gone before the first of them", async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    const gateway = await withFiles(() => ({
      async download() {
        ask();
        await opened;
        const chunks = (async function* () {
          yield Buffer.alloc(MIB);
        })();
        return { sizeBytes: MIB, chunks, close: async () => resolve() };
      },
    }));
    const peer = gateway.raw();
    peer.send(`GET ${place("a")} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await asked;
    peer.socket.destroy();
    // Whoever comes later is answered after that end was seen.
    for (let times = 0; times < 5; times += 1) await gateway.ask("GET", "/v1/system/gpu");
    open();
    await closed;
  });

  it("may take longer than any request's head or body, as long as they move", async () => {
    let came = (): void => {};
    const gateway = await start({
      limits: { headMs: 150, bodyMs: 20, lingerMs: 20, checkMs: 5, idleMs: 60_000 },
      host: (host) =>
        changedFiles(host, () => ({
          async upload(_user, _place, bytes) {
            for await (const _chunk of bytes) came();
          },
        })),
    });
    const peer = gateway.raw();
    peer.send(`PUT ${place("slow")} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`);
    // Each piece follows when the one before it has come, until every limit has passed several times.
    for (const begunMs = performance.now(); performance.now() - begunMs < 400; ) {
      const arrived = new Promise<void>((resolve) => {
        came = resolve;
      });
      peer.send("1\r\nx\r\n");
      await arrived;
    }
    peer.send("0\r\n\r\n");
    await peer.until("HTTP/1.1 200");
  });

  it("are cut when they stand still, and no file comes of them", async () => {
    const gateway = await start({ limits: { idleMs: 100 } });
    const peer = gateway.raw();
    peer.send(`PUT ${place("still")} HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nx`);
    expect(await peer.ended()).to.equal("");
    expect((await gateway.ask("GET", place("still"))).status).to.equal(404);
  });

  it("are refused in the middle with a code that can be read", async () => {
    const gateway = await withFiles(() => ({
      async upload(_user, _place, bytes) {
        for await (const _chunk of bytes) throw new HostAgentError("no-space");
      },
    }));
    const peer = gateway.raw();
    peer.send(`PUT ${place("a")} HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n`);
    peer.send("x".repeat(100_000));
    expect(await peer.until('"no-space"')).to.match(/^HTTP\/1\.1 507 /);
  });

  it("wait for a peer that does not read, and are held nowhere meanwhile", async () => {
    let given = 0;
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const chunk = Buffer.alloc(65_536);
    const gateway = await withFiles(() => ({
      download: async () => ({
        sizeBytes: 64 * MIB,
        chunks: (async function* () {
          for (; given < 1_024; given += 1) yield chunk;
        })(),
        close: async () => resolve(),
      }),
    }));
    const peer = gateway.raw();
    peer.send(`GET ${place("big")} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await peer.until("octet-stream");
    peer.socket.pause();
    // Others are served, and it gets no further than what the sockets hold.
    for (let times = 0; times < 20; times += 1) await gateway.ask("GET", "/v1/system/gpu");
    expect(given).to.be.lessThan(200);
    peer.socket.destroy();
    await closed;
  });

  it("break the connection when the file has become shorter than was promised", async () => {
    const { promise: seen, resolve: saw } = Promise.withResolvers<void>();
    const gateway = await withFiles(() => ({
      download: async () => ({
        sizeBytes: 1_000,
        chunks: (async function* () {
          yield Buffer.from("short");
          await seen;
          throw new HostAgentError("files-failed");
        })(),
        close: async () => {},
      }),
    }));
    const peer = gateway.raw();
    peer.send(`GET ${place("a")} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await peer.until("short");
    saw();
    expect((await peer.ended()).endsWith("short")).to.equal(true);
  });
});
