/**
 * Owns the folder for what the program fetches for itself, and the manners of processes that meet
 * there. Dependency-free; runs on Node 18.
 *
 * Invariants:
 * 1. What is being made lies in a scratch folder named after its maker and is renamed into place
 *    whole, so a kill at any point leaves the old thing, the new one, or nothing: never a half one.
 * 2. The lock only saves work. Should two processes ever hold it (a stale one is taken over by
 *    rename, which has a gap), 1 still holds for both.
 * 3. A process is a pid and its start time: a lock or a scratch folder whose maker is gone is
 *    released by the next one who comes.
 */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** How often a waiter looks again. The death of a foreign process has no event to wait for. */
const WAIT_STEP_MS = 200;

/** @typedef {Readonly<Record<string, string | undefined>>} Environment */
/** @typedef {(line: string) => void} Say One plain line about what is being done. */

/** The folder of our own `package.json`: above `scripts/`, or above `dist/scripts/` once compiled. */
export function packageRoot() {
  const here = dirname(fileURLToPath(import.meta.url));
  for (let folder = here; ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return folder;
    if (folder === dirname(folder)) throw new Error(`no package.json above ${here}`);
  }
}

/**
 * Where fetched things are kept: `LEMON_CACHE`, else `.cache` of a checkout, else
 * `$XDG_CACHE_HOME/lemon`, else `~/.cache/lemon` (XDG Base Directory Specification: a relative
 * path there is to be ignored).
 * @param {Environment} env
 */
export function cacheFolder(env) {
  const chosen = env["LEMON_CACHE"];
  if (chosen) return resolve(chosen);
  const root = packageRoot();
  if (existsSync(join(root, "tsconfig.json"))) return join(root, ".cache");
  const base = env["XDG_CACHE_HOME"];
  return join(base && isAbsolute(base) ? base : join(homedir(), ".cache"), "lemon");
}

/**
 * Gives `work` an empty folder inside `cache` and removes it afterwards.
 * @template T
 * @param {string} cache
 * @param {(folder: string) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withScratch(cache, work) {
  sweep(cache);
  const folder = mkdtempSync(join(scratchFolder(cache), `${identity(process.pid)}.`));
  try {
    return await work(folder);
  } finally {
    discard(folder);
  }
}

/**
 * Removes what killed processes left behind in `cache`.
 * @param {string} cache
 */
export function sweep(cache) {
  mkdirSync(scratchFolder(cache), { recursive: true });
  for (const name of readdirSync(scratchFolder(cache))) {
    if (!isAlive(name)) discard(join(scratchFolder(cache), name));
  }
}

/** @param {string} cache */
function scratchFolder(cache) {
  return join(cache, "tmp");
}

/**
 * Runs `work` while no other process runs it under the same name.
 * @template T
 * @param {string} cache
 * @param {string} name what is being done, for the lock's file name and the waiter's line
 * @param {Say} say
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function exclusively(cache, name, say, work) {
  mkdirSync(cache, { recursive: true });
  const lock = join(cache, `${name}.lock`);
  // A symbolic link is made at once and whole, target included: no reader meets a half-written lock.
  const mine = `${identity(process.pid)}.${randomBytes(6).toString("hex")}`;
  let told = false;
  for (;;) {
    try {
      symlinkSync(mine, lock);
      break;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    }
    const holder = holderOf(lock);
    if (holder === null) continue;
    if (!isAlive(holder)) {
      takeOver(lock, holder);
      continue;
    }
    if (!told) say(`waiting for process ${holder.split(".")[0]}, which does the same (${name})`);
    told = true;
    await pause(WAIT_STEP_MS);
  }
  try {
    return await work();
  } finally {
    if (holderOf(lock) === mine) rmSync(lock, { force: true });
  }
}

/**
 * Moves a dead holder's lock away. Between the look and the move another waiter may have done so and
 * taken the lock itself: then it is put back.
 * @param {string} lock
 * @param {string} dead
 */
function takeOver(lock, dead) {
  const aside = `${lock}.${randomBytes(6).toString("hex")}`;
  try {
    renameSync(lock, aside);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw error;
  }
  const moved = holderOf(aside);
  rmSync(aside, { force: true });
  if (moved === null || moved === dead) return;
  try {
    symlinkSync(moved, lock);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

/** @param {string} lock */
function holderOf(lock) {
  try {
    return readlinkSync(lock);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/**
 * `<pid>.<start time>`, equal only for one and the same process.
 * @param {number} pid
 */
function identity(pid) {
  return `${pid}.${startTime(pid) ?? ""}`;
}

/**
 * Whether the process at the head of a name (`<pid>.<start time>.<anything>`) still runs.
 * @param {string} name
 */
function isAlive(name) {
  const [pid, started] = name.split(".");
  const number = Number(pid);
  if (!Number.isSafeInteger(number) || number <= 0) return false;
  try {
    process.kill(number, 0);
  } catch (error) {
    if (codeOf(error) !== "EPERM") return false;
  }
  return startTime(number) === started;
}

/**
 * When a process started, in the system's own words without punctuation; null when it is gone.
 * @param {number} pid
 */
function startTime(pid) {
  try {
    if (process.platform === "linux") {
      // proc(5): field 22, counted behind the command's name, which may itself hold blanks and ")".
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
    }
    const listing = execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], {
      encoding: "utf8",
      env: { LC_ALL: "C", PATH: "/bin:/usr/bin" },
      stdio: ["ignore", "pipe", "ignore"],
    });
    return listing.replace(/\W/g, "") || null;
  } catch {
    return null;
  }
}

/**
 * Removes a folder as far as it can: an orphan may still write there, the next sweep gets the rest.
 * @param {string} folder
 */
function discard(folder) {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // Left for the next sweep.
  }
}

/** @param {unknown} error */
export function codeOf(error) {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
