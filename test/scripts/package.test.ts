import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { cacheFolder, packageRoot } from "../../scripts/cache-folder.mjs";
import { findNatsServer } from "../../scripts/nats-server.mjs";
import { writeProgram, writeServer } from "./fake-nats-server.ts";
import { type End, type Run, type RunOptions, run, start } from "./processes.ts";

interface Manifest {
  readonly version: string;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly overrides: Readonly<Record<string, Readonly<Record<string, string>>>>;
}
const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, "utf8"));
const manifest = readJson<Manifest>(join(packageRoot(), "package.json"));

/** Copies a tree by hard links: a whole `node_modules` in a moment, and without its bytes. */
function linkTree(from: string, to: string): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkTree(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else linkSync(source, target);
  }
}

/** Every installed package below `folder` with its versions, nested ones included. */
function installedVersions(folder: string): Map<string, string[]> {
  const versions = new Map<string, string[]>();
  const visit = (modules: string, scope: string): void => {
    if (!existsSync(modules)) return;
    for (const name of readdirSync(modules)) {
      const path = join(modules, name);
      if (name.startsWith("@")) visit(path, `${name}/`);
      if (!existsSync(join(path, "package.json"))) continue;
      const { version } = readJson<Manifest>(join(path, "package.json"));
      versions.set(scope + name, [...(versions.get(scope + name) ?? []), version]);
      visit(join(path, "node_modules"), "");
    }
  };
  visit(join(folder, "node_modules"), "");
  return versions;
}

/** What every program has; nothing of a checkout's. */
const BARE_PATH = "/usr/bin:/bin";

/**
 * Whether a first use here would fetch a server through apt: a Debian whose usual folders hold none.
 * Elsewhere the test takes the other way to one, `LEMON_NATS_SERVER`.
 */
const fetches =
  existsSync("/etc/os-release") &&
  /^ID="?debian"?$/m.test(readFileSync("/etc/os-release", "utf8")) &&
  !(await findNatsServer({ PATH: BARE_PATH, LEMON_CACHE: "/nonexistent" })).found;

