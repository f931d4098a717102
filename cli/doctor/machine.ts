/** Owns the doctor's look at the machine: the runtime, nats-server, the disk under `LEMON_HOME`. */
import { randomBytes } from "node:crypto";
import { access, constants, lstat, open, readdir, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { findNatsServer } from "../../scripts/nats-server.mjs";
import { bytesText } from "../printable.ts";
import { type Finding, fail, ok, warn } from "./check.ts";

const NODE_MAJOR = 24;

export function checkRuntime(version: string): Finding {
  const major = Number(version.split(".")[0]);
  return major >= NODE_MAJOR
    ? ok("Node.js", version)
    : fail("Node.js", `${version} is too old`, `install Node.js ${NODE_MAJOR} or newer`);
}

export async function checkNatsServer(
  environment: Readonly<Record<string, string | undefined>>,
  usualFolders?: readonly string[],
): Promise<Finding> {
  const name = "nats-server";
  const found = await findNatsServer({ ...environment }, usualFolders);
  if (found.found) return ok(name, `${found.version} at ${found.path}`);
  // A missing one is fetched by the first start; one that was chosen, or is broken, is not replaced.
  return found.reason === "missing" && !environment["LEMON_NATS_SERVER"]
    ? warn(name, found.message, "`lemon up` fetches one; or install it, or set LEMON_NATS_SERVER")
    : fail(name, found.message, "install nats-server 2.12.7 or newer, or set LEMON_NATS_SERVER");
}

export async function checkHome(home: string): Promise<Finding> {
  const name = "state folder";
  const stats = await stat(home).catch(() => null);
  if (stats === null) {
    if ((await lstat(home).catch(() => null)) !== null)
      return fail(name, `${home} is a link to nothing`, "remove it, or make the folder it names");
    const parent = await existingParent(home);
    return (await isWritable(parent))
      ? ok(name, `${home} will be made by the first start`)
      : fail(name, `${home} can not be made: ${parent} is not writable`, "set LEMON_HOME");
  }
  if (!stats.isDirectory()) return fail(name, `${home} is no folder`, "move it away");
  if (process.geteuid !== undefined && stats.uid !== process.geteuid() && stats.uid !== 0)
    return fail(name, `${home} belongs to another account`, "use that account, or set LEMON_HOME");
  if (!(await isWritable(home)))
    return fail(
      name,
      `${home} is not writable`,
      "give this account the right to write, or set LEMON_HOME",
    );
  if ((stats.mode & 0o777) !== 0o700)
    return fail(name, `others may enter ${home}: no role starts in it`, `chmod 700 ${home}`);
  return ok(name, home);
}

/** The folders below it that a start demands for itself alone: one finding each that is not. */
export async function checkFolders(home: string): Promise<readonly Finding[]> {
  const nodes = await readdir(join(home, "nodes")).catch(() => []);
  const findings: Finding[] = [];
  for (const name of ["run", "controller", ...nodes.sort().map((node) => join("nodes", node))]) {
    const folder = join(home, name);
    const stats = await stat(folder).catch(() => null);
    if (stats === null) continue;
    if (process.geteuid !== undefined && stats.uid !== process.geteuid())
      findings.push(fail(`${name}/`, "belongs to another account", `chown ${folder}`));
    else if ((stats.mode & 0o777) !== 0o700)
      findings.push(fail(`${name}/`, "others may enter it", `chmod 700 ${folder}`));
  }
  return findings;
}

/** Below this nothing starts well; below that it soon will not. */
const SPACE_FAIL_BYTES = 64 * 1_048_576;
const SPACE_WARN_BYTES = 1_024 * 1_048_576;

export async function checkSpace(home: string): Promise<Finding> {
  const name = "disk space";
  const { bavail, bsize } = await statfs(await existingParent(home));
  const free = bavail * bsize;
  const finding = `${bytesText(free)} free`;
  const mend = "free some space, or move LEMON_HOME: a full disk stops every admission";
  if (free < SPACE_FAIL_BYTES) return fail(name, finding, mend);
  return free < SPACE_WARN_BYTES ? warn(name, finding, mend) : ok(name, finding);
}

/** statfs(2): file systems that live in memory. */
const MEMORY_FILE_SYSTEMS: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);
const BARRIER_ROUNDS = 9;
const BARRIER_BYTES = 4_096;
/** No disk answers faster; something on the way says yes without doing it. */
const IMPLAUSIBLE_MS = 0.01;
/** A receipt waits for two of these. */
const SLOW_MS = 50;

/** Writes and syncs a few blocks where the receipts lie: what an acknowledgement rests on. */
export async function checkBarrier(home: string): Promise<Finding> {
  const name = "disk barrier";
  const folder = await existingParent(home);
  let medianMs: number;
  try {
    medianMs = await measureBarrier(folder);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "failed";
    return fail(name, `a synced write fails (${code})`, "move LEMON_HOME to a disk that can sync");
  }
  const finding = `a synced write takes ${medianMs.toFixed(2)} ms`;
  const { type } = await statfs(folder);
  if (MEMORY_FILE_SYSTEMS.has(type))
    return warn(
      name,
      "LEMON_HOME lies in memory",
      "receipts end with the machine: move it to a disk",
    );
  if (medianMs < IMPLAUSIBLE_MS)
    return warn(name, `${finding}: faster than a disk`, "check that syncing is not switched off");
  return medianMs > SLOW_MS
    ? warn(name, finding, "every receipt waits for this: a faster disk helps")
    : ok(name, finding);
}

async function measureBarrier(folder: string): Promise<number> {
  const path = join(folder, `.lemon-doctor-${randomBytes(8).toString("hex")}`);
  const file = await open(path, "wx", 0o600);
  try {
    const block = Buffer.alloc(BARRIER_BYTES);
    const times: number[] = [];
    for (let round = 0; round < BARRIER_ROUNDS; round += 1) {
      const startedAt = performance.now();
      await file.write(block, 0, block.length, round * block.length);
      await file.datasync();
      times.push(performance.now() - startedAt);
    }
    return times.sort((a, b) => a - b)[BARRIER_ROUNDS >> 1] ?? Number.NaN;
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
}

async function existingParent(path: string): Promise<string> {
  for (let folder = path; ; folder = dirname(folder)) {
    const found = await stat(folder).catch(() => null);
    if (found !== null || folder === dirname(folder)) return folder;
  }
}

async function isWritable(folder: string): Promise<boolean> {
  return access(folder, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  );
}
