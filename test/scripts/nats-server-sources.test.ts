import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { fetchFromApt, fetchFromRelease } from "../../scripts/nats-server-sources.mjs";
import { errorOf } from "./error-of.ts";
import { writeServer } from "./fake-nats-server.ts";
import { useTemporaryFolder } from "./temporary-folder.ts";

const silent = (): void => {};

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
