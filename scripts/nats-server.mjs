/**
 * Owns the question "which nats-server do we run?", for the set-up script of a checkout and for the
 * program itself (its first start after a global install). Dependency-free; runs on Node 18.
 *
 * Invariants:
 * 1. A server counts only after it was run and said a version of at least `FLOOR`.
 * 2. `LEMON_NATS_SERVER` decides alone: when it is set, nothing else is searched and nothing fetched.
 * 3. Nothing of the system is changed: what is fetched lies in the cache folder.
 */
import { execFile } from "node:child_process";
import { accessSync, chmodSync, constants, mkdirSync, renameSync, statSync } from "node:fs";
import { delimiter, dirname, isAbsolute, join } from "node:path";
import { cacheFolder, codeOf, exclusively, withScratch } from "./cache-folder.mjs";
import { fetchFromApt, fetchFromRelease } from "./nats-server-sources.mjs";

/** The oldest server that checks what a leaf publishes, and syncs before it acknowledges. */
export const FLOOR = "2.12.7";

/** Where packages put it on machines whose ordinary PATH does not name the place. */
const USUAL_FOLDERS = [
  "/usr/local/bin",
  "/usr/local/sbin",
  "/usr/sbin",
  "/opt/homebrew/bin",
  "/home/linuxbrew/.linuxbrew/bin",
];

/** A server that does not answer `--version` by then will not serve either. */
const VERSION_TIMEOUT_MS = 5_000;

/** @typedef {import("./cache-folder.mjs").Environment} Environment */
/** @typedef {import("./cache-folder.mjs").Say} Say */
/** @typedef {{ readonly path: string, readonly version: string }} NatsServer */
/** @typedef {"missing" | "too_old" | "unusable"} Reason */
/** @typedef {(scratch: string, say: Say) => Promise<string>} Source fetches a server: see nats-server-sources.mjs */
/**
 * `message` is one line for a person: what was found where, and why it does not do.
 * @typedef {{ readonly found: true } & NatsServer
 *   | { readonly found: false, readonly reason: Reason, readonly message: string }} Lookup
 */

/** There is no nats-server to run. `message` is one line that says why and what helps. */
export class NatsServerError extends Error {
  /**
   * @param {Reason} reason
   * @param {string} message
   */
  constructor(reason, message) {
    super(message);
    this.name = "NatsServerError";
    this.reason = reason;
  }
}

/**
 * Looks for a server without fetching one: `LEMON_NATS_SERVER`, else PATH, the usual folders, the
 * cache. One that is too old or broken is passed over when a later place has a good one.
 * @param {Environment} [env]
 * @param {readonly string[]} [usualFolders]
 * @returns {Promise<Lookup>}
 */
export async function findNatsServer(env = process.env, usualFolders = USUAL_FOLDERS) {
  const chosen = env["LEMON_NATS_SERVER"];
  if (chosen) {
    if (!isAbsolute(chosen)) {
      return no("unusable", `LEMON_NATS_SERVER is not an absolute path: ${chosen}`);
    }
    const answer = await probe(chosen);
    return answer.found ? answer : no(answer.reason, `LEMON_NATS_SERVER: ${answer.message}`);
  }
  /** @type {Lookup | undefined} */
  let refusal;
  for (const path of candidates(env, usualFolders)) {
    const answer = await probe(path);
    if (answer.found) return answer;
    if (answer.reason !== "missing") refusal ??= answer;
  }
  return refusal ?? no("missing", "no nats-server was found");
}

/**
 * Finds a server or fetches one into the cache folder: from Debian by the machine's own mirror and
 * keys, else the official release archive by its pinned checksum.
 * @param {{ readonly say: Say, readonly env?: Environment, readonly usualFolders?: readonly string[],
 *   readonly sources?: readonly Source[] }} options
 * @returns {Promise<NatsServer>}
 * @throws {NatsServerError} when there is none, or the one of `LEMON_NATS_SERVER` does not do
 */
