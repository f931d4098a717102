import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { packageRoot } from "../../scripts/cache-folder.mjs";
import { writeServer } from "./fake-nats-server.ts";
import { type FixturePackage, NpmRegistry } from "./npm-registry.ts";
import { type End, type Environment, killWhole, type Run, run, start } from "./processes.ts";
import { useTemporaryFolder } from "./temporary-folder.ts";

/** Makes `scripts/setup.mjs` believe that it runs on an older Node.js. */
const OLD_NODE = `data:text/javascript,Object.defineProperty(process,"version",{value:"v20.1.0"})`;

describe("the set-up of a checkout", () => {
  const folder = useTemporaryFolder();
  let registry: NpmRegistry;
  let checkout: string;

  beforeEach(async () => {
    registry = new NpmRegistry();
    await registry.listen();
    checkout = join(folder(), "checkout");
    cpSync(join(packageRoot(), "scripts"), join(checkout, "scripts"), { recursive: true });
    writeFileSync(join(checkout, "tsconfig.json"), "{}");
    writeServer(join(folder(), "bin", "nats-server"), "2.15.1");
  });
  afterEach(() => registry.close());

  /** Makes the checkout want this package and nothing else. */
  function want(wanted: FixturePackage, kind = "dependencies"): void {
    const { name, version, integrity, bin } = wanted;
    const own = { name: "checkout", version: "1.0.0", [kind]: { [name]: version } };
    const locked = { version, integrity, bin, dev: kind === "devDependencies" };
    const packages = { "": own, [`node_modules/${name}`]: locked };
    writeFileSync(join(checkout, "package.json"), JSON.stringify(own));
    writeFileSync(
      join(checkout, "package-lock.json"),
      JSON.stringify({ name: "checkout", lockfileVersion: 3, requires: true, packages }),
    );
  }

  const working = (
    version: string,
    options?: { readonly name?: string; readonly isCommand?: boolean },
  ): FixturePackage =>
    registry.publish(folder(), version, `exec "${process.execPath}" "$@"`, options);

  const begin = (env: Environment = {}, nodeOptions: readonly string[] = []): Run => {
    const begun = start(
      process.execPath,
      [...nodeOptions, join(checkout, "scripts", "setup.mjs")],
      {
        cwd: folder(),
        env: {
          PATH: `${join(folder(), "bin")}:${process.env["PATH"]}`,
          LEMON_NATS_SERVER: undefined,
          LEMON_CACHE: undefined,
          npm_config_registry: registry.url,
          npm_config_cache: join(folder(), "npm-cache"),
          npm_config_fetch_retries: "0",
          ...env,
        },
      },
    );
    begun.child.stdin.end();
    return begun;
  };
  const setUp = (env?: Environment, nodeOptions?: readonly string[]): Promise<End> =>
    begin(env, nodeOptions).end;

  const installed = (): string => {
    const path = join(checkout, "node_modules", "fixture-node", "package.json");
    return String(JSON.parse(readFileSync(path, "utf8")).version);
  };
  const scratch = (): string[] => readdirSync(join(checkout, ".cache", "tmp"));

  it("brings the packages and a Node.js, says so on stderr, and leaves nothing half-made", async () => {
    want(working("1.0.0"));
    const end = await setUp();
    expect(end).to.deep.include({ code: 0, stdout: "" });
    expect(end.stderr).to.equal(
      `set-up: installing the npm packages of package-lock.json\nset-up: Node.js ${process.versions.node} is in node_modules\n`,
    );
    expect(installed()).to.equal("1.0.0");
    const node = await run(join(checkout, "node_modules", ".bin", "node"), ["-p", "6 * 7"]);
    expect(node.stdout).to.equal("42\n");
    expect(readdirSync(checkout).sort()).to.deep.equal([
      ".cache",
      "node_modules",
      "package-lock.json",
      "package.json",
      "scripts",
      "tsconfig.json",
    ]);
    expect(scratch()).to.deep.equal([]);
  });

  it("does nothing and says nothing the second time", async () => {
    want(working("1.0.0"));
    await setUp();
    const before = statSync(join(checkout, "node_modules"));
    await registry.close();
    expect(await setUp()).to.deep.equal({ code: 0, signal: null, stdout: "", stderr: "" });
    const after = statSync(join(checkout, "node_modules"));
    expect([after.ino, after.ctimeMs]).to.deep.equal([before.ino, before.ctimeMs]);
    expect(registry.downloads).to.equal(1);
  });

  it("brings the packages again when the lock file changed", async () => {
    want(working("1.0.0"));
    await setUp();
    want(working("1.1.0"));
    expect(await setUp()).to.have.property("code", 0);
    expect(installed()).to.equal("1.1.0");
    expect(scratch()).to.deep.equal([]);
  });

  it("brings the packages again when they were made for another platform", async () => {
    want(working("1.0.0"));
    await setUp();
    const stamp = join(checkout, "node_modules", ".lemon-setup.json");
    const made = JSON.parse(readFileSync(stamp, "utf8"));
    writeFileSync(stamp, JSON.stringify({ ...made, platform: "plan9-mips" }));
    expect((await setUp()).stderr).to.contain("installing the npm packages");
    expect(JSON.parse(readFileSync(stamp, "utf8"))).to.deep.equal(made);
  });

  it("replaces a tree that it did not make", async () => {
    want(working("1.0.0"));
    mkdirSync(join(checkout, "node_modules", "stray"), { recursive: true });
    expect(await setUp()).to.have.property("code", 0);
    expect(existsSync(join(checkout, "node_modules", "stray"))).to.equal(false);
  });

  it("brings the development packages whatever the user's npm settings leave out", async () => {
    want(working("1.0.0"), "devDependencies");
    const end = await setUp({ NODE_ENV: "production", npm_config_omit: "dev" });
    expect(end).to.have.property("code", 0);
    expect(installed()).to.equal("1.0.0");
  });

  it("makes the tree in the checkout itself, wherever LEMON_CACHE points", async () => {
    want(working("1.0.0"));
    const elsewhere = join(folder(), "elsewhere");
    expect(await setUp({ LEMON_CACHE: elsewhere })).to.have.property("code", 0);
    expect(installed()).to.equal("1.0.0");
    expect(existsSync(elsewhere)).to.equal(false);
  });

  it("keeps npm's cache in the checkout, and leaves the user's home as it was", async () => {
    want(working("1.0.0"));
    const home = join(folder(), "home");
    mkdirSync(home);
    const end = await setUp({ HOME: home, npm_config_cache: join(home, ".npm") });
    expect(end).to.have.property("code", 0);
    expect(readdirSync(home)).to.deep.equal([]);
    expect(readdirSync(join(checkout, ".cache")).sort()).to.deep.equal(["npm", "tmp"]);
  });

  it("says in one line that there is no lock file", async () => {
    writeFileSync(join(checkout, "package.json"), "{}");
    const end = await setUp();
    expect(end).to.deep.include({ code: 1, stdout: "" });
    expect(end.stderr).to.match(/^set-up failed: ENOENT: .*package-lock\.json'\n$/);
  });

  it("keeps the tree that is there when the new one cannot be fetched, and says why", async () => {
    want(working("1.0.0"));
    await setUp();
    want({ ...working("1.1.0"), integrity: "sha512-AAAA" });
    const end = await setUp();
    expect(end).to.deep.include({ code: 1, stdout: "" });
    expect(end.stderr.trim().split("\n").at(-1)).to.match(/^set-up failed: npm ci: \S.*$/);
    expect(installed()).to.equal("1.0.0");
    expect(scratch()).to.deep.equal([]);
  });

  it("says in one line that npm is not there", async () => {
    want(working("1.0.0"));
    const end = await setUp({ PATH: "/nowhere", npm_execpath: undefined });
    expect(end.code).to.equal(1);
    expect(end.stderr).to.match(/\nset-up failed: npm was not found; install it\n$/);
  });

  for (const prefix of ["node", "node-bin"]) {
    it(`links the Node.js of the package ${prefix}-* where npm did not`, async () => {
      const name = `${prefix}-${process.platform}-${process.arch}`;
      want(working("1.0.0", { name, isCommand: false }));
      expect(await setUp()).to.have.property("code", 0);
      const node = await run(join(checkout, "node_modules", ".bin", "node"), ["-p", "6 * 7"]);
      expect(node.stdout).to.equal("42\n");
      expect(await setUp()).to.deep.include({ code: 0, stderr: "" });
    });
  }

  it("runs with the system's Node.js when the packaged one does not run here", async () => {
    want(registry.publish(folder(), "1.0.0", "exit 127"));
    expect(await setUp()).to.have.property("code", 0);
    expect(existsSync(join(checkout, "node_modules", ".bin", "node"))).to.equal(false);
    expect(await setUp()).to.deep.include({ code: 0, stderr: "" });
  });

  it("refuses when neither the packaged nor the system's Node.js is new enough", async () => {
    want(registry.publish(folder(), "1.0.0", "echo v23.9.9"));
    const end = await setUp({}, ["--import", OLD_NODE]);
    expect(end.code).to.equal(1);
    expect(end.stderr).to.match(/\nset-up failed: no Node\.js 24 is packaged for .*\n$/);
    expect(existsSync(join(checkout, "node_modules"))).to.equal(false);
  });

  it("refuses a bad LEMON_NATS_SERVER in one line, every time", async () => {
    want(working("1.0.0"));
    await setUp();
    const env = { LEMON_NATS_SERVER: writeServer(join(folder(), "old"), "2.9.10") };
    for (const attempt of [1, 2]) {
      const end = await setUp(env);
      expect(end, `attempt ${attempt}`).to.deep.include({ code: 1, stdout: "" });
      expect(end.stderr).to.match(
        /^set-up failed: LEMON_NATS_SERVER: nats-server 2\.9\.10 at .*\n$/,
      );
    }
  });

  it("is healed by the next run after a kill in the middle of a download", async () => {
    want(working("1.0.0"));
    const asked = registry.hold();
    const first = begin();
    await asked;
    await killWhole(first);
    expect(existsSync(join(checkout, "node_modules"))).to.equal(false);
    expect(scratch()).to.have.length(1);
    expect(await setUp()).to.have.property("code", 0);
    expect(installed()).to.equal("1.0.0");
    expect(scratch()).to.deep.equal([]);
    expect(readdirSync(join(checkout, ".cache")).sort()).to.deep.equal(["npm", "tmp"]);
  });

  it("is healed by the next run after a kill that its npm outlived", async () => {
    want(working("1.0.0"));
    const asked = registry.hold();
    const first = begin();
    await asked;
    first.child.kill("SIGKILL");
    await first.end;
    expect(await setUp()).to.have.property("code", 0);
    await killWhole(first);
    expect(installed()).to.equal("1.0.0");
    expect(await setUp()).to.deep.include({ code: 0, stderr: "" });
    expect(scratch()).to.deep.equal([]);
  });

  it("is healed by the next run after a kill when the new tree was about to be used", async () => {
    want(working("1.0.0"));
    await setUp();
    want(working("1.1.0"));
    const second = begin();
    await second.said("is in node_modules");
    await killWhole(second);
    expect(await setUp()).to.have.property("code", 0);
    expect(installed()).to.equal("1.1.0");
    expect(scratch()).to.deep.equal([]);
    expect(await setUp()).to.deep.include({ code: 0, stderr: "" });
  });

  it("is healed by the next run after a kill between the old tree and the new one", async () => {
    want(working("1.0.0"));
    const preload = `data:text/javascript,import fs from "node:fs";import {syncBuiltinESMExports} from "node:module";const {renameSync}=fs;fs.renameSync=(from,to)=>{if(to.endsWith("node_modules"))process.kill(process.pid,"SIGKILL");renameSync(from,to)};syncBuiltinESMExports()`;
    await setUp();
    want(working("1.1.0"));
    expect(await setUp({}, ["--import", preload])).to.have.property("signal", "SIGKILL");
    expect(existsSync(join(checkout, "node_modules"))).to.equal(false);
    expect(await setUp()).to.have.property("code", 0);
    expect(installed()).to.equal("1.1.0");
    expect(scratch()).to.deep.equal([]);
  });

  it("takes turns with another one: the packages are fetched once", async () => {
    want(working("1.0.0"));
    const asked = registry.hold();
    const first = begin();
    await asked;
    const second = begin();
    await second.said(`waiting for process ${first.child.pid}, which does the same (npm-packages)`);
    await killWhole(first);
    expect(await second.end).to.have.property("code", 0);
    const ends = await Promise.all([setUp(), setUp(), setUp()]);
    expect(ends.map(({ code, stderr }) => [code, stderr])).to.deep.equal([
      [0, ""],
      [0, ""],
      [0, ""],
    ]);
    expect(registry.downloads).to.equal(2);
  });

  it("brings one and the same tree when several begin at once", async () => {
    want(working("1.0.0"));
    const ends = await Promise.all([setUp(), setUp(), setUp()]);
    expect(ends.map(({ code }) => code)).to.deep.equal([0, 0, 0]);
    expect(ends.filter(({ stderr }) => stderr.includes("installing"))).to.have.length(1);
    expect(registry.downloads).to.equal(1);
    expect(installed()).to.equal("1.0.0");
    expect(scratch()).to.deep.equal([]);
  });
});
