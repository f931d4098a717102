import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pino from "pino";
import { systemClock } from "../../../host/clock.ts";
import { lockDirectory } from "../../../host/file-lock.ts";
import {
  identify,
  isAlive,
  ownIdentity,
  type ProcessIdentity,
  signalProcess,
  waitForEnd,
} from "../../../host/process-identity.ts";
import { quote } from "../../../transport/nats-server/config.ts";
import { type NatsServerChild, startNatsServer } from "../../../transport/nats-server/server.ts";
import { natsServerBinary } from "../../support/nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const OWNER = new URL("../../support/nats-owner.ts", import.meta.url).pathname;

/** Another process that owns a server on the folder. */
class Owner {
  readonly process: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  constructor(directory: string) {
    const child = spawn(process.execPath, [OWNER, directory], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.process = child;
    this.#answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  send(line: string): void {
    this.process.stdin?.write(`${line}\n`);
  }

  async answer(): Promise<string> {
    const { value } = await this.#answers.next();
    return value;
  }

  async start(): Promise<ProcessIdentity> {
    this.send("start");
    const identity = identify(JSON.parse(await this.answer()).pid);
    if (identity === null) throw new Error("the owner's server is not there");
    return identity;
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exited = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await exited;
  }
}

describe("a store folder", () => {
  let folder: TempFolder;
  let directory: string;
  let running: (() => Promise<unknown>)[];

  beforeEach(() => {
    folder = tempFolder();
    directory = join(folder.path, "nats");
    running = [];
  });
  afterEach(async () => {
    for (const stop of running) await stop();
    // Whatever a test left under the folder's record is ours.
    const record = join(directory, "server.json");
    if (existsSync(record)) {
      const { server } = JSON.parse(readFileSync(record, "utf8"));
      if (typeof server === "object" && server.pid !== process.pid) {
        signalProcess(server, "SIGKILL");
        await waitForEnd(server, 5_000);
      }
    }
    folder[Symbol.dispose]();
  });

  async function start(): Promise<NatsServerChild> {
    const server = await startNatsServer(
      {
        binary: await natsServerBinary(),
        directory,
        config: ({ ports, portsDirectory, logFile, storeDirectory }) =>
          `listen: "127.0.0.1:${ports.client}"
           ports_file_dir: ${quote(portsDirectory)}
           log_file: ${quote(logFile)}
           jetstream { store_dir: ${quote(storeDirectory)} }`,
      },
      { clock: systemClock, log: pino({ enabled: false }) },
    );
    running.push(() => server.stop());
    return server;
  }

  function owner(): Owner {
    const started = new Owner(directory);
    running.push(() => started.kill());
    return started;
  }

  /** Prepares a folder whose lock this process holds, as somebody unknown would. */
  function heldFolder(record: unknown): void {
    mkdirSync(join(directory, "store"), { recursive: true, mode: 0o700 });
    const lock = lockDirectory(join(directory, "store"));
    running.push(async () => lock?.release());
    if (record !== undefined) {
      writeFileSync(join(directory, "server.json"), JSON.stringify(record), { mode: 0o600 });
    }
  }

  function bystander(): ProcessIdentity {
    const child = spawn("sleep", ["600"], { stdio: "ignore" });
    running.push(async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    });
    const identity = child.pid === undefined ? null : identify(child.pid);
    if (identity === null) throw new Error("the bystander is not there");
    return identity;
  }

  const gone: ProcessIdentity = { ...ownIdentity(), startTime: "long ago" };

  it("is taken over from a server that outlived its killed owner", async () => {
    const before = owner();
    const leftover = await before.start();
    await before.kill();
    expect(isAlive(leftover)).to.equal(true);
    const server = await start();
    expect(isAlive(leftover)).to.equal(false);
    expect(server.pid).not.to.equal(leftover.pid);
  });

  it("is taken over from a leftover that is frozen", async () => {
    const before = owner();
    const leftover = await before.start();
    await before.kill();
    process.kill(leftover.pid, "SIGSTOP");
    await start();
    expect(isAlive(leftover)).to.equal(false);
  });

  it("is refused while its owner lives, and the server there goes on", async () => {
    const other = owner();
    const theirs = await other.start();
    const refusal = await refusalOf(start);
    expect(refusal.code).to.equal("store_in_use");
    expect(isAlive(theirs)).to.equal(true);
  });

  it("is free again when owner and server are both gone", async () => {
    const other = owner();
    const theirs = await other.start();
    await other.kill();
    signalProcess(theirs, "SIGKILL");
    await waitForEnd(theirs, 5_000);
    await start();
  });

  it("is refused when nobody knows who holds it", async () => {
    heldFolder(undefined);
    expect((await refusalOf(start)).code).to.equal("store_in_use");
  });

  it("is refused when the record of who holds it cannot be read", async () => {
    heldFolder({ server: "none" });
    expect((await refusalOf(start)).code).to.equal("store_in_use");
  });

  it("is refused, and nobody is signalled, when the recorded pid is another process now", async () => {
    const stranger = bystander();
    heldFolder({ server: { pid: stranger.pid, startTime: `${stranger.startTime}0` }, owner: gone });
    expect((await refusalOf(start)).code).to.equal("store_in_use");
    expect(isAlive(stranger)).to.equal(true);
  });

  it("waits for the server that this very process is still stopping", async () => {
    const first = await start();
    const stopping = first.stop();
    const second = await start();
    await stopping;
    expect(second.pid).not.to.equal(first.pid);
  });

  it("can be taken over whenever the owner is killed during a start", async () => {
    for (let round = 0; round < 5; round += 1) {
      const other = owner();
      // From before its first line of code to after the start: loading takes some 200 ms, a start 40.
      other.send("start");
      if (round % 3 === 0) await other.answer();
      else await sleep(150 + round * 35);
      await other.kill();
      expect(other.process.signalCode).to.equal("SIGKILL");
      const server = await start();
      await server.stop();
    }
  });
});
