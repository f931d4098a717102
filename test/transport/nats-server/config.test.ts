import { once } from "node:events";
import { connect as connectSocket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { jetstreamManager } from "@nats-io/jetstream";
import { expect } from "chai";
import fc from "fast-check";
import {
  hubConfig,
  nodeConfig,
  quote,
  type ServerPlaces,
} from "../../../transport/nats-server/config.ts";
import { startNodeServer, startServer } from "../../support/nats.ts";
import { tempFolder } from "../../support/temp-folder.ts";

describe("a value in nats-server's configuration", () => {
  /** Whether the server takes user and password as a client sends them. */
  async function admits(port: number, user: string, pass: string): Promise<boolean> {
    const socket = connectSocket({ host: "127.0.0.1", port });
    try {
      await once(socket, "connect");
      socket.write(`CONNECT ${JSON.stringify({ user, pass, verbose: false })}\r\nPING\r\n`);
      for await (const line of createInterface({ input: socket })) {
        if (line === "PONG") return true;
        if (line.startsWith("-ERR")) return false;
      }
      return false;
    } finally {
      socket.destroy();
    }
  }

  it("means to the server exactly what it was, whatever characters it holds", async () => {
    const awkward = [
      'say "hi"',
      "back\\slash\\",
      "\\x41",
      "$HOME",
      "tab\tnew\nline\r",
      "# no comment",
      "// none",
      "{ a: 1 }",
      "include 'x'",
      "'single'",
      "12MB",
      "true",
      "ünï 漢字 🦎",
      "\u007f\u0001",
      " ",
      '"',
      "\\",
    ];
    const sampled = fc.sample(
      fc.string({ unit: "binary", minLength: 1, maxLength: 24 }).filter((s) => !s.includes("\0")),
      60,
    );
    // A bcrypt hash is no password, and the server would take it for one.
    const values = [...awkward, ...sampled].filter((value) => !value.startsWith("$2a$"));
    const users = values.map((value, n) => `{ user: u${n}, password: ${quote(value)} }`);
    await using server = await startServer(
      ({ ports, portsDirectory, logFile }) =>
        `listen: "127.0.0.1:${ports.client}"
         ports_file_dir: ${quote(portsDirectory)}
         log_file: ${quote(logFile)}
         authorization { users: [ ${users.join(", ")} ] }`,
    );
    for (const [n, value] of values.entries()) {
      expect(
        await admits(server.child.ports.client, `u${n}`, value),
        JSON.stringify(value),
      ).to.equal(true);
      expect(await admits(server.child.ports.client, `u${n}`, `${value}x`)).to.equal(false);
    }
  });

  it("is refused when it holds NUL", () => {
    expect(() => quote("a\0b")).to.throw(RangeError);
  });
});

describe("a node's server", () => {
  it("keeps everything in a folder with an awkward name", async () => {
    using folder = tempFolder();
    const directory = join(folder.path, `it's "quoted" \\ $HOME # ünï`);
    await using server = await startNodeServer({ directory });
    const connection = await server.connectStore();
    const manager = await jetstreamManager(connection);
    await manager.streams.add({ name: "one", subjects: ["one"] });
    const reconnected = (async () => {
      for await (const status of connection.status()) if (status.type === "reconnect") return;
    })();
    await server.kill();
    await server.restart();
    await reconnected;
    expect((await manager.streams.info("one")).config.name).to.equal("one");
    expect(server.storeDirectory.startsWith(directory)).to.equal(true);
  });

  it("lets nobody in without a key", async () => {
    await using server = await startNodeServer();
    let refused: unknown;
    await server.connect({ reconnect: false }).catch((error: unknown) => {
      refused = error;
    });
    expect(String(refused)).to.include("Authorization Violation");
  });

  it("syncs before it acknowledges, and says so to the system user alone", async () => {
    await using server = await startNodeServer();
    const ask = async (connection: Awaited<ReturnType<typeof server.connectSys>>) =>
      (
        await connection.request("$SYS.REQ.SERVER.PING.JSZ", JSON.stringify({ config: true }), {
          timeout: 2_000,
        })
      ).json<{ server: { id: string }; data: { config: { sync_always?: boolean } } }>();
    const answer = await ask(await server.connectSys());
    expect(answer.server.id).to.equal(server.child.serverId);
    expect(answer.data.config.sync_always).to.equal(true);
    let refused: unknown;
    await ask(await server.connectStore()).catch((error: unknown) => {
      refused = error;
    });
    expect(String(refused)).to.match(/no responders/i);
  });

  it("offers JetStream to the store's user and not to the system's", async () => {
    await using server = await startNodeServer();
    const store = await jetstreamManager(await server.connectStore());
    expect((await store.getAccountInfo()).domain).to.equal("test");
    let refused: unknown;
    await jetstreamManager(await server.connectSys()).catch((error: unknown) => {
      refused = error;
    });
    expect(refused).to.be.instanceOf(Error);
  });
});

/** Lines of a configuration's listeners that anything but this machine could reach. */
function exposed(text: string): string[] {
  return text.split("\n").filter((line) => /listen|http/.test(line) && !line.includes("127.0.0.1"));
}

describe("the two configurations", () => {
  const places: ServerPlaces = {
    ports: { client: 1, leaf: 2, websocket: 3 },
    storeDirectory: "/s",
    portsDirectory: "/p",
    logFile: "/l",
  };

  it("listen on loopback alone and open no monitoring port", () => {
    const hub = hubConfig(
      { serverName: "hub", operatorJwt: "o", systemAccount: "A", jwtDirectory: "/j" },
      places,
    );
    const link = { account: "A", workerUser: "U", url: "wss://h", credentialsFile: "/c" };
    const node = nodeConfig(
      { serverName: "n", domain: "d", storeUser: "U", sysUser: "U", link },
      places,
    );
    expect(exposed(hub)).to.deep.equal([]);
    expect(exposed(node)).to.deep.equal([]);
  });
});
