import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { createUser } from "@nats-io/nkeys";
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import type { LemonError } from "../../protocol/errors.ts";
import { type ConnectAs, connectRefusal, openConnection } from "../../transport/connection.ts";
import { natsSystem } from "../../transport/nats-address.ts";
import { quote } from "../../transport/nats-server/config.ts";
import { startServer, type TestServer } from "../support/nats.ts";
import { refusalOf } from "../support/refusal.ts";
import { tempFolder } from "../support/temp-folder.ts";
import { TEST_TLS, TEST_TLS_NAMES } from "../support/tls-fixture.ts";

describe("a connection to somebody else's NATS", () => {
  const connections: NatsConnection[] = [];
  afterEach(async () => {
    await Promise.all(connections.splice(0).map((connection) => connection.close()));
  });

  const connect = async (urls: string, ca: string | null = null, as: ConnectAs = "nobody") => {
    const system = natsSystem("--nats", urls);
    const connection = await openConnection({ url: { system, ca }, name: "test", as });
    const server = connection.info?.server_name;
    await connection.close();
    return server;
  };
  const whyRefused = async (attempt: () => Promise<unknown>): Promise<string> => {
    const refused: LemonError = await refusalOf(attempt);
    expect(refused.code).to.equal("unavailable");
    return connectRefusal(refused);
  };
  const plain = (more = "", name = "theirs"): Promise<TestServer> =>
    startServer(
      ({ ports, portsDirectory }) => `server_name: ${name}
        listen: "127.0.0.1:${ports.client}"
        ports_file_dir: ${quote(portsDirectory)}
        ${more}`,
    );
  const portOf = (server: TestServer): number => server.child.ports.client;

  it("takes the first of several servers that answers, in whatever order they are named", async () => {
    await using server = await plain();
    const dead = await freePort();
    const live = `nats://127.0.0.1:${portOf(server)}`;
    expect(await connect(`nats://127.0.0.1:${dead},${live}`)).to.equal("theirs");
    expect(await connect(`${live},nats://127.0.0.1:${dead}`)).to.equal("theirs");
  });

  it("goes to a server that was away when it was first made", async () => {
    await using late = await plain("", "late");
    await using early = await plain("", "early");
    await late.stop();
    const urls = [late, early].map((server) => `nats://127.0.0.1:${portOf(server)}`).join(",");
    const url = { system: natsSystem("--nats", urls), ca: null };
    // Which of the two is tried first is chance.
    for (let count = 0; count < 8; count += 1) {
      connections.push(await openConnection({ url, name: "test", as: "nobody" }));
    }
    const back = connections.map(reconnected);
    await late.restart();
    await early.kill();
    await Promise.all(back);
    const servers = connections.map(({ info }) => info?.server_name);
    expect(servers).to.deep.equal(Array(8).fill("late"));
  });

  it("tells that none answers from that credentials are refused", async () => {
    await using server = await plain(`authorization { users: [ { nkey: ${nkey()} } ] }`);
    const live = `nats://localhost:${portOf(server)}`;
    const somebody: ConnectAs = { nkeySeed: createUser().getSeed() };
    expect(await whyRefused(() => connect(live))).to.equal("credentials");
    expect(await whyRefused(() => connect(live, null, somebody))).to.equal("credentials");
    expect(await whyRefused(() => connect(`nats://127.0.0.1:1`))).to.equal("no_answer");
  });

  it("tells that what answers is no NATS server", async () => {
    await using web = await listening((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    expect(await whyRefused(() => connect(`nats://127.0.0.1:${web.port}`))).to.equal("no_answer");
  });

  describe("by TLS", () => {
    const folder = tempFolder();
    after(() => folder[Symbol.dispose]());

    const secure = (certificate: string): Promise<TestServer> => {
      const files = { cert: `${folder.path}/cert.pem`, key: `${folder.path}/key.pem` };
      writeFileSync(files.cert, certificate);
      writeFileSync(files.key, TEST_TLS.key, { mode: 0o600 });
      return plain(`tls { cert_file: ${quote(files.cert)}, key_file: ${quote(files.key)} }`);
    };

    it("trusts the authorities that it is given, and no others", async () => {
      await using server = await secure(TEST_TLS.cert);
      for (const host of ["127.0.0.1", "localhost"]) {
        const url = `tls://${host}:${portOf(server)}`;
        expect(await connect(url, TEST_TLS.cert), host).to.equal("theirs");
        expect(await whyRefused(() => connect(url)), host).to.equal("tls");
      }
    });

    it("wants a certificate for the address that was named, and takes none for another name", async () => {
      await using server = await secure(TEST_TLS_NAMES.address);
      const trusted = TEST_TLS_NAMES.address;
      const port = portOf(server);
      expect(await connect(`tls://127.0.0.1:${port}`, trusted)).to.equal("theirs");
      expect(await whyRefused(() => connect(`tls://localhost:${port}`, trusted))).to.equal("tls");
    });

    it("wants a certificate for the name that was named, and takes it for no address", async () => {
      await using server = await secure(TEST_TLS_NAMES.name);
      const trusted = TEST_TLS_NAMES.name;
      const port = portOf(server);
      expect(await connect(`tls://localhost:${port}`, trusted)).to.equal("theirs");
      expect(await whyRefused(() => connect(`tls://127.0.0.1:${port}`, trusted))).to.equal("tls");
    });

    it("is never made with a server that offers none, where it was asked for", async () => {
      await using server = await plain();
      const port = portOf(server);
      expect(await whyRefused(() => connect(`tls://127.0.0.1:${port}`))).to.equal("tls");
      const trusting = () => connect(`nats://127.0.0.1:${port}`, TEST_TLS.cert);
      expect(await whyRefused(trusting)).to.equal("tls");
    });
  });
});

async function reconnected(connection: NatsConnection): Promise<void> {
  for await (const { type } of connection.status()) if (type === "reconnect") return;
}

const nkey = (): string => createUser().getPublicKey();

async function listening(serve: (socket: Socket) => void) {
  const server = createServer(serve);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, "close");
    },
  };
}

async function freePort(): Promise<number> {
  await using server = await listening(() => undefined);
  return server.port;
}
