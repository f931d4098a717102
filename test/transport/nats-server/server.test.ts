import {
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import pino from "pino";
import { systemClock } from "../../../host/clock.ts";
import { isAlive, type ProcessIdentity, processIdentity } from "../../../host/process-identity.ts";
import { readProcessRow } from "../../../host/process-table.ts";
import { quote, type ServerPlaces } from "../../../transport/nats-server/config.ts";
import { startNatsServer } from "../../../transport/nats-server/server.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { natsServerBinary, startServer } from "../../support/nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const log = pino({ enabled: false });

function plainConfig({ ports, portsDirectory, logFile, storeDirectory }: ServerPlaces): string {
  return `listen: "127.0.0.1:${ports.client}"
          ports_file_dir: ${quote(portsDirectory)}
          log_file: ${quote(logFile)}
          jetstream { store_dir: ${quote(storeDirectory)} }`;
}

/** Whom the folder's record names. */
function recorded(directory: string): ProcessIdentity {
  const record: { server: unknown } = JSON.parse(
    readFileSync(join(directory, "server.json"), "utf8"),
  );
  return processIdentity.parse(record.server);
}

describe("a nats-server child", () => {
  it("serves when it is said to be ready, under the id it tells its clients", async () => {
    await using server = await startServer(plainConfig);
    const connection = await server.connect({});
    expect(connection.info?.server_id).to.equal(server.child.serverId);
    expect(connection.info?.version).to.equal(server.child.version);
  });

  it("leads a session of its own, so that a Ctrl-C for us does not reach it", async () => {
    await using server = await startServer(plainConfig);
    const row = readProcessRow(server.child.pid);
    expect(row?.session).to.equal(server.child.pid);
    expect(row?.group).to.equal(server.child.pid);
  });

  it("inherits the lock of its store and nothing else that we hold open", async () => {
    await using server = await startServer(plainConfig);
    const store = statSync(join(server.directory, "store"));
    const descriptors = (await readdir(`/proc/${server.child.pid}/fd`)).map(Number);
    const held = descriptors.filter((fd) => {
      const there = statSync(`/proc/${server.child.pid}/fd/${fd}`, { throwIfNoEntry: false });
      return there?.ino === store.ino && there.dev === store.dev;
    });
    expect(held).to.deep.equal([3]);
    expect(readlinkSync(`/proc/${server.child.pid}/fd/0`)).to.equal("/dev/null");
  });

  it("gets nothing of our environment that could be a secret", async () => {
    process.env["LEMON_TEST_SECRET"] = "very-secret";
    try {
      await using server = await startServer(plainConfig);
      const environment = readFileSync(`/proc/${server.child.pid}/environ`, "utf8");
      expect(environment).not.to.include("very-secret");
    } finally {
      delete process.env["LEMON_TEST_SECRET"];
    }
  });

  it("leaves no file that another account could read", async () => {
    await using server = await startServer(plainConfig);
    for (const folder of ["", "store", "ports"]) {
      expect((await stat(join(server.directory, folder))).mode & 0o777).to.equal(0o700);
    }
    for (const file of ["nats.conf", "ports.json", "server.json", "nats.stderr"]) {
      expect((await stat(join(server.directory, file))).mode & 0o777, file).to.equal(0o600);
    }
  });

  it("stands recorded with pid and start time", async () => {
    await using server = await startServer(plainConfig);
    const identity = recorded(server.directory);
    expect(identity.pid).to.equal(server.child.pid);
    expect(isAlive(identity)).to.equal(true);
    await server.kill();
    expect(isAlive(identity)).to.equal(false);
  });

  it("keeps its ports over restarts, so that clients find it again", async () => {
    await using server = await startServer(plainConfig);
    const { ports, serverId } = server.child;
    const connection = await server.connect({});
    const reconnected = (async () => {
      for await (const status of connection.status()) if (status.type === "reconnect") return;
    })();
    await server.kill();
    await server.restart();
    await reconnected;
    expect(server.child.ports).to.deep.equal(ports);
    expect(server.child.serverId).not.to.equal(serverId);
    expect(connection.info?.server_id).to.equal(server.child.serverId);
  });

  it("takes another port for one that somebody else took meanwhile, and keeps the others", async () => {
    await using server = await startServer(plainConfig);
    const { ports } = server.child;
    await server.stop();
    const thief = createServer();
    await new Promise<void>((resolve) => thief.listen(ports.client, "127.0.0.1", resolve));
    try {
      await server.restart();
      expect(server.child.ports.client).not.to.equal(ports.client);
      expect(server.child.ports.leaf).to.equal(ports.leaf);
      expect(server.child.ports.websocket).to.equal(ports.websocket);
      await server.connect({});
    } finally {
      thief.close();
    }
  });

  it("chooses ports anew when the remembered ones cannot be read", async () => {
    await using server = await startServer(plainConfig);
    await server.stop();
    for (const damage of ["", "{", "null", '{"client":0,"leaf":1,"websocket":70000}']) {
      writeFileSync(join(server.directory, "ports.json"), damage);
      await server.restart();
      await server.connect({ reconnect: false });
      await server.stop();
    }
  });

  it("ends in order with code 0 and is said to have ended as asked", async () => {
    await using server = await startServer(plainConfig);
    await Promise.all([server.stop(), server.stop()]);
    expect(await server.child.exited).to.deep.equal({ ordered: true, code: 0, signal: null });
  });

  it("is said to have ended unasked when it was killed", async () => {
    await using server = await startServer(plainConfig);
    await server.kill();
    const exit = await server.child.exited;
    expect(exit).to.deep.equal({ ordered: false, code: null, signal: "SIGKILL" });
  });

  it("is killed when it does not end within 5 s of being asked", async () => {
    using folder = tempFolder();
    const clock = new FakeClock();
    const spec = { binary: await natsServerBinary(), directory: folder.path, config: plainConfig };
    const server = await startNatsServer(spec, { clock, log });
    process.kill(server.pid, "SIGSTOP");
    const stopped = server.stop();
    await clock.advance(4_999);
    expect(isAlive(recorded(folder.path))).to.equal(true);
    await clock.advance(1);
    await stopped;
    expect((await server.exited).signal).to.equal("SIGKILL");
  });

  it("reads its configuration anew", async () => {
    let users = "{ user: a, password: a }";
    await using server = await startServer(
      (places) => `${plainConfig(places)}\nauthorization { users: [ ${users} ] }`,
    );
    const first = await server.connect({ user: "a", pass: "a", reconnect: false });
    const closed = first.closed();
    users = "{ user: b, password: b }";
    await server.child.reload();
    // The server closes whom the new configuration no longer knows: proof that it was read.
    await closed;
    await server.connect({ user: "b", pass: "b", reconnect: false });
  });

  it("fails to start with a bad configuration, and leaves neither process nor lock behind", async () => {
    using folder = tempFolder();
    const binary = await natsServerBinary();
    const broken = { binary, directory: folder.path, config: () => "listen: {" };
    const refusal = await refusalOf(() => startNatsServer(broken, { clock: systemClock, log }));
    expect(refusal.code).to.equal("nats_server_failed");
    expect(readFileSync(join(folder.path, "nats.stderr"), "utf8")).not.to.equal("");
    expect(isAlive(recorded(folder.path))).to.equal(false);
    const server = await startNatsServer(
      { binary, directory: folder.path, config: plainConfig },
      { clock: systemClock, log },
    );
    await server.stop();
  });

  it("refuses an executable that turns out older than it said when it was found, and ends it", async () => {
    using folder = tempFolder();
    const path = join(folder.path, "replaced");
    const directory = join(folder.path, "nats");
    // Serves as nats-server does, as far as a start looks, and tells the version that its file names.
    writeFileSync(
      join(folder.path, "serve.mjs"),
      `import { readFileSync, writeFileSync } from "node:fs";
       import { createServer } from "node:net";
       const [version, , config] = process.argv.slice(2);
       const info = JSON.stringify({ server_id: "N", version });
       createServer((socket) => socket.on("error", () => {}).end("INFO " + info + "\\r\\n")).listen(
         JSON.parse(readFileSync(config, "utf8")).client,
         "127.0.0.1",
         () => writeFileSync("ports/fake_" + process.pid + ".ports", "{}"),
       );`,
    );
    const start = async (version: string): Promise<string> => {
      const serve = `exec "${process.execPath}" ../serve.mjs ${version} "$@"`;
      writeFileSync(path, `#!/bin/sh\n${serve}\n`, { mode: 0o755 });
      const binary = { path, version: "2.15.1" };
      const spec = {
        binary,
        directory,
        config: ({ ports }: ServerPlaces) => JSON.stringify(ports),
      };
      const server = await startNatsServer(spec, { clock: systemClock, log });
      await server.stop();
      return server.version;
    };
    expect((await refusalOf(() => start("2.12.6"))).code).to.equal("nats_server_too_old");
    expect(isAlive(recorded(directory))).to.equal(false);
    expect(await start("2.12.7")).to.equal("2.12.7");
  });

  it("gives up a start that takes longer than 60 s, and at once when told to", async () => {
    using folder = tempFolder();
    const path = join(folder.path, "never-listens");
    writeFileSync(path, "#!/bin/sh\nexec sleep 600\n", { mode: 0o755 });
    const clock = new FakeClock();
    for (const giveUp of ["deadline", "signal"]) {
      const controller = new AbortController();
      const binary = { path, version: "2.15.1" };
      const spec = { binary, directory: folder.path, config: () => "" };
      const started = refusalOf(() =>
        startNatsServer(spec, { clock, log, signal: controller.signal }),
      );
      while (clock.pending === 0) await clock.advance(0);
      if (giveUp === "deadline") await clock.advance(60_000);
      else controller.abort();
      expect((await started).code).to.equal("nats_server_failed");
      expect(isAlive(recorded(folder.path))).to.equal(false);
    }
  });

  it("is not let go before it stands recorded", async () => {
    using folder = tempFolder();
    // Nothing can replace a folder that is not empty: the record cannot be written.
    mkdirSync(join(folder.path, "server.json", "in-the-way"), { recursive: true });
    const spec = { binary: await natsServerBinary(), directory: folder.path, config: plainConfig };
    const refusal = await refusalOf(() => startNatsServer(spec, { clock: systemClock, log }));
    expect(refusal.code).to.equal("unavailable");
    expect(existsSync(join(folder.path, "nats.log"))).to.equal(false);
  });
});
