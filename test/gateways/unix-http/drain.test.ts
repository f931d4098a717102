import { once } from "node:events";
import { expect } from "chai";
import { startUnixHttp, type TestGateway } from "../../support/unix-http.ts";

const STATUS = "GET /v1/system/gpu HTTP/1.1\r\nHost: agent\r\n\r\n";
const UPLOAD =
  "PUT /v1/files/content?user=alex&root=home&path=a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";

describe("the end of the host-agent's gateway", () => {
  let gateway: TestGateway;
  beforeEach(async () => {
    gateway = await startUnixHttp();
  });
  afterEach(() => gateway[Symbol.asyncDispose]());

  it("closes idle connections at once, and lets what is under way end", async () => {
    const idle = gateway.raw();
    idle.send(STATUS);
    await idle.until('"present":true');
    const unused = gateway.raw();
    await once(unused.socket, "connect");
    const busy = gateway.raw();
    busy.send(`${UPLOAD}ha`);
    await gateway.uploading();
    const closed = gateway.close(60_000);
    await idle.ended();
    await unused.ended();
    busy.send("lf");
    expect(await busy.ended()).to.match(/^HTTP\/1\.1 200 .*\{\}\n$/s);
    await closed;
    const late = gateway.raw();
    const [failure] = await once(late.socket, "error");
    expect(failure.code).to.be.oneOf(["ENOENT", "ECONNREFUSED"]);
  });

  it("refuses what comes on a connection that is still busy", async () => {
    const busy = gateway.raw();
    busy.send(`${UPLOAD}ha`);
    await gateway.uploading();
    const closed = gateway.close(60_000);
    busy.send(`lf${STATUS}`);
    const text = await busy.ended();
    expect(text.split("HTTP/1.1 200").length).to.equal(2);
    expect(text).not.to.include('"present":true');
    await closed;
  });

  it("cuts what takes longer than its grace, or at once when it is hurried", async () => {
    const slow = gateway.raw();
    slow.send(`${UPLOAD}ha`);
    await gateway.uploading();
    const hurry = new AbortController();
    const closed = gateway.close(60_000, hurry.signal);
    hurry.abort();
    expect(await slow.ended()).to.equal("");
    await closed;
  });

  it("cuts streams and uploads when the grace is over", async () => {
    const slow = gateway.raw();
    slow.send(`${UPLOAD}ha`);
    const stream = gateway.raw();
    stream.send("GET /v1/network/events HTTP/1.1\r\nHost: a\r\n\r\n");
    await stream.until("retry: 1000");
    await gateway.uploading();
    await gateway.close(1);
    expect(await slow.ended()).to.equal("");
    await stream.ended();
  });
});