describe("the package that npm pack makes, installed globally", () => {
  let folder: string;
  let prefix: string;
  let lemon: (args: readonly string[], options?: RunOptions) => Promise<End>;
  const installed = (): string => join(prefix, "lib", "node_modules", "lemon");

  before(async function () {
    this.timeout(180_000);
    const env = { LEMON_CACHE: undefined, XDG_CACHE_HOME: undefined };
    // Hard links need the file system of the checkout; its cache folder is ignored by everything.
    mkdirSync(join(cacheFolder({})), { recursive: true });
    folder = mkdtempSync(join(cacheFolder({}), "package-test-"));
    prefix = realpathSync(mkdtempSync(join(tmpdir(), "lemon-prefix-")));
    const copy = join(folder, "checkout");
    const build = readJson<{ include: string[] }>(join(packageRoot(), "tsconfig.build.json"));
    const parts = new Set(build.include.map((path) => String(path.split("/")[0])));
    const files = [
      "README.md",
      "package.json",
      "package-lock.json",
      "tsconfig.json",
      "tsconfig.build.json",
      "LICENSE",
    ];
    for (const name of [...parts, "bin", "docs", "packaging", ...files]) {
      if (!existsSync(join(packageRoot(), name))) continue;
      cpSync(join(packageRoot(), name), join(copy, name), { recursive: true });
    }
    linkTree(join(packageRoot(), "node_modules"), join(copy, "node_modules"));
    const packed = await run("npm", ["pack", "--pack-destination", folder], { cwd: copy, env });
    expect(packed.code, packed.stdout + packed.stderr).to.equal(0);
    const archive = readdirSync(folder).find((name) => name.endsWith(".tgz"));
    const npm = ["install", "--global", "--prefix", prefix, "--ignore-scripts", "--no-audit"];
    const end = await run("npm", [...npm, join(folder, String(archive))], { cwd: folder, env });
    expect(end.code, end.stderr).to.equal(0);
    lemon = (args, options) => run(join(prefix, "bin", "lemon"), args, options);
  });
  after(() => {
    for (const made of [folder, prefix]) rmSync(made, { recursive: true, force: true });
  });

  it("holds the compiled program and nothing of the checkout's own", () => {
    const names = readdirSync(installed()).sort();
    expect(names.filter((name) => name !== "README.md")).to.deep.equal([
      "LICENSE",
      "bin",
      "dist",
      "docs",
      "node_modules",
      "package.json",
      "packaging",
    ]);
    const sources = readdirSync(installed(), { recursive: true })
      .map(String)
      .filter((path) => !path.includes("node_modules") && /(?<!\.d)\.ts$/.test(path));
    expect(sources).to.deep.equal([]);
  });

  describe("for a program that imports it", () => {
    let user: string;

    before(() => {
      user = join(folder, "user");
      mkdirSync(join(user, "node_modules"), { recursive: true });
      symlinkSync(installed(), join(user, "node_modules", "lemon"));
      writeFileSync(join(user, "package.json"), JSON.stringify({ type: "module" }));
    });

    /** `types`: the packages of types that the program has. */
    function compile(program: string, types: readonly string[]): Promise<End> {
      const modules = join(packageRoot(), "node_modules");
      const compilerOptions = {
        strict: true,
        module: "nodenext",
        target: "es2024",
        lib: ["es2024", "dom"],
        types,
        typeRoots: [join(modules, "@types")],
        outDir: "out",
      };
      writeFileSync(join(user, "tsconfig.json"), JSON.stringify({ compilerOptions }));
      writeFileSync(join(user, "program.ts"), program);
      const tsc = join(modules, "typescript", "bin", "tsc");
      return run(process.execPath, [tsc, "-p", user], { cwd: user });
    }

    async function output(): Promise<string> {
      const { stdout } = await run(process.execPath, [join(user, "out", "program.js")], {
        cwd: user,
      });
      return stdout;
    }

    it("is the typed SDK, which knows nothing of Node", async () => {
      const program = (type: string): string =>
        `import { type Client, connect } from "lemon";
        export async function read(client: Client, nodeId: string): Promise<${type}> {
          return (await client.call("node.process.get", { nodeId, processId: "p:1" })).exitCode;
        }
        console.log(typeof connect);`;
      const wrong = await compile(program("string"), []);
      expect(wrong.stdout).to.include("Type 'number | null' is not assignable to type 'string'");
      const right = await compile(program("number | null"), []);
      expect(right.code, right.stdout).to.equal(0);
      expect(await output()).to.equal("function\n");
    });

    it("is the SDK's socket for Node, which fits what the SDK asks of one", async () => {
      const program = (ca: string): string =>
        `import { connect } from "lemon";
        import { socketOpener } from "lemon/node";
        export const dial = (url: string) =>
          connect({ url, clientId: "p", openSocket: socketOpener({ ca: ${ca} }) });
        console.log(typeof socketOpener);`;
      const wrong = await compile(program("5"), ["node"]);
      expect(wrong.stdout).to.include("'number' is not assignable");
      const right = await compile(program('"PEM"'), ["node"]);
      expect(right.code, right.stdout).to.equal(0);
      expect(await output()).to.equal("function\n");
    });

    it("is the typed reconciler of a host, on Node", async () => {
      const program = (zone: string): string =>
        `import { Reconciler } from "lemon/reconciler";
        export const zoned = (brain: Reconciler) => brain.set("time/zone", ${zone});
        console.log(typeof Reconciler);`;
      const wrong = await compile(program("5"), ["node"]);
      expect(wrong.stdout).to.include("'number' is not assignable");
      const right = await compile(program('"Etc/UTC"'), ["node"]);
      expect(right.code, right.stdout).to.equal(0);
      expect(await output()).to.equal("function\n");
    });
  });

  it("brings each package below comedy in the version that our overrides demand, and no other", () => {
    const versions = installedVersions(installed());
    for (const [name, wanted] of Object.entries(manifest.overrides["comedy"] ?? {})) {
      const own = wanted.startsWith("$") ? manifest.devDependencies[wanted.slice(1)] : wanted;
      expect(versions.get(name), name).to.deep.equal([own]);
    }
    expect(versions.has("lodash")).to.equal(false);
  });

  it("brings a comedy that works with them", async () => {
    const script = `const system = require("comedy").createSystem({ log: { level: "silent" } });
      system.rootActor().then((root) => root.createChild({ double: (n) => 2 * n }))
        .then((child) => child.sendAndReceive("double", 21))
        .then((answer) => { console.log(answer); return system.destroy(); });`;
    const end = await run(process.execPath, ["-e", script], { cwd: installed() });
    expect(end.code, end.stderr).to.equal(0);
    expect(end.stdout).to.match(/^42$/m);
  });

  it("says its version with a Node.js of its own, wherever it is called", async () => {
    const end = await lemon(["version"], { cwd: tmpdir(), env: { PATH: "/usr/bin:/bin" } });
    expect(end.code, end.stderr).to.equal(0);
    expect(end.stdout).to.contain(manifest.version);
  });

  it("keeps a fetched nats-server in the user's cache folder, and finds it there", async () => {
    const path = writeServer(join(folder, "user", "lemon", "nats-server", "nats-server"), "2.15.1");
    const module = join(installed(), "dist", "scripts", "nats-server.mjs");
    const script = `const { findNatsServer } = await import(${JSON.stringify(module)});
      console.log(JSON.stringify(await findNatsServer(process.env, [])));`;
    const end = await run(process.execPath, ["--input-type=module", "-e", script], {
      env: { PATH: "/nowhere", XDG_CACHE_HOME: join(folder, "user"), LEMON_NATS_SERVER: undefined },
    });
    expect(JSON.parse(end.stdout)).to.deep.equal({ found: true, path, version: "2.15.1" });
  });

  describe("on a machine that joins", () => {
    const running: Run[] = [];
    after(async () => {
      for (const one of running) {
        one.child.kill("SIGTERM");
        await one.end;
      }
    });

    /** A role of the installed program, in a folder of its own, once it has said `event`. */
    async function serve(
      event: "ready" | "joined",
      name: string,
      args: readonly string[],
      env: Readonly<Record<string, string | undefined>>,
    ) {
      const own = { HOME: join(folder, name), LEMON_HOME: join(folder, name, "state") };
      const environment = { PATH: BARE_PATH, LEMON_CACHE: undefined, ...own, ...env };
      mkdirSync(own.HOME, { recursive: true });
      const one = start(join(prefix, "bin", "lemon"), [...args, "--json"], {
        cwd: own.HOME,
        env: environment,
      });
      running.push(one);
      await one.said(`"event":"${event}"`);
      const line = one
        .heard()
        .split("\n")
        .find((text) => text.includes(`"event":"${event}"`));
      const said: Readonly<Record<string, unknown>> = JSON.parse(line ?? "");
      const end = async (): Promise<End> => {
        one.child.kill("SIGTERM");
        return await one.end;
      };
      return { said, end, environment };
    }

    it(`joins with a nats-server ${fetches ? "fetched on first use, through Debian's tools" : "named by LEMON_NATS_SERVER"}, and runs a process`, async () => {
      const server = String(process.env["LEMON_NATS_SERVER"]);
      const controller = await serve("ready", "controller", ["start", "--port", "0"], {
        LEMON_NATS_SERVER: server,
      });
      const token = readFileSync(String(controller.said["tokenFile"]), "utf8").trim();
      // They stand for the mirror: the one brings a package, the other unpacks a server from it.
      const tools = join(folder, "debian-tools");
      const unpack = `[ "$1" = -x ] && mkdir -p "$3/usr/sbin" && cp "${server}" "$3/usr/sbin/nats-server"`;
      writeProgram(join(tools, "apt-get"), `case "$*" in *download*) : > nats-server.deb ;; esac`);
      writeProgram(join(tools, "dpkg-deb"), unpack);
      const words = [
        "node",
        "join",
        "--name",
        "far",
        "--controller",
        String(controller.said["url"]),
      ];
      const first = await serve("joined", "worker", words, {
        LEMON_NODE_OPERATOR_TOKEN: token,
        LEMON_NATS_SERVER: fetches ? undefined : server,
        PATH: `${tools}:${BARE_PATH}`,
        XDG_CACHE_HOME: join(folder, "worker", "cache"),
      });
      const ran = await lemon(["process", "run", "far", "--", "sh", "-c", "echo far; exit 3"], {
        env: controller.environment,
      });
      expect(ran).to.include({ code: 3, stdout: "far\n" });
      const { code, stderr } = await first.end();
      expect(code, stderr).to.equal(0);
      const kept = join(folder, "worker", "cache", "lemon", "nats-server", "nats-server");
      expect(/fetching nats-server from Debian/.test(stderr)).to.equal(fetches);
      expect(existsSync(kept)).to.equal(fetches);

      // Without the tools, and without a word of a fetch: what it has is enough.
      const again = await serve("joined", "worker", words, {
        LEMON_NATS_SERVER: fetches ? undefined : server,
        XDG_CACHE_HOME: join(folder, "worker", "cache"),
      });
      expect(again.said).to.include({ name: "far", generation: 2 });
      const get = await lemon(["process", "run", "far", "--", "echo", "again"], {
        env: controller.environment,
      });
      expect(get).to.include({ code: 0, stdout: "again\n" });
      const ended = await again.end();
      expect(ended.code).to.equal(0);
      expect(ended.stderr).to.not.include("fetching");
      expect((await controller.end()).code).to.equal(0);
    });
  });
});
