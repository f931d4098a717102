/**
 * Owns `LEMON_HOME/run/control-plane-<port>.json`: how a command finds the controllers that run here.
 *
 * 1. A record counts only while the very process that wrote it lives: pid and start time are compared.
 * 2. It is read as a private file of this account, so nobody else can point a token elsewhere.
 * 3. A controller removes its own record and no other's.
 * 4. With TLS it holds the very certificate that is shown. By 2 that is proof enough of whom one reaches,
 *    whoever issued it and whatever name it was issued for.
 */
import { readdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { identify } from "../host/process-identity.ts";
import { ensurePrivateDirectory, readSecureFile, writeSecureFile } from "../host/secure-file.ts";
import { LemonError } from "../protocol/errors.ts";

const controllerRecord = z.looseObject({
  port: z.int().min(1).max(65_535),
  pid: z.int().positive(),
  startTime: z.string().min(1).max(128),
  /** Path of the managed operator token; null when the token came from the environment. */
  tokenFile: z.string().nullable(),
  /** The address it listens on; absent: 127.0.0.1. */
  host: z.string().optional(),
  /** PEM of the certificate that it shows; absent: it speaks no TLS. */
  certificate: z.string().optional(),
  /** The files of keys that it was handed, for the doctor; absent: none. */
  handedFiles: z.array(z.object({ flag: z.string(), path: z.string() })).optional(),
});
export type ControllerRecord = z.infer<typeof controllerRecord>;

const NAME = /^control-plane-\d{1,5}\.json$/;

function recordPath(home: string, port: number): string {
  return join(home, "run", `control-plane-${port}.json`);
}

/** Announces a controller. Errors: those of a private file (`permission_denied`, `no_space`, …). */
export async function writeControllerRecord(home: string, record: ControllerRecord): Promise<void> {
  await ensurePrivateDirectory(join(home, "run"));
  await writeSecureFile(recordPath(home, record.port), `${JSON.stringify(record)}\n`);
}

/** Takes the announcement back, unless another controller has taken its place. */
export async function removeControllerRecord(home: string, own: ControllerRecord): Promise<void> {
  const found = await readRecord(recordPath(home, own.port));
  if (typeof found === "string" || found.pid !== own.pid || found.startTime !== own.startTime)
    return;
  await unlink(recordPath(home, own.port)).catch(() => {});
}

/** Why a record does not count. */
type RecordFault = "stale" | "unreadable" | "foreign";

type FoundRecord =
  | { readonly name: string; readonly record: ControllerRecord }
  | { readonly name: string; readonly fault: RecordFault };

/** Every record of this home, by port; those that do not count with the reason. */
export async function readControllerRecords(home: string): Promise<readonly FoundRecord[]> {
  const folder = join(home, "run");
  const names = await readdir(folder).catch(() => []);
  const found = await Promise.all(
    names
      .filter((name) => NAME.test(name))
      .map(async (name): Promise<FoundRecord> => {
        const record = await readRecord(join(folder, name));
        if (typeof record === "string") return { name, fault: record };
        return isServed(record) ? { name, record } : { name, fault: "stale" };
      }),
  );
  return found.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

function isServed({ pid, startTime }: ControllerRecord): boolean {
  return identify(pid)?.startTime === startTime;
}

async function readRecord(path: string): Promise<ControllerRecord | RecordFault> {
  let bytes: Buffer | null;
  try {
    bytes = await readSecureFile(path);
  } catch (error) {
    if (error instanceof LemonError) return "foreign";
    throw error;
  }
  if (bytes === null) return "stale";
  try {
    return controllerRecord.parse(JSON.parse(bytes.toString("utf8")));
  } catch {
    return "unreadable";
  }
}

/** Where a command on this machine reaches it: a wildcard address is reached over loopback. */
export function controllerRecordUrl(record: ControllerRecord): string {
  const { host = "127.0.0.1", port, certificate } = record;
  const scheme = certificate === undefined ? "ws" : "wss";
  if (host === "0.0.0.0") return `${scheme}://127.0.0.1:${port}/ws`;
  if (host === "::") return `${scheme}://[::1]:${port}/ws`;
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}/ws`;
}
