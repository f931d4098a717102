/**
 * Owns the set-up of a checkout; `npm start` and `npm test` run it first. It brings the npm packages
 * of `package-lock.json`, a Node.js of at least 24 and a nats-server. Dependency-free; runs on
 * Node 18. What it does it says on stderr, so that stdout stays the program's.
 *
 * Invariants:
 * 1. Nothing of the system is changed: everything lies in `node_modules/` and `.cache/`.
 * 2. A tree of packages is installed aside, proven, stamped, and only then renamed into place. A kill
 *    at any point leaves the old tree, the new one or none; the next run goes on from there.
 * 3. When nothing is to be done it reads one stamp, asks the nats-server its version, and is silent.
 */
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, sep } from "node:path";
import { codeOf, exclusively, packageRoot, sweep, withScratch } from "./cache-folder.mjs";
import { ensureNatsServer } from "./nats-server.mjs";

const NODE_MAJOR = 24;
const STAMP = ".lemon-setup.json";

/**
 * What a tree of packages was made for. `node` says which Node.js runs the program with it.
 * @typedef {{ packages: string, platform: string, node: "package" | "system" }} Stamp
 */

const root = packageRoot();
const tree = join(root, "node_modules");
// Beside the tree, whatever LEMON_CACHE says: a rename must not leave the file system.
const cache = join(root, ".cache");
const platform = `${process.platform}-${process.arch}`;

/** @param {string} line */
const say = (line) => console.error(`set-up: ${line}`);

try {
  const lock = readFileSync(join(root, "package-lock.json"));
  const packages = createHash("sha256").update(lock).digest("hex");
  sweep(cache);
  if (!isTreeFor(packages)) {
    await exclusively(cache, "npm-packages", say, async () => {
      if (isTreeFor(packages)) return;
      await withScratch(cache, (scratch) => installTree(packages, scratch));
    });
  }
  await ensureNatsServer({ say });
} catch (error) {
  console.error(`set-up failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

/** @param {string} packages */
function isTreeFor(packages) {
  try {
    /** @type {Stamp} */
    const stamp = JSON.parse(readFileSync(join(tree, STAMP), "utf8"));
    const hasNode =
      stamp.node === "package" ? existsSync(join(tree, ".bin", "node")) : isSystemNodeEnough();
    return hasNode && stamp.packages === packages && stamp.platform === platform;
  } catch {
    return false;
  }
}

/**
 * @param {string} packages
 * @param {string} scratch
 */
async function installTree(packages, scratch) {
  const staged = join(scratch, "staged");
  mkdirSync(staged);
  for (const name of ["package.json", "package-lock.json", ".npmrc"]) {
    if (existsSync(join(root, name))) copyFileSync(join(root, name), join(staged, name));
  }
  say("installing the npm packages of package-lock.json");
  await npmCi(staged, scratch);
  const node = await provenNode(linkNode(join(staged, "node_modules")));
  writeFileSync(
    join(staged, "node_modules", STAMP),
    `${JSON.stringify(/** @type {Stamp} */ ({ packages, platform, node }))}\n`,
  );
  moveIntoPlace(join(staged, "node_modules"), join(scratch, "replaced"));
}

/**
 * @param {string} folder holds package.json and package-lock.json
 * @param {string} scratch
 */
async function npmCi(folder, scratch) {
  // Said outright, since NODE_ENV=production or a user's npm settings would leave some of them out.
  const options = ["--ignore-scripts", "--include=dev", "--include=optional", "--no-audit"];
  const quiet = ["--no-fund", "--no-update-notifier", "--loglevel=error", "--no-progress"];
  const npm = process.env["npm_execpath"] ?? "";
  const [command, ...before] = basename(npm) === "npm-cli.js" ? [process.execPath, npm] : ["npm"];
  const path = join(scratch, "npm.log");
  const log = openSync(path, "w");
  const child = spawn(String(command), [...before, "ci", ...options, ...quiet], {
    cwd: folder,
    // Not the one in the user's home, which npm would fill with what only this checkout needs.
    env: { ...process.env, npm_config_cache: join(cache, "npm") },
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  /** @type {number | string} */
  const end = await new Promise((resolve, reject) => {
    child.once("error", (error) => {
      const isMissing = codeOf(error) === "ENOENT";
      reject(new Error(isMissing ? "npm was not found; install it" : error.message));
    });
    child.once("exit", (code, signal) => resolve(code ?? String(signal)));
  });
  if (end === 0) return;
  const said = readFileSync(path, "utf8").match(
    /^npm (?:error|ERR!) (?!code |A complete log).*$/gm,
  );
  throw new Error(`npm ci: ${said?.[0].replace(/^npm \S+ /, "") ?? `ended with ${end}`}`);
}

/**
 * Where npm scripts find the packaged Node.js. npm 10 and older lose that link when they drop the
 * packages for other platforms, each of which brings a `node` too.
 * @param {string} modules
 */
function linkNode(modules) {
  const link = join(modules, ".bin", "node");
  if (existsSync(link)) return link;
  for (const name of [`node-${platform}`, `node-bin-${platform}`]) {
    if (!existsSync(join(modules, name, "bin", "node"))) continue;
    mkdirSync(dirname(link), { recursive: true });
    rmSync(link, { force: true });
    symlinkSync(join("..", name, "bin", "node"), link);
    break;
  }
  return link;
}

/**
 * Which Node.js of at least 24 there is: the one that came as a package, else the one that runs us.
 * @param {string} packaged
 * @returns {Promise<Stamp["node"]>}
 */
async function provenNode(packaged) {
  if (existsSync(packaged)) {
    /** @type {string} */
    const version = await new Promise((resolve) =>
      execFile(packaged, ["--version"], (_error, stdout) => resolve(stdout.trim())),
    );
    if (majorOf(version) >= NODE_MAJOR) {
      say(`Node.js ${version.slice(1)} is in node_modules`);
      return "package";
    }
    // It does not run here (another C library), and npm scripts would find it first.
    rmSync(packaged);
  }
  if (isSystemNodeEnough()) return "system";
  throw new Error(
    `no Node.js ${NODE_MAJOR} is packaged for ${platform}; install it and run this again`,
  );
}

function isSystemNodeEnough() {
  return majorOf(process.version) >= NODE_MAJOR && !process.execPath.startsWith(tree + sep);
}

/** @param {string} version `v24.1.2` */
function majorOf(version) {
  return Number(/^v(\d+)\./.exec(version)?.[1] ?? 0);
}

/**
 * @param {string} made
 * @param {string} aside where the old tree goes; the scratch folder's owner removes it
 */
function moveIntoPlace(made, aside) {
  for (let attempt = 0; ; attempt++) {
    try {
      renameSync(tree, `${aside}-${attempt}`);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
    }
    try {
      renameSync(made, tree);
      return;
    } catch (error) {
      // Someone else put a tree there in between; ours is as good, and newer.
      if (codeOf(error) !== "ENOTEMPTY" && codeOf(error) !== "EEXIST") throw error;
    }
  }
}
