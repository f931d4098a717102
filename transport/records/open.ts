/** Owns the opening of a store of records that forgets: its folder claimed, its stream found, its parts put together. */
import { join } from "node:path";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import { systemFailure } from "../../host/system-error.ts";
import { claimFolder } from "../receipts/claim.ts";
import { inOurWords } from "./failure.ts";
import { openHome } from "./founding.ts";
import type { RecordSink, RecordStore } from "./record-store.ts";
import { Records } from "./records.ts";

export interface RecordStoreOptions {
  /** `[a-z0-9-]`; the streams are `KV_<bucket>-a` and `-b`. */
  readonly bucket: string;
  /** The store account's connection. It must reconnect for ever; it stays the caller's to close. */
  readonly connection: NatsConnection;
  /** The system account's, for the proof of durability. Without one nothing is ever written. */
  readonly sys: NatsConnection | null;
  /** The store's own files lie below it in a folder named like the bucket. */
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly sink: RecordSink;
  /** Has the server with this id replaced, which a full disk makes necessary. */
  readonly restartServer?: (serverId: string) => Promise<unknown>;
  readonly replicas?: number;
  /** Entries of the witness before a new one is begun. Default 16,384: 1 MiB. */
  readonly witnessedAtMost?: number;
  readonly timeouts?: Partial<RecordStoreTimeouts>;
}

export interface RecordStoreTimeouts {
  readonly putMs: number;
  readonly readMs: number;
  /** How long an operation waits for a server that is away, or on its way back. */
  readonly returnMs: number;
}

const WITNESSED_AT_MOST = 16_384;
const TIMEOUTS: RecordStoreTimeouts = { putMs: 3_000, readMs: 3_000, returnMs: 2_000 };

/** Opens the store, or makes it; it is to be verified then. Errors: those of `RecordStore`, `store_in_use`, `no_space`, `permission_denied`. */
export function openRecordStore(options: RecordStoreOptions): Promise<RecordStore> {
  return inOurWords(async () => {
    const {
      connection,
      sys,
      bucket,
      clock,
      log,
      sink,
      restartServer = null,
      replicas = 1,
    } = options;
    const timeouts = { ...TIMEOUTS, ...options.timeouts };
    const folder = join(options.directory, bucket);
    const lock = await claimFolder(folder);
    try {
      const place = { connection, folder, bucket, replicas, timeouts, clock };
      const home = await openHome(place);
      const { returnMs } = timeouts;
      const { witnessedAtMost = WITNESSED_AT_MOST } = options;
      const parts = { sys, sink, log, restartServer, witnessedAtMost, returnMs };
      return new Records({ place, home, lock, ...parts });
    } catch (failure) {
      lock.release();
      throw systemFailure(failure);
    }
  });
}
