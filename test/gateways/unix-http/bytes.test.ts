import { once } from "node:events";
import { expect } from "chai";
import { startUnixHttp, type TestGateway } from "../../support/unix-http.ts";

const LIMITS = { headBytes: 8_192, bodyBytes: 4_096, connections: 20 };
const STATUS = "GET /v1/system/gpu HTTP/1.1\r\nHost: agent\r\n";
const post = (body: string, headers = `Content-Length: ${body.length}\r\n`): string =>
  `POST /v1/auth/verify-password HTTP/1.1\r\nHost: agent\r\n${headers}\r\n${body}`;

describe("bytes on the host-agent's socket", () => {
  let gateway: TestGateway;
  beforeEach(async () => {
    gateway = await startUnixHttp({ limits: LIMITS });
  });
  afterEach(() => gateway[Symbol.asyncDispose]());

  /** Sends it all at once and ends; everything that came. */
  async function talk(bytes: string): Promise<string> {
    const peer = gateway.raw();
    peer.send(bytes);
    return await peer.ended();
  }

  it("are one request however they are cut", async () => {
    const peer = gateway.raw();
    await once(peer.socket, "connect");
    peer.socket.setNoDelay(true);
    for (const character of `${STATUS}X-More: yes\r\n\r\n`) peer.send(character);
    expect(await peer.until('"present":true')).to.match(/^HTTP\/1\.1 200 /);
  });

  it("are several requests when they come together, answered in their order", async () => {
    const peer = gateway.raw();
    peer.send(`${post('{"user":"a"}')}${STATUS}\r\nGET /v1/nothing HTTP/1.1\r\nHost: a\r\n\r\n`);
    const text = await peer.until("not-found");
    const order = ['"valid":false', '"present":true', '"not-found"'].map((part) =>
      text.indexOf(part),
    );
    expect(order).to.deep.equal([...order].sort((a, b) => a - b));
    expect(order).not.to.include(-1);
  });

  it("are at most 16 requests that wait for their answers; one more, and the connection is cut", async () => {
    const most = `${STATUS}\r\n`.repeat(15);
    const text = await talk(`${most}${STATUS}Connection: close\r\n\r\n`);
    expect(text.split("HTTP/1.1 200 ")).to.have.length(17);
    expect(await talk(`${STATUS}\r\n`.repeat(17))).to.equal("");
  });

  it("may be a body in chunks, of any number of them", async () => {
    const peer = gateway.raw();
    peer.send(post("", "Transfer-Encoding: chunked\r\n"));
    for (const character of '{"user":"a"}') peer.send(`1\r\n${character}\r\n`);
    peer.send("0\r\n\r\n");
    expect(await peer.until('{"valid":false}')).to.match(/^HTTP\/1\.1 200 /);
  });

  it("are refused in JSON when they are no request", async () => {
    const bad = [
      "nonsense\r\n\r\n",
      "GET / HTTP/9.9\r\nHost: a\r\n\r\n",
      "FETCH /v1/system/gpu HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /v1/a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
      `${STATUS}X-Nul: a\0b\r\n\r\n`,
      `${STATUS}Broken header\r\n\r\n`,
      post("{}", "Content-Length: 2\r\nContent-Length: 3\r\n"),
      post("{}", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
      post("{}", "Content-Length: -1\r\n"),
      post("zz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n"),
    ];
    for (const bytes of bad) {
      const text = await talk(bytes);
      expect(text, JSON.stringify(bytes)).to.match(/^HTTP\/1\.1 400 Bad Request\r\n/);
      expect(text).to.include('{"code":"bad-request","message":"the request is not valid"}\n');
    }
    expect((await gateway.ask("GET", "/v1/system/gpu")).status).to.equal(200);
  });

  it("that are no request are refused in their turn: an answer under way comes first", async () => {
    const change = '{"slug":"photos"}';
    const request = `POST /v1/discovery/publish HTTP/1.1\r\nHost: a\r\nContent-Length: ${change.length}\r\n\r\n${change}`;
    for (const rest of ["nonsense\r\n\r\n", "!", "nonsense\r\n\r\n".repeat(1_000)]) {
      const text = await talk(`${STATUS}\r\n${request}${rest}`);
      expect(text.match(/^HTTP\/1\.1 \d+/gm)).to.deep.equal([
        "HTTP/1.1 200",
        "HTTP/1.1 200",
        "HTTP/1.1 400",
      ]);
      expect(text).to.include('"name":"photos.local"');
    }
    const stream = gateway.raw();
    stream.send("GET /v1/journal/follow?container=web HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n");
    const frames = await stream.until("id: 3");
    expect(frames).not.to.include("HTTP/1.1 400");
    stream.socket.destroy();
  });

  it("need a Host header in HTTP/1.1, and none in HTTP/1.0", async () => {
    const peer = gateway.raw();
    peer.send("GET /v1/system/gpu HTTP/1.1\r\n\r\n");
    expect(await peer.until("Host header")).to.match(/^HTTP\/1\.1 400 /);
    peer.send("GET /v1/users/%zz/home HTTP/1.1\r\n\r\n");
    await peer.until("Host header", 2);
    peer.send(`${STATUS}\r\n`);
    await peer.until('"present":true');
    expect(await talk("GET /v1/system/gpu HTTP/1.0\r\n\r\n")).to.include('"present":true');
  });

  it("may be a head up to its limit", async () => {
    const filled = (bytes: number): string =>
      `${STATUS}X: ${"x".repeat(bytes - STATUS.length - "X: \r\n\r\n".length)}\r\n\r\n`;
    const peer = gateway.raw();
    // Node counts the bytes of names and values.
    peer.send(filled(LIMITS.headBytes - 100));
    await peer.until('"present":true');
    const text = await talk(filled(LIMITS.headBytes + 200));
    expect(text).to.match(/^HTTP\/1\.1 431 /);
    expect(text).to.include('"code":"headers-too-large"');
  });

  it("may be a body up to its limit, told or in chunks, and the answer can be read", async () => {
    const body = (bytes: number): string => `{"user":"${"u".repeat(bytes - 11)}"}`;
    const { bodyBytes } = LIMITS;
    expect(
      (await gateway.ask("POST", "/v1/auth/verify-password", { body: body(bodyBytes) })).json,
    ).to.deep.equal({ valid: false });
    const told = await gateway.ask("POST", "/v1/auth/verify-password", {
      body: body(bodyBytes + 1),
    });
    expect(told.status).to.equal(413);
    expect(told.json).to.include({ code: "body-too-large" });
    const peer = gateway.raw();
    peer.send(post("", "Transfer-Encoding: chunked\r\n"));
    const chunk = "x".repeat(1_000);
    for (let sent = 0; sent < 5; sent += 1) peer.send(`3e8\r\n${chunk}\r\n`);
    expect(await peer.until("body-too-large")).to.match(/^HTTP\/1\.1 413 /);
  });

  it("that a refusal did not wait for are thrown away for a while, then the peer is cut", async () => {
    const post = (bytes: number): string =>
      `POST /v1/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`;
    await using hasty = await startUnixHttp({ limits: { lingerMs: 100 } });
    const peer = hasty.raw();
    peer.send(post(100_000_000));
    await peer.until('"not-found"');
    peer.send("x".repeat(100_000));
    await peer.ended();
    // One that sends it all in time keeps its connection.
    const kept = gateway.raw();
    kept.send(post(9_000));
    await kept.until('"not-found"');
    kept.send("x".repeat(9_000));
    kept.send(`${STATUS}\r\n`);
    await kept.until('"present":true');
  });

  it("are a request that did not come in time when a head or a body dawdles", async () => {
    await using hasty = await startUnixHttp({ limits: { headMs: 200, bodyMs: 200 } });
    const head = hasty.raw();
    head.send("GET /v1/system/gpu HTTP/1.1\r\nHost:");
    expect(await head.ended()).to.match(/^HTTP\/1\.1 408 .*request-timeout/s);
    const body = hasty.raw();
    body.send(post('{"user"', "Content-Length: 20\r\n"));
    expect(await body.until("request-timeout")).to.match(/^HTTP\/1\.1 408 /);
  });

  it("are answered although the peer has closed its half, and although it expects the unknown", async () => {
    const peer = gateway.raw();
    peer.socket.end(`${STATUS}Connection: close\r\n\r\n`);
    expect(await peer.ended()).to.include('"present":true');
    const expecting = gateway.raw();
    expecting.send(`${STATUS}Expect: the-unknown\r\n\r\n`);
    expect(await expecting.until('"present":true')).to.match(/^HTTP\/1\.1 200 /);
    const offering = gateway.raw();
    offering.send(`${STATUS}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`);
    expect(await offering.until('"present":true')).to.match(/^HTTP\/1\.1 200 /);
    const continued = gateway.raw();
    continued.send(post("", "Content-Length: 2\r\nExpect: 100-continue\r\n"));
    await continued.until("100 Continue");
    continued.send("{}");
    await continued.until('{"valid":false}');
  });

  it("of a body are asked for when it is to be read, not where the request is refused", async () => {
    const expecting = (start: string, length: number): Promise<string> =>
      talk(
        `${start} HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`,
      );
    const refused = [
      [await expecting("POST /v1/auth/verify-password", LIMITS.bodyBytes + 1), "body-too-large"],
      [await expecting("PUT /v1/files/content?user=alex&root=home&path=", 1), "bad-path"],
      [await expecting("POST /v1/nothing", 1), "not-found"],
      [await expecting("DELETE /v1/system/gpu", 1), "method-not-allowed"],
    ] as const;
    for (const [text, code] of refused) {
      expect(text)
        .to.match(/^HTTP\/1\.1 4\d\d /)
        .and.to.include(`"code":"${code}"`);
      expect(text)
        .to.match(/\r\nConnection: close\r\n/i)
        .and.not.to.include("100 Continue");
    }
  });

  it("that ask for a proxy are refused, behind the answers before them", async () => {
    const connect = "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";
    const refusal = '{"code":"bad-request","message":"this is no proxy"}\n';
    expect(await talk(connect))
      .to.match(/^HTTP\/1\.1 400 /)
      .and.to.include(refusal);
    const answered = await talk(`${STATUS}\r\n${connect}`);
    expect(answered)
      .to.match(/^HTTP\/1\.1 200 /)
      .and.to.include('"present":true');
    expect(await talk(`${connect}bytes for the other side`)).to.include(refusal);
  });

  it("of peers beyond the limit are turned away, and others find room again", async () => {
    const peers = Array.from({ length: LIMITS.connections }, () => gateway.raw());
    for (const peer of peers) peer.send(`${STATUS}\r\n`);
    await Promise.all(peers.map((peer) => peer.until('"present":true')));
    expect(await gateway.raw().ended()).to.equal("");
    peers[0]?.socket.destroy();
    expect(gateway.log.text()).to.include("connection limit reached, peers were turned away");
    peers[1]?.send(`${STATUS}\r\n`);
    await peers[1]?.until('"present":true', 2);
    const again = gateway.raw();
    again.send(`${STATUS}\r\n`);
    await again.until('"present":true');
  });

  it("leave nothing behind when the peers vanish at any moment", async () => {
    const whole = `${post('{"user":"a","password":"b"}')}${STATUS}\r\n`;
    for (let length = 1; length < whole.length; length += 7) {
      const peer = gateway.raw();
      await once(peer.socket, "connect");
      peer.socket.write(whole.slice(0, length), () => peer.socket.destroy());
      await once(peer.socket, "close");
    }
    expect((await gateway.ask("GET", "/v1/system/gpu")).status).to.equal(200);
    expect(gateway.log.lines.filter(({ level }) => Number(level) >= 40)).to.deep.equal([]);
  });
});
