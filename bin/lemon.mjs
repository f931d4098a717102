/**
 * Owns the way from `node bin/lemon.mjs …` to the command: which Node.js runs it, which file it is,
 * and in which directory. Dependency-free; runs on Node 18. The installed command is `bin/lemon`,
 * which gets here on a Node.js 24 at once.
 *
 * - On Node.js 24 or newer the command is imported into this very process: importing it is running
 *   it. On an older one a child runs this file again, with the Node.js of the optional dependency.
 * - The file is `dist/cli/main.js` of a package, `cli/main.ts` of a checkout.
 * - The directory: `npm run` moves to the project's root before it runs a script. When it is this
 *   very project's script, we move back to where the user stood (`INIT_CWD`), so that the command
 *   resolves relative paths from `process.cwd()` and knows nothing of npm. A foreign project's
 *   script that calls us is left where it is.
 */
import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import module, { createRequire } from "node:module";
import { constants, homedir } from "node:os";
import { dirname, join, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const NODE_MAJOR = 24;
/**
 * V8's young generation may grow to three times this, in MiB. Its default (16) lets a service that
 * idles keep 50 MB more. Only the command line can set it; `bin/lemon` and `npm start` do the same.
 */
const YOUNG_GENERATION_FLAG = "--max-semi-space-size=4";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const compiled = join(root, "dist", "cli", "main.js");
const source = join(root, "cli", "main.ts");
// Node.js strips no types below node_modules, so there only the compiled file can run.
const isPackage = root.includes(`${sep}node_modules${sep}`) || !existsSync(source);
const main = isPackage ? compiled : source;

const startedIn = process.env["INIT_CWD"];
if (
  startedIn &&
  existsSync(startedIn) &&
  process.env["npm_package_json"] === join(root, "package.json") &&
  process.cwd() === root
) {
  process.chdir(startedIn);
}

if (!existsSync(main)) {
  fail(`${main} is missing; this package is not complete`);
} else if (majorOf(process.version) >= NODE_MAJOR) {
  process.argv[1] = main;
  keepCompiled();
  if (main === source) hushTypeStripping();
  await import(pathToFileURL(main).href);
} else {
  const node = packagedNode();
  if (node === undefined)
    fail(`Node.js ${NODE_MAJOR} or newer is needed, this is ${process.version}`);
  else runIn(node);
}

/** Before 24.3 Node.js warns that stripping types is experimental; that is no news for a user. */
function hushTypeStripping() {
  const emit = process.emitWarning;
  process.emitWarning = (/** @type {unknown[]} */ ...warning) => {
    if (!String(warning[0]).startsWith("Type Stripping")) Reflect.apply(emit, process, warning);
  };
}

/**
 * Keeps what V8 compiles (and, of a checkout, what Node.js strips of types) for the next start, which
 * then takes half the time. Below the cache folder that scripts/cache-folder.mjs names.
 */
function keepCompiled() {
  const { LEMON_CACHE, XDG_CACHE_HOME } = process.env;
  const user = LEMON_CACHE || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "lemon");
  module.enableCompileCache?.(join(isPackage ? user : join(root, ".cache"), "compiled"));
}

/** The Node.js that came as an optional dependency, by the names its publishers give it. */
function packagedNode() {
  const platform = `${process.platform}-${process.arch}`;
  const { resolve } = createRequire(import.meta.url);
  for (const name of [`node-${platform}`, `node-bin-${platform}`]) {
    try {
      const manifest = resolve(`${name}/package.json`);
      /** @type {{ version: string }} */
      const { version } = JSON.parse(readFileSync(manifest, "utf8"));
      // Hoisted, it may be another project's old one.
      if (majorOf(`v${version}`) >= NODE_MAJOR) return join(dirname(manifest), "bin", "node");
    } catch {
      // Not installed: the next name.
    }
  }
  return undefined;
}

/** @param {string} node */
function runIn(node) {
  const self = fileURLToPath(import.meta.url);
  const child = spawn(node, [YOUNG_GENERATION_FLAG, self, ...process.argv.slice(2)], {
    stdio: "inherit",
  });
  // A terminal sends these three to the whole foreground group, so below one the child has them
  // already. Everything else was sent to this process alone and is passed on.
  const hasTerminal = isOpenable("/dev/tty");
  for (const signal of /** @type {const} */ (["SIGINT", "SIGQUIT", "SIGHUP"])) {
    process.on(signal, () => {
      if (!hasTerminal) child.kill(signal);
    });
  }
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  child.once("error", (error) => fail(`${node} does not run: ${error.message}`));
  child.once("exit", (code, signal) => {
    if (signal === null) {
      process.exitCode = code ?? 1;
      return;
    }
    // End as the child did; a signal that cannot end us (we are PID 1) leaves the shell's number.
    process.removeAllListeners(signal);
    process.exitCode = 128 + constants.signals[signal];
    process.kill(process.pid, signal);
  });
}

/**
 * tty(4): `/dev/tty` can be opened only by a process that has a controlling terminal.
 * @param {string} path
 */
function isOpenable(path) {
  try {
    closeSync(openSync(path, "r"));
    return true;
  } catch {
    return false;
  }
}

/** @param {string} version `v24.1.2` */
function majorOf(version) {
  return Number(/^v(\d+)\./.exec(version)?.[1] ?? 0);
}

/** @param {string} line */
function fail(line) {
  console.error(`lemon: ${line}`);
  process.exitCode = 1;
}
