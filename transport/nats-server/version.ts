/**
 * Owns which versions of nats-server do. The executable itself is found by `scripts/nats-server.mjs`;
 * this is for servers that already run, ours and somebody else's.
 */

/**
 * The oldest that checks what a leaf publishes, expires keys one by one, and reads leaf remotes anew.
 * The set-up script has the same floor; a test holds the two together.
 */
export const OLDEST_NATS_SERVER = "2.12.7";

interface Version {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
  /** `RC.3` of `2.15.0-RC.3`: older than the release of the same number. */
  readonly prerelease: string | null;
}

/** Whether a server that says `version` of itself meets the floor; false for what can not be read. */
export function isNewEnough(version: string): boolean {
  const found = parseVersion(version);
  const floor = parseVersion(OLDEST_NATS_SERVER);
  return found !== null && floor !== null && !isOlder(found, floor);
}

/** Reads `2.15.1`, `v2.15.1` or `nats-server: v2.15.0-RC.3`; null for anything else. */
function parseVersion(text: string): Version | null {
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
