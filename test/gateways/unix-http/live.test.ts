import { expect } from "chai";
import type { JournalLine } from "../../../host/machine/journal.ts";
import { HostAgentError } from "../../../protocol/host-agent/errors.ts";
import { startUnixHttp, type TestGateway } from "../../support/unix-http.ts";

const line = (text: string): JournalLine => ({
  ts: "2026-01-01T00:00:00Z",
  stream: "stdout",
  line: text,
});
const get = (target: string, headers = ""): string =>
  `GET ${target} HTTP/1.1\r\nHost: agent\r\n${headers}\r\n`;

describe("live streams of the host-agent", () => {
  const gateways: TestGateway[] = [];
  afterEach(async () => {
    for (const gateway of gateways.splice(0)) await gateway[Symbol.asyncDispose]();
  });

  /** A journal whose lines are the test's, and who follows it. */
  async function withJournal(
    follow: (signal: AbortSignal, resumed: boolean) => Promise<AsyncIterable<JournalLine>>,
  ): Promise<TestGateway> {
    const gateway = await startUnixHttp({
      host: (host) => ({
        ...host,
        journal: { follow: (_container, { signal, resumed }) => follow(signal, resumed) },
      }),
    });
    gateways.push(gateway);
    return gateway;
  }

  it("begin at once, before there is anything to say, and end their source with their reader", async () => {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const gateway = await withJournal(async (signal) => {
      signal.addEventListener("abort", () => resolve());
      return (async function* () {
        await ended;
        yield line("never seen");
      })();
    });
    const peer = gateway.raw();
    peer.send(get("/v1/journal/follow?container=malmo-photos-web"));
    const head = await peer.until("retry: 1000\n\n");
    expect(head).to.match(/^HTTP\/1\.1 200 OK\r\n/);
    expect(head.toLowerCase()).to.include("content-type: text/event-stream\r\n");
    peer.socket.destroy();
    await ended;
  });

  it("number their frames from 1, and begin with one lost frame for who comes back", async () => {
    const gateway = await withJournal(async (_signal, resumed) =>
      (async function* () {
        yield line("one");
        yield line(resumed ? "live only" : "two <b>");
      })(),
    );
    const target = "/v1/journal/follow?container=x";
    const fresh = await gateway.ask("GET", target);
    expect(fresh.text).to.equal(
      `retry: 1000\n\nid: 1\ndata: ${JSON.stringify(line("one"))}\n\nid: 2\ndata: ${JSON.stringify(line("two <b>"))}\n\n`,
    );
    for (const id of ["7", "anything"]) {
      const back = await gateway.ask("GET", target, { headers: { "Last-Event-ID": id } });
      expect(back.text).to.match(/^retry: 1000\n\nid: 1\ndata: \{"lost":true\}\n\nid: 2\n/);
      expect(back.text.split("lost").length).to.equal(2);
      expect(back.text).to.include("live only");
    }
  });

  it("are a plain refusal when they can not begin", async () => {
    let failure: Error = new HostAgentError("logs-unsupported");
    const gateway = await withJournal(() => Promise.reject(failure));
    const missing = await gateway.ask("GET", "/v1/journal/follow");
    expect(missing.status).to.equal(400);
    expect(missing.json).to.deep.equal({ code: "bad-request", message: "container is required" });
    expect((await gateway.ask("GET", "/v1/journal/follow?container=")).status).to.equal(400);
    const unsupported = await gateway.ask("GET", "/v1/journal/follow?container=x");
    expect(unsupported.status).to.equal(501);
    expect(unsupported.json).to.include({ code: "logs-unsupported" });
    failure = new Error("journalctl: no such unit malmo-secret");
    const failed = await gateway.ask("GET", "/v1/journal/follow?container=x");
    expect(failed.json).to.deep.equal({
      code: "journal-follow-failed",
      message: "could not follow the log",
    });
  });

  it("carry the network's changes to everyone who watches, each with ids of his own", async () => {
    const gateway = await startUnixHttp();
    gateways.push(gateway);
    const first = gateway.raw();
    const second = gateway.raw();
    first.send(get("/v1/network/events"));
    await first.until("retry: 1000");
    await gateway.post("/v1/network/wifi/connect", { ssid: "Open Cafe" });
    expect(await first.until('"connected"')).to.include("id: 1\ndata: {");
    second.send(get("/v1/network/events", "Last-Event-ID: 1\r\n"));
    expect(await second.until('"lost":true')).to.include("id: 1\ndata: ");
    await gateway.post("/v1/network/connection/set-primary", { connection_id: "wifi-1" });
    expect(await first.until('"primary"')).to.include("id: 2\ndata: {");
    expect(await second.until('"primary"')).to.include("id: 2\ndata: {");
  });

  it("are sixteen at a time; the next is told so, and finds room when one ends", async () => {
    const gateway = await startUnixHttp();
    gateways.push(gateway);
    const peers = Array.from({ length: 16 }, () => gateway.raw());
    for (const peer of peers) peer.send(get("/v1/network/events"));
    await Promise.all(peers.map((peer) => peer.until("retry: 1000")));
    const next = await gateway.ask("GET", "/v1/journal/follow?container=x");
    expect(next.status).to.equal(503);
    expect(next.json).to.include({ code: "too-many-streams" });
    // Its source is not even asked when there is no room, and a HEAD takes none.
    expect((await gateway.ask("HEAD", "/v1/network/events")).status).to.equal(200);
    expect((await gateway.ask("GET", "/v1/system/gpu")).status).to.equal(200);
  });
});