export async function ensureNatsServer({
  say,
  env = process.env,
  usualFolders = USUAL_FOLDERS,
  sources = [fetchFromApt, fetchFromRelease],
}) {
  const first = await findNatsServer(env, usualFolders);
  if (first.found) return first;
  if (env["LEMON_NATS_SERVER"]) throw new NatsServerError(first.reason, first.message);
  const cache = cacheFolder(env);
  try {
    return await exclusively(cache, "nats-server", say, async () => {
      const again = await findNatsServer(env, usualFolders);
      if (again.found) return again;
      return withScratch(cache, async (scratch) => {
        const fetched = await fetchServer(sources, scratch, say, again.message);
        const kept = join(cache, "nats-server", "nats-server");
        mkdirSync(dirname(kept), { recursive: true });
        renameSync(fetched.path, kept);
        return { path: kept, version: fetched.version };
      });
    });
  } catch (error) {
    if (error instanceof NatsServerError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new NatsServerError("missing", `cannot fetch nats-server into ${cache}: ${why}`);
  }
}

/**
 * Asks one source after the other until one gives a server that does.
 * @param {readonly Source[]} sources
 * @param {string} scratch
 * @param {Say} say
 * @param {string} why no server that is already there does
 * @returns {Promise<NatsServer>}
 */
async function fetchServer(sources, scratch, say, why) {
  const failures = [why];
  for (const fetchFrom of sources) {
    try {
      const path = await fetchFrom(scratch, say);
      chmodSync(path, 0o755);
      const answer = await probe(path);
      if (answer.found) return answer;
      failures.push(answer.message);
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    }
  }
  const advice = `install nats-server ${FLOOR} or newer, or set LEMON_NATS_SERVER to its path`;
  throw new NatsServerError("missing", `${failures.join("; ")}; ${advice}`);
}

/**
 * @param {Environment} env
 * @param {readonly string[]} usualFolders
 */
function candidates(env, usualFolders) {
  const onPath = (env["PATH"] ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  const folders = [...onPath, ...usualFolders, join(cacheFolder(env), "nats-server")];
  return new Set(folders.map((folder) => join(folder, "nats-server")));
}

/**
 * Runs the server at `path` for its version.
 * @param {string} path
 * @returns {Promise<Lookup>}
 */
async function probe(path) {
  try {
    if (!statSync(path).isFile()) return no("missing", `${path} is not a file`);
    accessSync(path, constants.X_OK);
  } catch (error) {
    return codeOf(error) === "EACCES"
      ? no("unusable", `${path} may not be executed`)
      : no("missing", `${path} does not exist`);
  }
  /** @type {{ readonly code: unknown, readonly text: string }} */
  const { code, text } = await new Promise((resolve) => {
    const options = { timeout: VERSION_TIMEOUT_MS, killSignal: /** @type {const} */ ("SIGKILL") };
    execFile(path, ["--version"], options, (error, stdout) =>
      resolve({ code: codeOf(error), text: stdout }),
    );
  });
  const version = /^nats-server: v(\d+\.\d+\.\d+\S*)/m.exec(text)?.[1];
  if (version === undefined) {
    const why = typeof code === "string" ? ` (${code})` : "";
    return no("unusable", `${path} does not run as a nats-server${why}`);
  }
  if (!isAtLeastFloor(version)) {
    return no(
      "too_old",
      `nats-server ${version} at ${path} is too old, ${FLOOR} or newer is needed`,
    );
  }
  return { found: true, path, version };
}

/**
 * Whether a version is the floor or newer (SemVer 2.0, 11.3: a pre-release comes before its release).
 * @param {string} version
 */
export function isAtLeastFloor(version) {
  const [core = "", ...preRelease] = version.split("-");
  const wanted = FLOOR.split(".").map(Number);
  const parts = core.split(".").map(Number);
  for (const [index, least] of wanted.entries()) {
    const part = parts[index] ?? 0;
    if (part !== least) return part > least;
  }
  return preRelease.length === 0;
}

/**
 * @param {Reason} reason
 * @param {string} message
 * @returns {Lookup & { found: false }}
 */
function no(reason, message) {
  return { found: false, reason, message };
}
