/**
 * Owns a real server with a store of records on it, and the search of everything that lies on its disk: for the
 * tests of what is kept, and of what is not.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createUser, type KeyPair } from "@nats-io/nkeys";
import type { NatsConnection } from "@nats-io/transport-node";
import pino from "pino";
import { systemClock } from "../../host/clock.ts";
import { openRecordStore, type RecordStoreOptions } from "../../transport/records/open.ts";
import type { RecordStore } from "../../transport/records/record-store.ts";
import { startNodeServer, type TestNodeServer } from "./nats.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

/** Memory where there is a file system of it: what a kill leaves is the same, and syncs cost nothing. */
const FAST_DISK = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
/** A disk that others keep busy may hold up a sync for seconds: no test is to mistake that for a failure. */
const PATIENCE = { putMs: 15_000, readMs: 15_000, returnMs: 15_000 };

export interface RecordBench extends AsyncDisposable {
  readonly server: TestNodeServer;
  readonly connection: NatsConnection;
  readonly sys: NatsConnection;
  /** Holds the server's files and the store's own. */
  readonly directory: string;
  readonly users: { readonly store: KeyPair; readonly sys: KeyPair };
  /** What the last verification told, by key. */
  readonly told: ReadonlyMap<string, Buffer>;
  /** Opens the store and verifies it. */
  open(options?: Partial<RecordStoreOptions>): Promise<RecordStore>;
  /** kill -9 of the server and a new one, to which both connections are back. */
  crashServer(): Promise<void>;
  /** Resolves when both connections are with the server that runs now. */
  back(): Promise<void>;
  /** Resolves when the store's connection has noticed that its server is gone. */
  down(): Promise<void>;
  /** How many files on the disk hold these bytes. */
  filesWith(bytes: Uint8Array): number;
}

/** `folder`: where all of it lies; gone with it. */
export async function recordBench(
  folder: TempFolder = tempFolder(FAST_DISK),
): Promise<RecordBench> {
  const users = { store: createUser(), sys: createUser() };
  const server = await startNodeServer({
    directory: join(folder.path, "nats"),
    storeUser: users.store,
    sysUser: users.sys,
  });
  const connection = await server.connectStore();
  const sys = await server.connectSys();
  const told = new Map<string, Buffer>();
  const up = connectionState(connection);
  const back = async (): Promise<void> => {
    for (const one of [connection, sys]) await backAt(one, server);
  };
  const stores = new Set<RecordStore>();
  return {
    server,
    connection,
    sys,
    directory: folder.path,
    users,
    told,
    async open(options = {}) {
      const store = await openRecordStore({
        bucket: "test",
        connection,
        sys,
        directory: folder.path,
        clock: systemClock,
        log: pino({ enabled: false }),
        sink: {
          begin: () => told.clear(),
          record: (key, bytes) => void told.set(key, Buffer.from(bytes)),
        },
        ...options,
        timeouts: { ...PATIENCE, ...options.timeouts },
      });
      try {
        await store.verify();
      } catch (failure) {
        await store.close();
        throw failure;
      }
      stores.add(store);
      return store;
    },
    async crashServer() {
      await server.kill();
      await server.restart();
      await back();
    },
    back,
    down: () => up.down,
    filesWith: (bytes) =>
      filesBelow(folder.path).filter((one) => one.includes(Buffer.from(bytes))).length,
    async [Symbol.asyncDispose]() {
      await Promise.all([...stores].map((store) => store.close()));
      await server[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

/** Its first cut. */
function connectionState(connection: NatsConnection): { readonly down: Promise<void> } {
  async function cut(): Promise<void> {
    for await (const { type } of connection.status()) if (type === "disconnect") return;
  }
  return { down: cut() };
}

async function backAt(connection: NatsConnection, server: TestNodeServer): Promise<void> {
  if (connection.info?.server_id === server.child.serverId) return;
  for await (const { type } of connection.status()) if (type === "reconnect") return;
}

function filesBelow(path: string): Buffer[] {
  return readdirSync(path, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name)));
}
