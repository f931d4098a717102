/**
 * Owns the question who may run a server on a store folder: one process at a time, over crashes.
 *
 * 1. A folder is ours while we hold its flock. The server inherits the descriptor, so that a server
 *    that outlived its owner still holds it.
 * 2. A held folder is taken over only from a recorded server whose identity (pid and start time) is
 *    proven and whose recorded owner is gone. Anything else is `store_in_use`, and nobody is signalled.
 */
import { setTimeout } from "node:timers/promises";
import type { Logger } from "pino";
import { z } from "zod";
import { type FileLock, lockDirectory } from "../../host/file-lock.ts";
import {
  isAlive,
  ownIdentity,
  type ProcessIdentity,
  processIdentity,
  signalProcess,
  waitForEnd,
} from "../../host/process-identity.ts";
import { readSecureFile, writeSecureFile } from "../../host/secure-file.ts";
import { LemonError } from "../../protocol/errors.ts";

/** How long a leftover server gets to end in order before SIGKILL, and to be gone after it. */
const LEFTOVER_STOP_MS = 3_000;
/** Longer than `stop` takes at worst. */
const OWN_STOP_MS = 10_000;
/** How often and how far apart we look for the lock of a process that has ended: 1 s in all. */
const RELEASE_LOOKS = 40;
const RELEASE_LOOK_MS = 25;

const serverRecord = z.strictObject({ server: processIdentity, owner: processIdentity });
type ServerRecord = z.infer<typeof serverRecord>;

/** Writes who runs on the folder, for a successor to prove. */
export async function recordServer(recordFile: string, server: ProcessIdentity): Promise<void> {
  const record: ServerRecord = { server, owner: ownIdentity() };
  await writeSecureFile(recordFile, `${JSON.stringify(record)}\n`);
}

/**
 * Takes the folder's lock, stopping a proven leftover first. Errors: `store_in_use`, those of
 * `lockDirectory`.
 */
export async function claimStore(
  storeDirectory: string,
  recordFile: string,
  log: Logger,
): Promise<FileLock> {
  const free = lockDirectory(storeDirectory);
  if (free !== null) return free;
  const record = await readRecord(recordFile);
  if (record === null) throw new LemonError("store_in_use");
  const own = ownIdentity();
  if (record.owner.pid === own.pid && record.owner.startTime === own.startTime) {
    // An earlier life in this very process is still stopping its server, and sees to it alone.
    await waitForEnd(record.server, OWN_STOP_MS);
  } else if (isAlive(record.owner)) {
    throw new LemonError("store_in_use", {
      message: "A live process already serves this store",
      details: { pid: record.owner.pid },
    });
  } else {
    await stopLeftover(record.server, log);
  }
  // The last thread of a process closes its descriptors, and may still be at it when the process counts
  // as ended. Nothing tells of a flock that came free, so we look again for a bounded while.
  for (let look = 0; look < RELEASE_LOOKS; look += 1) {
    const lock = lockDirectory(storeDirectory);
    if (lock !== null) return lock;
    await setTimeout(RELEASE_LOOK_MS);
  }
  throw new LemonError("store_in_use");
}

async function stopLeftover(server: ProcessIdentity, log: Logger): Promise<void> {
  if (!signalProcess(server, "SIGTERM")) return;
  log.warn({ serverPid: server.pid }, "stopping a nats-server that outlived its owner");
  if (await waitForEnd(server, LEFTOVER_STOP_MS)) return;
  signalProcess(server, "SIGKILL");
  await waitForEnd(server, LEFTOVER_STOP_MS);
}

/** The record, or null when there is none that can be read: then nothing is proven. */
async function readRecord(recordFile: string): Promise<ServerRecord | null> {
  try {
    const bytes = await readSecureFile(recordFile);
    return bytes === null ? null : serverRecord.parse(JSON.parse(bytes.toString("utf8")));
  } catch {
    return null;
  }
}
