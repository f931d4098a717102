/**
 * Owns one life of a nats-server that is our child: from the claim of its folder to its end.
 *
 * 1. It runs in a session of its own: a Ctrl-C for us does not reach it.
 * 2. No server runs unrecorded: it is let go only after its pid and start time stand in
 *    `server.json`, and it ends by itself when we die before that.
 * 3. It holds the flock of its store folder as long as it lives.
 * 4. Ready is an event: its listeners stand, and it has told its id and a version that does, whatever
 *    the executable said of itself when it was found. Nothing here sleeps.
 *
 * The folder holds `nats.conf`, `ports.json`, `server.json`, `nats.log`, `nats.stderr`, `ports/` and
 * `store/`, all private to this account, unless the server runs as another one (`lesser-account.ts`).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type FileHandle, open } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import type { FileLock } from "../../host/file-lock.ts";
import { identify } from "../../host/process-identity.ts";
import { ensurePrivateDirectory, writeSecureFile } from "../../host/secure-file.ts";
import { systemFailure } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { ServerPlaces, ServerPorts } from "./config.ts";
import { lendConfig, placesFor, prepareFolders, type ServerAccount } from "./lesser-account.ts";
import { anyTaken, choosePorts, comeFree } from "./ports.ts";
import { readServerInfo, type ServerInfo, watchPortsFile } from "./ready.ts";
import { claimStore, recordServer } from "./store-claim.ts";
import { isNewEnough, OLDEST_NATS_SERVER } from "./version.ts";

/** What the rest of the program needs of a server, our own child or not. */
export interface NatsServer {
  /** `nats://host:port` for clients. */
  readonly clientUrl: string;
  /** Unique to one life of the server: a new one calls for new proofs. */
  readonly serverId: string;
  readonly version: string;
}

