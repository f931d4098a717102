/**
 * Owns the nats-server executable: where it is and whether it is new enough.
 *
 * 1. `LEMON_NATS_SERVER` decides alone when it is set; PATH is asked only without it.
 * 2. A server below the floor, or one whose version cannot be read, is never started.
 */
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { LemonError } from "../../protocol/errors.ts";

/** 2.12.7: leaf publishes are checked, per-key TTL, leaf remotes reload. */
export const OLDEST_NATS_SERVER: Version = { major: 2, minor: 12, patch: 7, prerelease: null };

/** `--version` answers in milliseconds; longer means that it is no nats-server. */
const VERSION_TIMEOUT_MS = 10_000;

export interface Version {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
  /** `RC.3` of `2.15.0-RC.3`: older than the release of the same number. */
  readonly prerelease: string | null;
}

export interface NatsServerBinary {
  readonly path: string;
  /** As the server prints it, without the `v`. */
  readonly version: string;
}

/**
 * Finds the executable and asks it for its version.
 * Errors: `nats_server_missing`, `nats_server_too_old` (`details`: `found`, `needed`).
 */
export async function findNatsServer(
  env: Readonly<Record<string, string | undefined>>,
): Promise<NatsServerBinary> {
  const path = await locate(env);
  if (path === null) throw new LemonError("nats_server_missing");
  const version = parseVersion(await printedVersion(path));
  if (version === null) {
    throw new LemonError("nats_server_missing", {
      message: "The nats-server that was found does not tell its version; it cannot be used",
    });
  }
  requireVersion(version);
  return { path, version: formatVersion(version) };
}

/** Throws `nats_server_too_old` below the floor. */
export function requireVersion(version: Version): void {
  if (!isOlder(version, OLDEST_NATS_SERVER)) return;
  const found = formatVersion(version);
  const needed = formatVersion(OLDEST_NATS_SERVER);
  throw new LemonError("nats_server_too_old", {
    message: `nats-server ${found} is too old; lemon needs at least ${needed}`,
    details: { found, needed },
  });
}

/** Whether a server that says `version` of itself meets the floor. */
export function isNewEnough(version: string): boolean {
  const parsed = parseVersion(version);
  return parsed !== null && !isOlder(parsed, OLDEST_NATS_SERVER);
}

/** Reads `2.15.1`, `v2.15.1` or `nats-server: v2.15.0-RC.3`; null for anything else. */
export function parseVersion(text: string): Version | null {
  const match = /(?:^|\s|v)(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]+))?\s*$/.exec(
    text.trim(),
  );
  if (match === null) return null;
  return {
    major: Number(match[1]),
    minor: Number(match[2]),
    patch: Number(match[3]),
    prerelease: match[4] ?? null,
  };
}

function isOlder(a: Version, b: Version): boolean {
  if (a.major !== b.major) return a.major < b.major;
  if (a.minor !== b.minor) return a.minor < b.minor;
  if (a.patch !== b.patch) return a.patch < b.patch;
  return a.prerelease !== null && b.prerelease === null;
}

function formatVersion(version: Version): string {
  const { major, minor, patch, prerelease } = version;
  return `${major}.${minor}.${patch}${prerelease === null ? "" : `-${prerelease}`}`;
}

async function locate(env: Readonly<Record<string, string | undefined>>): Promise<string | null> {
  const named = env["LEMON_NATS_SERVER"];
  if (named !== undefined && named !== "") {
    return isAbsolute(named) && (await isExecutable(named)) ? named : null;
  }
  for (const directory of (env["PATH"] ?? "").split(delimiter)) {
    if (!isAbsolute(directory)) continue;
    const candidate = join(directory, "nats-server");
    if (await isExecutable(candidate)) return candidate;
  }
  return null;
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

/** What `--version` prints; empty when the program fails, hangs or cannot be run at all. */
function printedVersion(path: string): Promise<string> {
  return new Promise((resolve) => {
    execFile(
      path,
      ["--version"],
      { timeout: VERSION_TIMEOUT_MS, maxBuffer: 4_096 },
      (error, stdout) => resolve(error === null ? stdout : ""),
    );
  });
}
