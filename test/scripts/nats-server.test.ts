import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import {
  ensureNatsServer,
  findNatsServer,
  isAtLeastFloor,
  NatsServerError,
} from "../../scripts/nats-server.mjs";
import { fetchFromApt, fetchFromRelease } from "../../scripts/nats-server-sources.mjs";
import { writeProgram, writeServer } from "./fake-nats-server.ts";
import { useTemporaryFolder } from "./temporary-folder.ts";

const silent = (): void => {};

async function errorOf(work: Promise<unknown>): Promise<Error> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error("expected a failure");
}

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

describe("the official release archive", () => {
  const folder = useTemporaryFolder();
  const platform = `${process.platform}-${process.arch}`;
  let server: Server;
  let url: string;
  let archive: Buffer;

  beforeEach(async () => {
    writeServer(join(folder(), "made", "release", "nats-server"), "2.15.0");
    const packed = join(folder(), "release.tar.gz");
    execFileSync("tar", ["-czf", packed, "-C", join(folder(), "made"), "release"]);
    archive = readFileSync(packed);
    server = createServer((request, response) => {
      if (request.url === "/release.tar.gz") response.end(archive);
      else response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterEach(() => new Promise((resolve) => server.close(resolve)));

  const fetched = (name: string, sha256: string) =>
    fetchFromRelease(folder(), silent, { url, archives: new Map([[platform, { name, sha256 }]]) });

  it("is unpacked when its checksum is the pinned one", async () => {
    const path = await fetched("release", createHash("sha256").update(archive).digest("hex"));
    expect(execFileSync(path, ["--version"], { encoding: "utf8" })).to.equal(
      "nats-server: v2.15.0\n",
    );
  });

  it("is refused, and not unpacked, when one byte differs", async () => {
    const pinned = createHash("sha256").update(archive).digest("hex");
    archive.writeUInt8(archive.readUInt8(20) ^ 1, 20);
    const { message } = await errorOf(fetched("release", pinned));
    expect(message).to.equal(
      `${url}/release.tar.gz: the checksum is not the pinned one; nothing of it was used`,
    );
    expect(existsSync(join(folder(), "release"))).to.equal(false);
  });

  it("is an error of one line when it is not there", async () => {
    const { message } = await errorOf(fetched("other", "0"));
    expect(message).to.equal(`${url}/other.tar.gz: HTTP 404`);
  });

  it("is an error of one line when the server cannot be reached", async () => {
    await new Promise((resolve) => server.close(resolve));
    const { message } = await errorOf(fetched("release", "0"));
    expect(message).to.match(/^http:\S+: .*ECONNREFUSED.*$/);
  });

  it("is an error of one line on a platform that has none", async () => {
    const { message } = await errorOf(
      fetchFromRelease(folder(), silent, { url, archives: new Map() }),
    );
    expect(message).to.equal(`no release archive is known for ${platform}`);
  });
});

const hasApt = existsSync("/usr/bin/apt-get") && existsSync("/usr/bin/dpkg-deb");
if (hasApt) {
  describe("Debian's archive", () => {
    const folder = useTemporaryFolder();

    /** A real archive in a folder: one package, and for each suite its index and Release file. */
    function makeArchive(version: string, suites: readonly string[]): string {
      const archive = join(folder(), "archive");
      const made = join(folder(), "made");
      const architecture = execFileSync("dpkg", ["--print-architecture"], {
        encoding: "utf8",
      }).trim();
      const control = `Package: nats-server\nVersion: ${version}-1\nArchitecture: ${architecture}\nMaintainer: Test <test@localhost>\nDescription: test\n`;
      writeServer(join(made, "usr", "sbin", "nats-server"), version);
      mkdirSync(join(made, "DEBIAN"));
      writeFileSync(join(made, "DEBIAN", "control"), control);
      mkdirSync(archive);
      execFileSync("dpkg-deb", [
        "--root-owner-group",
        "--build",
        made,
        join(archive, "server.deb"),
      ]);
      const { size, sha256 } = fileFacts(join(archive, "server.deb"));
      for (const suite of suites) {
        const index = `main/binary-${architecture}/Packages`;
        const path = join(archive, "dists", suite, index);
        mkdirSync(join(path, ".."), { recursive: true });
        writeFileSync(path, `${control}Filename: server.deb\nSize: ${size}\nSHA256: ${sha256}\n`);
        const facts = fileFacts(path);
        writeFileSync(
          join(archive, "dists", suite, "Release"),
          `Suite: ${suite}\nCodename: ${suite}\nComponents: main\nArchitectures: ${architecture}\nDate: Sun, 01 Nov 2026 00:00:00 UTC\nSHA256:\n ${facts.sha256} ${facts.size} ${index}\n`,
        );
      }
      return archive;
    }

    function fileFacts(path: string): { size: number; sha256: string } {
      const bytes = readFileSync(path);
      return { size: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
    }

    function machine(sources: Record<string, string>, id = "debian") {
      const apt = join(folder(), "etc");
      mkdirSync(join(apt, "sources.list.d"), { recursive: true });
      for (const [name, text] of Object.entries(sources)) writeFileSync(join(apt, name), text);
      const osRelease = join(folder(), "os-release");
      writeFileSync(osRelease, `ID=${id}\nVERSION_CODENAME=bookworm\n`);
      return { osRelease, apt };
    }

    const fetched = async (where: { osRelease: string; apt: string }) => {
      const scratch = join(folder(), "scratch");
      mkdirSync(scratch);
      const said: string[] = [];
      const path = await fetchFromApt(scratch, (line) => said.push(line), where);
      return { said, version: execFileSync(path, ["--version"], { encoding: "utf8" }).trim() };
    };

    it("gives a server by the machine's mirror in a one-line source", async () => {
      const archive = makeArchive("2.15.1", ["forky"]);
      const source = `# the mirror\ndeb [trusted=yes] file:${archive} bookworm main contrib # ours\n`;
      expect(await fetched(machine({ "sources.list": source }))).to.deep.equal({
        said: ["fetching nats-server from Debian forky"],
        version: "nats-server: v2.15.1",
      });
    });

    it("gives a server by the machine's mirror in a deb822 source", async () => {
      const archive = makeArchive("2.15.1", ["forky"]);
      const source = `Types: deb\n# URIs: file:/nowhere\nURIs: file:${archive}\nSuites: bookworm bookworm-updates\nComponents: main\nTrusted: yes\n`;
      const where = machine({ "sources.list.d/debian.sources": source });
      expect(await fetched(where)).to.have.property("version", "nats-server: v2.15.1");
    });

    it("takes the next suite when the mirror lacks the first", async () => {
      const archive = makeArchive("2.15.1", ["sid"]);
      const source = `deb [trusted=yes] file:${archive} bookworm main\n`;
      expect(await fetched(machine({ "sources.list": source }))).to.deep.equal({
        said: ["fetching nats-server from Debian forky", "fetching nats-server from Debian sid"],
        version: "nats-server: v2.15.1",
      });
    });

    it("refuses a mirror that no key vouches for", async () => {
      const archive = makeArchive("2.15.1", ["forky", "sid"]);
      const source = `deb file:${archive} bookworm main\n`;
      const { message } = await errorOf(fetched(machine({ "sources.list": source })));
      expect(message).to.match(/^Debian sid: E: .*is not signed/);
    });

    it("asks no security, third-party, switched-off or source archive", async () => {
      const sources = [
        "deb http://127.0.0.1:1/ bookworm-security main",
        "deb http://127.0.0.1:1/ bookworm-pgdg main",
        "deb http://127.0.0.1:1/ bookworm stable",
        "deb-src http://127.0.0.1:1/ bookworm main",
        "# deb http://127.0.0.1:1/ bookworm main",
      ];
      const off =
        "Enabled: no\nTypes: deb\nURIs: http://127.0.0.1:1/\nSuites: bookworm\nComponents: main\n";
      const where = machine({
        "sources.list": sources.join("\n"),
        "sources.list.d/off.sources": off,
      });
      const { message } = await errorOf(fetched(where));
      expect(message).to.equal("this is not a Debian machine with a mirror of its own");
    });

    it("is not asked on another system", async () => {
      const source = "deb http://127.0.0.1:1/ bookworm main\n";
      const { message } = await errorOf(fetched(machine({ "sources.list": source }, "ubuntu")));
      expect(message).to.equal("this is not a Debian machine with a mirror of its own");
    });

    it("runs none of the machine's own apt hooks", async () => {
      const archive = makeArchive("2.15.1", ["forky"]);
      const marker = join(folder(), "hooked");
      const hooks = ["Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"].map(
        (name) => `APT::Update::${name} { "touch ${marker}"; };\n`,
      );
      writeFileSync(join(folder(), "apt.conf"), hooks.join(""));
      process.env["APT_CONFIG"] = join(folder(), "apt.conf");
      try {
        await fetched(
          machine({ "sources.list": `deb [trusted=yes] file:${archive} bookworm main\n` }),
        );
      } finally {
        delete process.env["APT_CONFIG"];
      }
      expect(existsSync(marker)).to.equal(false);
    });
  });
}