export interface NatsServerExit {
  /** True when it ended because of `stop`. */
  readonly ordered: boolean;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface NatsServerChild extends NatsServer {
  readonly pid: number;
  /** On 127.0.0.1; whether leafs or websockets are served depends on the configuration. */
  readonly ports: ServerPorts;
  /** Resolves when it has ended, for whatever reason. Never rejects. */
  readonly exited: Promise<NatsServerExit>;
  /** Writes the configuration anew and has it read (SIGHUP). Whether it took is seen at the server alone. */
  reload(): Promise<void>;
  /** SIGKILL, for one that can not be asked any more. Its end is told as unasked. */
  kill(): void;
  /** SIGTERM, then SIGKILL. Resolves when it has ended. Idempotent. */
  stop(): Promise<void>;
}

/** An executable that was asked for its version. */
export interface NatsServerBinary {
  readonly path: string;
  /** As the server prints it, without the `v`. */
  readonly version: string;
}

export interface NatsServerSpec {
  readonly binary: NatsServerBinary;
  /** Absolute, one server's own; made when missing. */
  readonly directory: string;
  /** The text of the configuration as it is now; asked at each start and reload. */
  readonly config: (places: ServerPlaces) => string;
  /** The ports that it has to have, because others hold on to them; else those it had, or new ones. */
  readonly ports?: ServerPorts;
  /** Whom it runs as, when we are root; else it runs as we do. */
  readonly account?: ServerAccount;
}

export interface NatsServerHost {
  readonly clock: Clock;
  readonly log: Logger;
  /** Aborted: a start that is not ready yet gives up. */
  readonly signal?: AbortSignal;
}

/** Before it listens the server reads and checks every block of a store that was not closed in order. */
const READY_MS = 60_000;
/** In order, the server writes its indexes; later, SIGKILL costs a check at the next start, no message. */
const STOP_MS = 5_000;

/**
 * Waits for a line, then becomes the server: exec keeps pid and start time, so both are recorded
 * before it runs. At end of file, which is our death, it ends.
 */
const GATE = 'read -r go && exec "$0" "$@" </dev/null';

/** What nats-server gets of our environment: nothing that could be a secret. */
const PASSED_ON = ["SSL_CERT_FILE", "SSL_CERT_DIR", "TZ", "GOMEMLIMIT", "GOMAXPROCS"];

/**
 * Starts a server on its folder and waits until it serves.
 * Errors: `store_in_use`, `nats_server_failed`, `nats_server_too_old`, `no_space`, `permission_denied`.
 */
export async function startNatsServer(
  spec: NatsServerSpec,
  host: NatsServerHost,
): Promise<NatsServerChild> {
  const places = { ...foldersOf(spec.directory), logFile: join(spec.directory, "nats.log") };
  if (spec.account === undefined) {
    for (const folder of [spec.directory, places.storeDirectory, places.portsDirectory]) {
      await ensurePrivateDirectory(folder);
    }
  } else await prepareFolders(spec, spec.account);
  const record = join(spec.directory, "server.json");
  const lock = await claimStore(places.storeDirectory, record, host.log);
  try {
    const choose = () => choosePorts(join(spec.directory, "ports.json"));
    const ports = spec.ports ?? (await choose());
    try {
      return await launch(spec, host, lock, { ...places, ports });
    } catch (failure) {
      // Between the choice and the server's listen, or since its last life, somebody else may have taken one.
      if (!(await anyTaken(ports))) throw failure;
      if (spec.ports === undefined) {
        return await launch(spec, host, lock, { ...places, ports: await choose() });
      }
      host.log.warn("another program has a port of nats-server; waiting for it");
      if (!(await comeFree(ports, host))) throw failure;
      return await launch(spec, host, lock, { ...places, ports });
    }
  } catch (failure) {
    lock.release();
    throw systemFailure(failure);
  }
}

function foldersOf(directory: string): Pick<ServerPlaces, "storeDirectory" | "portsDirectory"> {
  return { storeDirectory: join(directory, "store"), portsDirectory: join(directory, "ports") };
}

async function launch(
  spec: NatsServerSpec,
  host: NatsServerHost,
  lock: FileLock,
  places: ServerPlaces,
): Promise<NatsServerChild> {
  const startedAtMs = host.clock.monotonicMs();
  const configFile = join(spec.directory, "nats.conf");
  const { account } = spec;
  const seen = account === undefined ? places : placesFor(places);
  const writeConfig = async (): Promise<void> => {
    await writeSecureFile(configFile, spec.config(seen));
    if (account !== undefined) await lendConfig(configFile, account);
  };
  await writeConfig();
  const gate = await spawnGate(spec, configFile, lock);
  try {
    await recordServer(join(spec.directory, "server.json"), gate.identity);
    const info = await becomeReady(gate, places, host);
    refuseOld(info.version);
    host.log.info(
      { serverPid: gate.identity.pid, version: info.version, ms: elapsed(host.clock, startedAtMs) },
      "nats-server is ready",
    );
    return new Child(gate, info, lock, places.ports, host, writeConfig);
  } catch (failure) {
    gate.process.kill("SIGKILL");
    await gate.ended;
    throw failure;
  }
}

function refuseOld(found: string): void {
  if (isNewEnough(found)) return;
  throw new LemonError("nats_server_too_old", { details: { found, needed: OLDEST_NATS_SERVER } });
}

interface Gate {
  readonly process: ChildProcess;
  /** Resolves when it has ended, before or after it became the server. */
  readonly ended: Promise<void>;
  readonly identity: { readonly pid: number; readonly startTime: string };
  /** Lets it become the server. */
  open(): void;
}

async function spawnGate(spec: NatsServerSpec, configFile: string, lock: FileLock): Promise<Gate> {
  const env = Object.fromEntries(
    PASSED_ON.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  // The server logs into a file of its own (bounded); this one is for a refused configuration or a panic.
  const stderr: FileHandle = await open(join(spec.directory, "nats.stderr"), "w", 0o600);
  try {
    // From within its folder, so that whatever it runs as need not come there by its path.
    const child = spawn("/bin/sh", ["-c", GATE, spec.binary.path, "-c", basename(configFile)], {
      ...spec.account,
      cwd: spec.directory,
      env,
      detached: true,
      stdio: ["pipe", "ignore", stderr.fd, lock.fd],
    });
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    await once(child, "spawn");
    const identity = child.pid === undefined ? null : identify(child.pid);
    const { stdin } = child;
    if (identity === null || stdin === null) {
      child.kill("SIGKILL");
      throw new LemonError("nats_server_failed");
    }
    // It may have died meanwhile: then its end is what is told, not a broken pipe.
    stdin.on("error", () => {});
    return { process: child, ended, identity, open: () => stdin.end("go\n") };
  } finally {
    await stderr.close();
  }
}

/** Lets the gate become the server and waits for its listeners and its id. */
async function becomeReady(
  gate: Gate,
  places: ServerPlaces,
  { clock, signal }: NatsServerHost,
): Promise<ServerInfo> {
  const ports = await watchPortsFile(places.portsDirectory, gate.identity.pid, clock);
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const fail = (): void => reject(new LemonError("nats_server_failed"));
  // The races may be over before it fails.
  failed.catch(() => {});
  const cancelDeadline = clock.after(READY_MS, fail);
  signal?.addEventListener("abort", fail);
  if (signal?.aborted) fail();
  void gate.ended.then(fail);
  try {
    gate.open();
    await Promise.race([ports.ready, failed]);
    return await Promise.race([readServerInfo(places.ports.client, clock), failed]);
  } finally {
    cancelDeadline();
    signal?.removeEventListener("abort", fail);
    ports.close();
  }
}

class Child implements NatsServerChild {
  readonly clientUrl: string;
  readonly serverId: string;
  readonly version: string;
  readonly pid: number;
  readonly ports: ServerPorts;
  readonly exited: Promise<NatsServerExit>;
  readonly #process: ChildProcess;
  readonly #clock: Clock;
  readonly #writeConfig: () => Promise<void>;
  #ordered = false;
  #killed = false;

  constructor(
    gate: Gate,
    info: ServerInfo,
    lock: FileLock,
    ports: ServerPorts,
    host: NatsServerHost,
    writeConfig: () => Promise<void>,
  ) {
    this.clientUrl = `nats://127.0.0.1:${ports.client}`;
    this.serverId = info.serverId;
    this.version = info.version;
    this.pid = gate.identity.pid;
    this.ports = ports;
    this.#process = gate.process;
    this.#clock = host.clock;
    this.#writeConfig = writeConfig;
    this.exited = new Promise((resolve) => {
      const settle = (code: number | null, signal: NodeJS.Signals | null): void => {
        lock.release();
        const exit: NatsServerExit = { ordered: this.#ordered, code, signal };
        host.log[exit.ordered ? "info" : "error"](
          { serverPid: this.pid, ...exit },
          "nats-server ended",
        );
        resolve(exit);
      };
      const { exitCode, signalCode } = this.#process;
      if (exitCode !== null || signalCode !== null) settle(exitCode, signalCode);
      else this.#process.once("exit", settle);
    });
  }

  async reload(): Promise<void> {
    await this.#writeConfig();
    this.#process.kill("SIGHUP");
  }

  // Until its exit is seen here the pid is our unreaped child's: its identity needs no other proof.

  kill(): void {
    this.#killed = true;
    this.#process.kill("SIGKILL");
  }

  async stop(): Promise<void> {
    this.#ordered = !this.#killed;
    this.#process.kill("SIGTERM");
    const cancelKill = this.#clock.after(STOP_MS, () => this.#process.kill("SIGKILL"));
    await this.exited;
    cancelKill();
  }
}

function elapsed(clock: Clock, sinceMs: number): number {
  return Math.round(clock.monotonicMs() - sinceMs);
}
