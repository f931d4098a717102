import { once } from "node:events";
import { createServer as createTcpServer, type Server } from "node:net";
import { createServer } from "node:tls";
import { expect } from "chai";
import { checkCertificate } from "../../../cli/doctor/certificate.ts";
import { TEST_ISSUED, TEST_TLS } from "../../support/tls-fixture.ts";

const DAY_MS = 24 * 60 * 60 * 1_000;
const NOW_MS = Date.UTC(2026, 10, 30);
const END_MS = Date.UTC(2120, 0, 1);

describe("the doctor's look at a certificate", () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  async function listening(server: Server): Promise<string> {
    servers.push(server.listen(0, "127.0.0.1"));
    await once(server, "listening");
    const address = server.address();
    return `wss://127.0.0.1:${typeof address === "object" ? address?.port : ""}/ws`;
  }
  const showing = (cert: string, key = TEST_TLS.key): Promise<string> =>
    listening(createServer({ cert, key }, (socket) => socket.on("error", () => {})));

  it("is content with one that is valid for a while, whoever issued it and for whatever name", async () => {
    for (const url of [
      await showing(TEST_TLS.cert),
      await showing(TEST_ISSUED.far.cert, TEST_ISSUED.far.key),
    ]) {
      expect(await checkCertificate(url, NOW_MS)).to.deep.equal({
        name: "certificate",
        level: "ok",
        finding: "valid until 2120-01-01",
        mend: null,
      });
    }
  });

  it("warns of one that ends within 14 days, and not before", async () => {
    const url = await showing(TEST_TLS.cert);
    expect((await checkCertificate(url, END_MS - 14 * DAY_MS))?.level).to.equal("ok");
    const soon = await checkCertificate(url, END_MS - 14 * DAY_MS + 1);
    expect(soon).to.include({ level: "warn", finding: "valid until 2120-01-01" });
    expect(soon?.mend).to.include("SIGHUP");
    expect((await checkCertificate(url, END_MS - 1))?.level).to.equal("warn");
    expect(await checkCertificate(url, END_MS)).to.include({
      level: "fail",
      finding: "expired on 2120-01-01",
    });
  });

  it("fails one that has ended, though nobody can connect any more to ask", async () => {
    const url = await showing(TEST_ISSUED.expired, TEST_ISSUED.far.key);
    expect(await checkCertificate(url, NOW_MS)).to.include({
      level: "fail",
      finding: "expired on 2021-01-01",
    });
  });

  it("has nothing to say without TLS, or where nobody shows one", async () => {
    expect(await checkCertificate("ws://127.0.0.1:1/ws", NOW_MS)).to.equal(null);
    expect(await checkCertificate("wss://127.0.0.1:1/ws", NOW_MS)).to.equal(null);
    const plain = await listening(createTcpServer((socket) => socket.end("hello")));
    expect(await checkCertificate(plain, NOW_MS)).to.equal(null);
  });
});
