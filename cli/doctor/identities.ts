/** Owns the doctor's look at the role identities of a state folder: which are there, which are served. */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { type Finding, ok } from "./check.ts";

/** One finding an identity that was ever started here. */
export async function checkIdentities(home: string): Promise<readonly Finding[]> {
  const nodes = await readdir(join(home, "nodes")).catch(() => []);
  const identities = [
    { name: "controller here", lock: join(home, "controller", "lock") },
    ...nodes.sort().map((name) => ({
      name: `node ${name} here`,
      lock: join(home, "nodes", name, "lock"),
    })),
  ];
  const holders = await lockHolders();
  const findings: Finding[] = [];
  for (const { name, lock } of identities) {
    const stats = await stat(lock, { bigint: true }).catch(() => null);
    if (stats === null) continue;
    const holder = holders?.get(lockKey(stats.dev, stats.ino));
    if (holders === null) findings.push(ok(name, "was started here"));
    else if (holder === undefined) findings.push(ok(name, "not running"));
    else findings.push(ok(name, `served by process ${holder}`));
  }
  return findings;
}

/**
 * Who holds which flock(2), by device and inode, as proc_locks(5) tells it: looking there disturbs
 * nobody, where trying the lock could fail a role that starts at this moment. Null without `/proc`.
 */
async function lockHolders(): Promise<ReadonlyMap<string, string> | null> {
  const text = await readFile("/proc/locks", "latin1").catch(() => null);
  if (text === null) return null;
  const lines = text.matchAll(/^\d+: FLOCK +\w+ +\w+ +(\d+) ([0-9a-f]+:[0-9a-f]+:\d+) /gm);
  return new Map([...lines].map(([, pid = "", key = ""]) => [key, pid]));
}

/** `major:minor:inode`, the numbers of the device in hexadecimal (makedev(3)). */
function lockKey(device: bigint, inode: bigint): string {
  const major = ((device >> 8n) & 0xfffn) | ((device >> 32n) & ~0xfffn);
  const minor = (device & 0xffn) | ((device >> 12n) & ~0xffn);
  const hex = (number: bigint): string => number.toString(16).padStart(2, "0");
  return `${hex(major)}:${hex(minor)}:${inode}`;
}
