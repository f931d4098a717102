/**
 * Owns real nats-servers for tests: each on a folder of its own, killed, frozen and restarted at
 * will, ready in tens of milliseconds. Nothing survives the test's process: no server, no folder.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createUser, type KeyPair } from "@nats-io/nkeys";
import {
  type ConnectionOptions,
  connect,
  type NatsConnection,
  nkeyAuthenticator,
} from "@nats-io/transport-node";
import pino from "pino";
import { systemClock } from "../../host/clock.ts";
import { identify, type ProcessIdentity, signalProcess } from "../../host/process-identity.ts";
import { findNatsServer } from "../../scripts/nats-server.mjs";
import {
  type HubConfig,
  hubConfig,
  type LinkConfig,
  nodeConfig,
  type ServerPlaces,
} from "../../transport/nats-server/config.ts";
import {
  type NatsServerBinary,
  type NatsServerChild,
  startNatsServer,
} from "../../transport/nats-server/server.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

export interface TestServer extends AsyncDisposable {
  /** The server that runs now, or ran last. */
  readonly child: NatsServerChild;
  readonly directory: string;
  /** Where JetStream's files lie, whether it runs or not. */
  readonly storeDirectory: string;
  /** Connects and reconnects for ever, every 20 ms; closed with the server. */
  connect(options: ConnectionOptions): Promise<NatsConnection>;
  /** kill -9; resolves when it is gone. */
  kill(): Promise<void>;
  /** Ends it in order. */
  stop(): Promise<void>;
  /** Starts it again on the same folder and ports; it must have ended. */
  restart(): Promise<void>;
  /** SIGSTOP: it holds its sockets and answers nothing; resolves when it has come to rest. */
  freeze(): Promise<void>;
  thaw(): void;
}

/** A node's server: accounts STORE and SYS, with a link when one is given. */
export interface TestNodeServer extends TestServer {
  connectStore(options?: ConnectionOptions): Promise<NatsConnection>;
  connectSys(options?: ConnectionOptions): Promise<NatsConnection>;
}

const folders = new Set<TempFolder>();
const servers = new Map<number, ProcessIdentity>();

function killAll(): void {
  for (const identity of servers.values()) signalProcess(identity, "SIGKILL");
  for (const folder of folders) folder[Symbol.dispose]();
}
process.once("exit", killAll);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => {
    killAll();
    // Without anybody else to say what the signal means, it means the end.
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  });
}

let binary: Promise<NatsServerBinary> | undefined;

async function foundBinary(): Promise<NatsServerBinary> {
  const found = await findNatsServer();
  if (!found.found) throw new Error(found.message);
  return found;
}

/** The nats-server that the tests run with (`LEMON_NATS_SERVER`, else PATH). */
export function natsServerBinary(): Promise<NatsServerBinary> {
  binary ??= foundBinary();
  return binary;
}

export interface TestServerOptions {
  /** Where its folder is made or found; a temporary one of its own by default. */
  readonly directory?: string;
}

/** Starts a server with any configuration. */
export async function startServer(
  config: (places: ServerPlaces) => string,
  options: TestServerOptions = {},
): Promise<TestServer> {
  const folder = options.directory === undefined ? tempFolder() : null;
  if (folder !== null) folders.add(folder);
  const directory = options.directory ?? join(folder?.path ?? "", "nats");
  const spec = { binary: await natsServerBinary(), directory, config };
  const host = { clock: systemClock, log: pino({ enabled: false }) };
  const connections = new Set<NatsConnection>();

  async function start(): Promise<NatsServerChild> {
    const started = await startNatsServer(spec, host);
    const identity = identify(started.pid);
    if (identity !== null) servers.set(started.pid, identity);
    void started.exited.then(() => servers.delete(started.pid));
    return started;
  }

  let child = await start();
  return {
    get child() {
      return child;
    },
    directory,
    storeDirectory: join(directory, "store", "jetstream"),
    async connect(connection) {
      const connected = await connect({
        servers: child.clientUrl,
        maxReconnectAttempts: -1,
        reconnectTimeWait: 20,
        reconnectJitter: 0,
        // A stack captured for each request costs more than the request.
        noAsyncTraces: true,
        ...connection,
      });
      connections.add(connected);
      return connected;
    },
    async kill() {
      process.kill(child.pid, "SIGKILL");
      await child.exited;
    },
    stop: () => child.stop(),
    async restart() {
      await child.exited;
      child = await start();
    },
    async freeze() {
      process.kill(child.pid, "SIGSTOP");
      while (!isStopped(child.pid)) await new Promise((resolve) => setImmediate(resolve));
    },
    thaw: () => void process.kill(child.pid, "SIGCONT"),
    async [Symbol.asyncDispose]() {
      await Promise.all([...connections].map((connection) => connection.close()));
      if (servers.has(child.pid)) {
        process.kill(child.pid, "SIGKILL");
        await child.exited;
      }
      if (folder === null) return;
      folder[Symbol.dispose]();
      folders.delete(folder);
    },
  };
}

/** Whether every thread of a process has stopped or is gone: the signal does not reach them at once (proc(5)). */
function isStopped(pid: number): boolean {
  if (process.platform !== "linux") return true;
  try {
    return readdirSync(`/proc/${pid}/task`).every((thread) =>
      /\) T /.test(readFileSync(`/proc/${pid}/task/${thread}/stat`, "latin1")),
    );
  } catch {
    return identify(pid) === null;
  }
}

/** Starts a controller's server; the resolver's folder is the caller's and already seeded. */
export function startHub(
  hub: Omit<HubConfig, "serverName"> & { readonly serverName?: string },
  options: TestServerOptions = {},
): Promise<TestServer> {
  return startServer((places) => hubConfig({ serverName: "hub", ...hub }, places), options);
}

export interface TestNodeOptions extends TestServerOptions {
  readonly serverName?: string;
  readonly domain?: string;
  readonly link?: LinkConfig;
  readonly maxStoreBytes?: number;
  /** Keys of the two users, to start again on an earlier folder. */
  readonly storeUser?: KeyPair;
  readonly sysUser?: KeyPair;
}

/** Starts a node's server: a local store, and a leaf when a link is given. */
export async function startNodeServer(options: TestNodeOptions = {}): Promise<TestNodeServer> {
  const {
    directory,
    link,
    maxStoreBytes,
    storeUser = createUser(),
    sysUser = createUser(),
  } = options;
  const server = await startServer(
    (places) =>
      nodeConfig(
        {
          serverName: options.serverName ?? "n-test",
          domain: options.domain ?? "test",
          storeUser: storeUser.getPublicKey(),
          sysUser: sysUser.getPublicKey(),
          ...(link === undefined ? {} : { link }),
          ...(maxStoreBytes === undefined ? {} : { maxStoreBytes }),
        },
        places,
      ),
    directory === undefined ? {} : { directory },
  );
  const as = (user: KeyPair, extra: ConnectionOptions = {}): Promise<NatsConnection> =>
    server.connect({ authenticator: nkeyAuthenticator(user.getSeed()), ...extra });
  return Object.assign(server, {
    connectStore: (extra?: ConnectionOptions) => as(storeUser, extra),
    connectSys: (extra?: ConnectionOptions) => as(sysUser, extra),
  });
}
