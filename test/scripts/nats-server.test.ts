import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import {
  ensureNatsServer,
  findNatsServer,
  isAtLeastFloor,
  NatsServerError,
} from "../../scripts/nats-server.mjs";
import { errorOf } from "./error-of.ts";
import { writeProgram, writeServer } from "./fake-nats-server.ts";
import { useTemporaryFolder } from "./temporary-folder.ts";

const silent = (): void => {};

describe("the floor of the nats-server's version", () => {
  for (const version of [
    "2.12.7",
    "2.12.8",
    "2.12.8-RC.1",
    "2.13.0",
    "2.15.1",
    "2.100.0",
    "3.0.0",
  ]) {
    it(`accepts ${version}`, () => expect(isAtLeastFloor(version)).to.equal(true));
  }
  for (const version of ["2.12.6", "2.12.7-RC.1", "2.9.10", "2.10.27", "1.99.99", "0.0.0"]) {
    it(`refuses ${version}`, () => expect(isAtLeastFloor(version)).to.equal(false));
  }
});

describe("looking for a nats-server", () => {
  const folder = useTemporaryFolder();
  const find = (env: Record<string, string>) =>
    findNatsServer({ LEMON_CACHE: join(folder(), "cache"), PATH: "", ...env }, []);

  it("finds one on PATH and says its version", async () => {
    const path = writeServer(join(folder(), "bin", "nats-server"), "2.15.1");
    expect(await find({ PATH: `/nowhere:${join(folder(), "bin")}` })).to.deep.equal({
      found: true,
      path,
      version: "2.15.1",
    });
  });

  it("passes over one that is too old for a good one later on PATH", async () => {
    writeServer(join(folder(), "old", "nats-server"), "2.9.10");
    const path = writeServer(join(folder(), "new", "nats-server"), "2.12.7");
    const lookup = await find({ PATH: `${join(folder(), "old")}:${join(folder(), "new")}` });
    expect(lookup).to.deep.equal({ found: true, path, version: "2.12.7" });
  });

  it("passes over one that is too old for the fetched one", async () => {
    writeServer(join(folder(), "old", "nats-server"), "2.9.10");
    const path = writeServer(join(folder(), "cache", "nats-server", "nats-server"), "2.15.1");
    const lookup = await find({ PATH: join(folder(), "old") });
    expect(lookup).to.deep.equal({ found: true, path, version: "2.15.1" });
  });

  it("says which version lies where when the only one is too old", async () => {
    const path = writeServer(join(folder(), "old", "nats-server"), "2.9.10");
    expect(await find({ PATH: join(folder(), "old") })).to.deep.equal({
      found: false,
      reason: "too_old",
      message: `nats-server 2.9.10 at ${path} is too old, 2.12.7 or newer is needed`,
    });
  });

  it("says that there is none", async () => {
    expect(await find({ PATH: "/nowhere" })).to.deep.equal({
      found: false,
      reason: "missing",
      message: "no nats-server was found",
    });
  });

  it("finds one in a usual folder that PATH does not name", async () => {
    const path = writeServer(join(folder(), "sbin", "nats-server"), "2.15.1");
    const env = { LEMON_CACHE: join(folder(), "cache"), PATH: "" };
    expect(await findNatsServer(env, [join(folder(), "sbin")])).to.include({ found: true, path });
  });

  it("runs nothing from a relative folder on PATH", async () => {
    const here = process.cwd();
    writeServer(join(folder(), "bin", "nats-server"), "2.15.1");
    process.chdir(folder());
    try {
      expect(await find({ PATH: "bin:." })).to.include({ found: false, reason: "missing" });
    } finally {
      process.chdir(here);
    }
  });

  it("takes a server that LEMON_NATS_SERVER reaches through a link", async () => {
    const server = writeServer(join(folder(), "server"), "2.15.1");
    const path = join(folder(), "link");
    symlinkSync(server, path);
    expect(await find({ LEMON_NATS_SERVER: path })).to.include({ found: true, path });
  });

  const refusals: [string, (path: string) => void, RegExp][] = [
    ["a missing file", () => {}, /^LEMON_NATS_SERVER: \S+ does not exist$/],
    ["a folder", (path) => mkdirSync(path), /^LEMON_NATS_SERVER: \S+ is not a file$/],
    [
      "a file that may not be executed",
      (path) => chmodSync(writeServer(path, "2.15.1"), 0o644),
      /^LEMON_NATS_SERVER: \S+ may not be executed$/,
    ],
    [
      "an old server",
      (path) => writeServer(path, "2.9.10"),
      /^LEMON_NATS_SERVER: nats-server 2\.9\.10 at \S+ is too old, 2\.12\.7 or newer is needed$/,
    ],
    [
      "another program",
      (path) => writeProgram(path, "echo hello"),
      /^LEMON_NATS_SERVER: \S+ does not run as a nats-server$/,
    ],
    [
      "a program whose interpreter is missing",
      (path) => writeFileSync(path, "#!/nowhere/sh\n", { mode: 0o755 }),
      /^LEMON_NATS_SERVER: \S+ does not run as a nats-server \(ENOENT\)$/,
    ],
  ];
  for (const [name, make, message] of refusals) {
    it(`refuses LEMON_NATS_SERVER naming ${name}, though a good one is on PATH`, async () => {
      writeServer(join(folder(), "bin", "nats-server"), "2.15.1");
      const path = join(folder(), "chosen");
      make(path);
      const lookup = await find({ LEMON_NATS_SERVER: path, PATH: join(folder(), "bin") });
      expect(lookup.found).to.equal(false);
      expect(lookup).to.have.property("message").that.matches(message);
    });
  }

  it("refuses a relative LEMON_NATS_SERVER", async () => {
    expect(await find({ LEMON_NATS_SERVER: "bin/nats-server" })).to.include({
      reason: "unusable",
      message: "LEMON_NATS_SERVER is not an absolute path: bin/nats-server",
    });
  });
});

