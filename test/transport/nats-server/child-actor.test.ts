import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { connect } from "@nats-io/transport-node";
import { expect } from "chai";
import pino from "pino";
import { systemClock } from "../../../host/clock.ts";
import type { ActorRef, ActorSystem, Death } from "../../../supervision/actor.ts";
import { createActorSystem } from "../../../supervision/system.ts";
import {
  type NatsServerMessages,
  natsServerActor,
  type OwnServer,
} from "../../../transport/nats-server/child-actor.ts";
import { quote, type ServerPorts } from "../../../transport/nats-server/config.ts";
import { BEAT_MS } from "../../../transport/nats-server/heartbeat.ts";
import { readServerInfo } from "../../../transport/nats-server/ready.ts";
import type { NatsServer, NatsServerSpec } from "../../../transport/nats-server/server.ts";
import { natsServerBinary } from "../../support/nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const ASK = { deadlineMs: 15_000 };

describe("the nats-server actor", () => {
  let folder: TempFolder;
  let system: ActorSystem;
  let spec: NatsServerSpec;
  let broken: boolean;
  let users: string;
  /** Called with the ports at each start, before the server listens. */
  let beforeStart: (ports: ServerPorts) => void;
  /** Called whenever something waits. */
  let onWait: (delayMs: number) => void;
  /** How long a beat is. */
  let beatMs: number;

  beforeEach(async () => {
    folder = tempFolder();
    broken = false;
    beforeStart = () => undefined;
    onWait = () => undefined;
    beatMs = BEAT_MS;
    users = "{ user: a, password: a }";
    spec = {
      binary: await natsServerBinary(),
      directory: join(folder.path, "nats"),
      config({ ports, portsDirectory, logFile, storeDirectory }) {
        beforeStart(ports);
        return broken
          ? "listen: {"
          : `listen: "127.0.0.1:${ports.client}"
             ports_file_dir: ${quote(portsDirectory)}
             log_file: ${quote(logFile)}
             jetstream { store_dir: ${quote(storeDirectory)} }
             authorization { users: [ ${users} ] }`;
      },
    };
    system = createActorSystem({
      name: "test",
      log: pino({ enabled: false }),
      clock: {
        ...systemClock,
        after(delayMs, fire) {
          onWait(delayMs);
          return systemClock.after(delayMs === BEAT_MS ? beatMs : delayMs, fire);
        },
      },
      random: Math.random,
    });
  });
  afterEach(async () => {
    await system.shutdown();
    folder[Symbol.dispose]();
  });

  async function start(): Promise<ActorRef<NatsServerMessages>> {
    const supervisor = await system.root.startSupervisor({
      id: "servers",
      strategy: "one_for_one",
      restart: "permanent",
      intensity: { restarts: 5, windowMs: 60_000 },
      backoff: { firstMs: 1, maxMs: 10, resetAfterMs: 60_000 },
    });
    return supervisor.startActor(natsServerActor(spec));
  }

  /** The id that the server at the address tells, or null when none answers. */
  async function idAt({ clientUrl }: NatsServer): Promise<string | null> {
    return readServerInfo(Number(new URL(clientUrl).port), systemClock).then(
      ({ serverId }) => serverId,
      () => null,
    );
  }

  function startedAtMs(): number {
    return system.snapshot().children[0]?.children[0]?.startedAtMs ?? -1;
  }

  function restarts(): number {
    return system.snapshot().children[0]?.children[0]?.restartsInWindow ?? -1;
  }

  /** Signals the server, whose pid nobody but its record tells. */
  function kill(signal: "SIGKILL" | "SIGSTOP" = "SIGKILL"): void {
    const record: { server: { pid: number } } = JSON.parse(
      readFileSync(join(spec.directory, "server.json"), "utf8"),
    );
    process.kill(record.server.pid, signal);
  }

  it("tells of the server that runs", async () => {
    const actor = await start();
    const current = await actor.ask("current", null, ASK);
    expect(await idAt(current)).to.equal(current.serverId);
  });

  it("dies with its server and is started again with a new one on the same port", async () => {
    const actor = await start();
    const before = await actor.ask("current", null, ASK);
    const death = new Promise<string>((resolve) => actor.watch(({ reason }) => resolve(reason)));
    kill();
    expect(await death).to.equal("crash");
    const after = await nextServer(actor);
    expect(after.clientUrl).to.equal(before.clientUrl);
    expect(after.serverId).not.to.equal(before.serverId);
    expect(restarts()).to.equal(1);
  });

  it("kills a server that hangs, says so, and is started again with a new one", async () => {
    beatMs = 300;
    const actor = await start();
    const before = await actor.ask("current", null, ASK);
    const death = new Promise<Death>((resolve) => actor.watch(resolve));
    kill("SIGSTOP");
    expect(await death).to.include({ reason: "crash", code: "nats_server_silent" });
    const after = await nextServer(actor);
    expect(after.clientUrl).to.equal(before.clientUrl);
    expect(after.serverId).not.to.equal(before.serverId);
    expect(restarts()).to.equal(1);
    expect(system.snapshot().children[0]?.children[0]?.lastCrash).to.equal("nats_server_silent");
  });

  it("has the ports of its first life ever after, since others know no other: it waits for one that was taken", async () => {
    const actor = await start();
    const before = await actor.ask("current", null, ASK);
    const thief = createServer();
    beforeStart = ({ client }) => {
      beforeStart = () => undefined;
      thief.listen(client, "127.0.0.1");
      // The server finds its port taken and ends; what waits no longer than this looks at the port.
      onWait = (delayMs) => {
        if (thief.listening && delayMs <= 1_000) thief.close();
      };
    };
    const death = new Promise<void>((resolve) => actor.watch(() => resolve()));
    kill();
    await death;
    const { ports } = await nextServer(actor);
    if (thief.listening) thief.close();
    expect(ports).to.deep.equal(before.ports);
  });

  it("restarts its server when asked, without counting that as a crash", async () => {
    const actor = await start();
    const before = await actor.ask("current", null, ASK);
    const startedBeforeMs = startedAtMs();
    const after = await actor.ask("restart", { serverId: before.serverId }, ASK);
    expect(after.serverId).not.to.equal(before.serverId);
    expect(await idAt(after)).to.equal(after.serverId);
    expect(restarts()).to.equal(0);
    // What the tree shows is the server's age.
    expect(startedAtMs()).to.be.above(startedBeforeMs);
  });

  it("restarts once for several who saw the same server fail", async () => {
    const actor = await start();
    const { serverId } = await actor.ask("current", null, ASK);
    const answers = await Promise.all([1, 2, 3].map(() => actor.ask("restart", { serverId }, ASK)));
    expect(new Set(answers.map((answer) => answer.serverId)).size).to.equal(1);
    expect(answers[0]?.serverId).not.to.equal(serverId);
  });

  it("dies when the asked-for restart fails, and is started again when it can be", async () => {
    const actor = await start();
    const { serverId } = await actor.ask("current", null, ASK);
    broken = true;
    const death = new Promise<string | null>((resolve) => actor.watch(({ code }) => resolve(code)));
    const refusal = await refusalOf(() => actor.ask("restart", { serverId }, ASK));
    broken = false;
    expect(refusal.code).to.be.oneOf(["nats_server_failed", "actor_crashed"]);
    expect(await death).to.equal("nats_server_failed");
    expect((await nextServer(actor)).serverId).not.to.equal(serverId);
  });

  it("has a changed configuration read", async () => {
    const actor = await start();
    const server = await actor.ask("current", null, ASK);
    const first = await connect({
      servers: server.clientUrl,
      user: "a",
      pass: "a",
      reconnect: false,
    });
    users = "{ user: b, password: b }";
    await actor.ask("reload", null, ASK);
    await first.closed();
    const second = await connect({ servers: server.clientUrl, user: "b", pass: "b" });
    await second.close();
  });

  it("has ended its server when it has ended itself", async () => {
    const actor = await start();
    const server = await actor.ask("current", null, ASK);
    await system.shutdown();
    expect(await idAt(server)).to.equal(null);
  });

  /** The server of the actor's next life. Every refused ask is answered at once, and each waits for a turn. */
  async function nextServer(actor: ActorRef<NatsServerMessages>): Promise<OwnServer> {
    let ended = false;
    void system.ended.then(() => {
      ended = true;
    });
    for (;;) {
      if (ended) throw new Error("the system has ended");
      try {
        return await actor.ask("current", null, ASK);
      } catch {
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }
});
