/**
 * Owns the moment at which a nats-server serves: its ports file (written once every listener stands)
 * and the first line it says to a client, which names the server and its version.
 */
import { type FSWatcher, readdirSync, readFileSync, watch } from "node:fs";
import { rm } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { z } from "zod";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";

const serverInfo = z.object({ server_id: z.string().min(1), version: z.string().min(1) });

export interface ServerInfo {
  readonly serverId: string;
  readonly version: string;
}

/** A server that listens says INFO at once. */
const INFO_TIMEOUT_MS = 5_000;
/** INFO is about 500 bytes. */
const LONGEST_INFO_BYTES = 65_536;
/** How often the folder is looked at where it can not be watched. */
const LOOK_MS = 25;

/** Looks out for one process's ports file; made before the process runs, so that nothing is missed. */
export interface ReadyWatch {
  /** Resolves when the file stands whole. */
  readonly ready: Promise<void>;
  close(): void;
}

/** Says, without more, that something changed in a folder (`fs.watch`). Throws when the system gives no watch. */
export type WatchFolder = (
  directory: string,
  onChange: () => void,
) => Pick<FSWatcher, "close"> & { on(event: "error", listener: () => void): unknown };

/** Empties the folder of an earlier life's file, then looks out for that of `pid`. */
export async function watchPortsFile(
  directory: string,
  pid: number,
  clock: Clock,
  watchFolder: WatchFolder = watch,
): Promise<ReadyWatch> {
  for (const name of namesIn(directory)) await rm(join(directory, name), { force: true });
  const { promise, resolve } = Promise.withResolvers<void>();
  const look = (): void => {
    if (namesIn(directory).some((name) => isPortsFile(directory, name, pid))) resolve();
  };
  const close = follow(directory, look, clock, watchFolder);
  look();
  return { ready: promise, close };
}

function follow(
  directory: string,
  look: () => void,
  clock: Clock,
  watchFolder: WatchFolder,
): () => void {
  let cancel: CancelTimer = () => {};
  let close = (): void => {};
  // A user may have so many watches and no more (inotify(7)): without one nothing tells of a change.
  const lookAgain = (): void => {
    cancel = clock.after(LOOK_MS, () => {
      look();
      lookAgain();
    });
  };
  try {
    const watcher = watchFolder(directory, look);
    close = () => watcher.close();
    watcher.on("error", () => {
      close();
      lookAgain();
    });
  } catch {
    lookAgain();
  }
  return () => {
    close();
    cancel();
  };
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function isPortsFile(directory: string, name: string, pid: number): boolean {
  if (!name.endsWith(`_${pid}.ports`)) return false;
  try {
    JSON.parse(readFileSync(join(directory, name), "utf8"));
    return true;
  } catch {
    return false;
  }
}

/** Reads the INFO line that a server sends to whoever connects, before any authentication. */
export function readServerInfo(
  port: number,
  clock: Clock,
  timeoutMs = INFO_TIMEOUT_MS,
): Promise<ServerInfo> {
  const { promise, resolve, reject } = Promise.withResolvers<ServerInfo>();
  const socket = connect({ host: "127.0.0.1", port });
  const fail = (cause?: unknown): void => reject(new LemonError("nats_server_failed", { cause }));
  const cancelTimeout = clock.after(timeoutMs, () => fail());
  let received = "";
  socket.setEncoding("utf8");
  socket.on("data", (text: string) => {
    received += text;
    const end = received.indexOf("\r\n");
    if (end < 0 && received.length <= LONGEST_INFO_BYTES) return;
    try {
      const { server_id, version } = serverInfo.parse(
        JSON.parse(received.slice(0, end).replace(/^INFO /, "")),
      );
      resolve({ serverId: server_id, version });
    } catch (error) {
      fail(error);
    }
  });
  socket.on("error", fail);
  socket.on("close", () => fail());
  return promise.finally(() => {
    cancelTimeout();
    socket.destroy();
  });
}