describe("making sure of a nats-server", () => {
  const folder = useTemporaryFolder();
  const env = (more: Record<string, string> = {}) => ({
    LEMON_CACHE: join(folder(), "cache"),
    PATH: "",
    ...more,
  });
  const source = (version: string) => async (scratch: string) =>
    writeServer(join(scratch, "unpacked", "nats-server"), version);

  it("fetches nothing when one is found", async () => {
    const path = writeServer(join(folder(), "bin", "nats-server"), "2.15.1");
    const sources = [() => Promise.reject(new Error("fetched"))];
    const options = {
      say: silent,
      env: env({ PATH: join(folder(), "bin") }),
      usualFolders: [],
      sources,
    };
    expect(await ensureNatsServer(options)).to.include({ path, version: "2.15.1" });
    expect(existsSync(join(folder(), "cache"))).to.equal(false);
  });

  it("fetches nothing when LEMON_NATS_SERVER names a bad one, and says so", async () => {
    const sources = [source("2.15.1")];
    const chosen = { env: env({ LEMON_NATS_SERVER: "/nowhere" }), usualFolders: [], sources };
    const error = await errorOf(ensureNatsServer({ say: silent, ...chosen }));
    expect(error).to.be.instanceOf(NatsServerError);
    expect(error.message).to.equal("LEMON_NATS_SERVER: /nowhere does not exist");
    expect(existsSync(join(folder(), "cache"))).to.equal(false);
  });

  it("keeps what the second source gives when the first fails, and leaves nothing else", async () => {
    const sources = [() => Promise.reject(new Error("no mirror")), source("2.15.1")];
    const server = await ensureNatsServer({ say: silent, env: env(), usualFolders: [], sources });
    const path = join(folder(), "cache", "nats-server", "nats-server");
    expect(server).to.deep.equal({ path, version: "2.15.1" });
    expect(await findNatsServer(env(), [])).to.deep.equal({ found: true, ...server });
    expect(readdirSync(join(folder(), "cache")).sort()).to.deep.equal(["nats-server", "tmp"]);
    expect(readdirSync(join(folder(), "cache", "tmp"))).to.deep.equal([]);
  });

  it("does not keep a fetched server that is too old, and says each reason on one line", async () => {
    const sources = [source("2.10.27"), () => Promise.reject(new Error("HTTP 404"))];
    const options = { say: silent, env: env(), usualFolders: [], sources };
    const { message } = await errorOf(ensureNatsServer(options));
    expect(message).to.match(
      /^no nats-server was found; nats-server 2\.10\.27 at \S+ is too old, 2\.12\.7 or newer is needed; HTTP 404; install nats-server 2\.12\.7 or newer, or set LEMON_NATS_SERVER to its path$/,
    );
    expect(existsSync(join(folder(), "cache", "nats-server", "nats-server"))).to.equal(false);
  });

  it("says in one line that the cache folder cannot be made", async () => {
    writeFileSync(join(folder(), "cache"), "a file in its place");
    const options = { say: silent, env: env(), usualFolders: [], sources: [source("2.15.1")] };
    const { message } = await errorOf(ensureNatsServer(options));
    expect(message).to.match(/^cannot fetch nats-server into \S+: \w+: .*$/);
  });
});
