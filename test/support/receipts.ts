/** Owns a kind of work for the receipt store's tests, and a store of it on a real server. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import pino from "pino";
import { z } from "zod";
import { systemClock } from "../../host/clock.ts";
import { openReceiptStore, type ReceiptStoreOptions } from "../../transport/receipts/open.ts";
import type { OpenReceiptStore, ReceiptKind } from "../../transport/receipts/receipt.ts";
import { startNodeServer, type TestNodeServer } from "./nats.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

const workState = z.strictObject({
  phase: z.enum(["queued", "running", "done", "unknown", "lost"]),
  step: z.int().min(0),
});
export type WorkState = z.infer<typeof workState>;

const RANKS: Readonly<Record<WorkState["phase"], number>> = {
  queued: 0,
  running: 1_000,
  done: 2_000,
  unknown: 2_000,
  lost: 2_000,
};

export const running: WorkState = { phase: "running", step: 0 };
export const done: WorkState = { phase: "done", step: 0 };

export function work(bucket = "work"): ReceiptKind<WorkState> {
  return {
    bucket,
    parse: (stored) => workState.parse(stored),
    rank: ({ phase, step }) => RANKS[phase] + step,
    interrupted: ({ phase, step }) =>
      phase === "queued" || phase === "running" ? { phase: "unknown", step } : null,
    lost: { phase: "lost", step: 0 },
  };
}

export type WorkStore = OpenReceiptStore<WorkState>;
export type WorkStoreOptions = Partial<ReceiptStoreOptions<WorkState>>;

/** A disk that others keep busy may hold up a sync for seconds: no test is to mistake that for a failure. */
const PATIENCE = { putMs: 15_000, readMs: 15_000, readBackMs: 15_000 };

/** A node's server, its two connections, and the folder of the store's own files. */
export interface Bench extends AsyncDisposable {
  readonly server: TestNodeServer;
  readonly connection: NatsConnection;
  readonly sys: NatsConnection;
  readonly directory: string;
  /** The folder of the kind `work`. */
  readonly files: string;
  /** Opens the store; what is still open is closed with the bench. Generation 1 unless it says so. */
  open(options?: WorkStoreOptions): Promise<WorkStore>;
  /** Closes every store and leaves neither stream nor file, for the next test. */
  clear(): Promise<void>;
}

/** Opens a store on connections that may still be on their way back to the server. */
export async function reopened(ground: Bench, generation: number): Promise<WorkStore> {
  const { connection, sys, server } = ground;
  for (const one of [connection, sys]) {
    if (one.info?.server_id === server.child.serverId) continue;
    for await (const status of one.status()) if (status.type === "reconnect") break;
  }
  return ground.open({ generation });
}

export async function bench(server?: TestNodeServer, directory?: string): Promise<Bench> {
  const folder: TempFolder = tempFolder();
  const ours = server ?? (await startNodeServer());
  const connection = await ours.connectStore();
  const sys = await ours.connectSys();
  const stores = new Set<WorkStore>();
  const below = directory ?? folder.path;
  async function closeAll(): Promise<void> {
    await Promise.all([...stores].map((store) => store.close()));
    stores.clear();
  }

  return {
    server: ours,
    connection,
    sys,
    directory: below,
    files: join(below, "work"),
    async open(options = {}) {
      const store = await openReceiptStore<WorkState>({
        kind: work(),
        connection,
        sys,
        directory: below,
        generation: 1,
        clock: systemClock,
        log: pino({ enabled: false }),
        ...options,
        timeouts: { ...PATIENCE, ...options.timeouts },
      });
      stores.add(store);
      return store;
    },
    async clear() {
      await closeAll();
      const manager = await jetstreamManager(connection);
      for await (const stream of manager.streams.list()) {
        await manager.streams.delete(stream.config.name);
      }
      for (const name of readdirSync(below)) rmSync(join(below, name), { recursive: true });
    },
    async [Symbol.asyncDispose]() {
      await closeAll();
      await ours[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}
