/**
 * Owns the two places a nats-server is fetched from. Both leave one unpacked executable in the
 * scratch folder they are given, whose version the caller then checks; both throw one plain line.
 * Dependency-free; runs on Node 18.
 *
 * - Debian: a private apt state (lists, cache and sources of its own) reads the machine's own mirror
 *   with the machine's own keys, so that neither the system's sources nor its caches are touched and
 *   no root is needed. The suites move on, so no version is pinned.
 * - The official release archive, pinned by the SHA-256 that its publisher gives.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";

/** @typedef {import("./cache-folder.mjs").Say} Say */

/** Debian suites that carry a new enough server, the steadier one first. */
const SUITES = ["forky", "sid"];
/** Suites under which a machine's own mirror of Debian may be listed, beside its code name. */
const DEBIAN_NAMES = new Set(["stable", "oldstable", "testing", "unstable", "sid"]);
const APT_TIMEOUT_MS = 180_000;
const ARCHIVE_TIMEOUT_MS = 300_000;

/** The SHA256SUMS of https://github.com/nats-io/nats-server/releases/tag/v2.15.0 */
const RELEASE = {
  url: "https://github.com/nats-io/nats-server/releases/download/v2.15.0",
  archives: new Map([
    [
      "linux-x64",
      {
        name: "nats-server-v2.15.0-linux-amd64",
        sha256: "5d2c51caca950333aba84911df7d377f826f3a59ec36061c6539105084f65c92",
      },
    ],
    [
      "linux-arm64",
      {
        name: "nats-server-v2.15.0-linux-arm64",
        sha256: "cdc208f5a3f42963a52b6ab06ef65626bb870315dc936e26ba571780c6351112",
      },
    ],
    [
      "darwin-x64",
      {
        name: "nats-server-v2.15.0-darwin-amd64",
        sha256: "5bd8b59ca5bf93fab3da2c5843cf564cd6e2e291e22ae3b861746e7ebe259b95",
      },
    ],
    [
      "darwin-arm64",
      {
        name: "nats-server-v2.15.0-darwin-arm64",
        sha256: "e1c4e22d70bd44abfa0bcb3c16f7cf0c66f648c2e728c58924e8a1ce88913cc8",
      },
    ],
  ]),
};

const execute = promisify(execFile);

/**
 * @param {string} scratch
 * @param {Say} say
 * @param {{ readonly osRelease: string, readonly apt: string }} [machine] where the system describes itself
 * @returns {Promise<string>} the path of the unpacked executable
 */
export async function fetchFromApt(
  scratch,
  say,
  machine = { osRelease: "/etc/os-release", apt: "/etc/apt" },
) {
  const mirrors = debianMirrors(machine);
  if (mirrors.length === 0)
    throw new Error("this is not a Debian machine with a mirror of its own");
  let failure = "";
  for (const [index, { suite, mirror }] of SUITES.flatMap((suite) =>
    mirrors.map((mirror) => ({ suite, mirror })),
  ).entries()) {
    const folder = join(scratch, `apt-${index}`);
    try {
      say(`fetching nats-server from Debian ${suite}`);
      return await downloadFrom(folder, `Suites: ${suite}\nComponents: main\n${mirror}`);
    } catch (error) {
      failure = `Debian ${suite}: ${lastLine(error)}`;
    }
  }
  throw new Error(failure);
}

/**
 * @param {string} folder
 * @param {string} source a deb822 stanza without its Types
 */
async function downloadFrom(folder, source) {
  for (const name of ["lists/partial", "cache/archives/partial", "sources", "unpacked"]) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  writeFileSync(join(folder, "sources", "nats-server.sources"), `Types: deb\n${source}\n`);
  // Hooks of the machine's own apt would touch its caches. A file given with -c is read last.
  writeFileSync(
    join(folder, "apt.conf"),
    ["Pre-Invoke", "Post-Invoke", "Post-Invoke-Success", "Post-Invoke-Stats"]
      .map((hook) => `#clear APT::Update::${hook};\n`)
      .join(""),
  );
  const settings = {
    "Dir::State::Lists": join(folder, "lists"),
    "Dir::Cache": join(folder, "cache"),
    "Dir::Etc::SourceList": "/dev/null",
    "Dir::Etc::SourceParts": join(folder, "sources"),
    "Dir::Etc::Preferences": "/dev/null",
    "Dir::Etc::PreferencesParts": "/dev/null",
    "APT::Default-Release": "",
    // The unprivileged user that apt would download as has no way into our folder.
    "APT::Sandbox::User": "",
    "Acquire::Languages": "none",
    "Acquire::Retries": "2",
    "Acquire::http::Timeout": "20",
    "Acquire::https::Timeout": "20",
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  const run = {
    cwd: folder,
    timeout: APT_TIMEOUT_MS,
    env: { ...process.env, LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive" },
  };
  const apt = ["-c", join(folder, "apt.conf"), "-q", ...options];
  await execute("apt-get", [...apt, "update"], run);
  await execute("apt-get", [...apt, "download", "nats-server"], run);
  const archive = readdirSync(folder).find((name) => name.endsWith(".deb"));
  if (archive === undefined) throw new Error("apt-get brought no package");
  await execute("dpkg-deb", ["-x", join(folder, archive), join(folder, "unpacked")], run);
  for (const place of ["usr/sbin", "usr/bin"]) {
    const path = join(folder, "unpacked", place, "nats-server");
    if (existsSync(path)) return path;
  }
  throw new Error("the package holds no nats-server");
}

/**
 * The machine's own mirrors of Debian, each as the rest of a deb822 stanza (URIs, keys, trust), from
 * its one-line and deb822 sources (sources.list(5)). Security and third-party archives are left out.
 * @param {{ readonly osRelease: string, readonly apt: string }} machine
 */
function debianMirrors({ osRelease, apt }) {
  const release = existsSync(osRelease) ? readFileSync(osRelease, "utf8") : "";
  if (!/^ID="?debian"?$/m.test(release)) return [];
  const codeName = /^VERSION_CODENAME="?([a-z]+)"?$/m.exec(release)?.[1] ?? "";
  const parts = join(apt, "sources.list.d");
  const files = [
    join(apt, "sources.list"),
    ...(existsSync(parts) ? readdirSync(parts).sort() : []).map((name) => join(parts, name)),
  ].filter((path) => existsSync(path));
  const stanzas = files.flatMap((path) => {
    if (path.endsWith(".sources")) return stanzasOf(readFileSync(path, "utf8"));
    return path.endsWith(".list")
      ? readFileSync(path, "utf8").split("\n").flatMap(stanzaOfLine)
      : [];
  });
  const mirrors = stanzas
    .filter(
      (stanza) =>
        stanza.get("enabled") !== "no" &&
        words(stanza, "types").includes("deb") &&
        words(stanza, "components").includes("main") &&
        words(stanza, "suites").some((suite) => suite === codeName || DEBIAN_NAMES.has(suite)),
    )
    .map((stanza) =>
      ["URIs", "Signed-By", "Trusted", "Architectures", "Check-Valid-Until"]
        .map((name) => [name, stanza.get(name.toLowerCase())])
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => `${name}: ${value}`)
        .join("\n"),
    );
  return [...new Set(mirrors)];
}

/**
 * @param {string} text
 * @returns {Map<string, string>[]} fields by their lower-case name; continuation lines kept as they are
 */
function stanzasOf(text) {
  const plain = text.replace(/^#.*\n?/gm, "");
  return plain.split(/\n\s*\n/).map((block) => {
    const fields = new Map();
    for (const [, name = "", value = ""] of block.matchAll(
      /^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)/gm,
    )) {
      fields.set(name.toLowerCase(), value.trimEnd());
    }
    return fields;
  });
}

/**
 * @param {string} line `deb [option=value …] uri suite component…`
 * @returns {Map<string, string>[]}
 */
function stanzaOfLine(line) {
  const match = /^\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)/.exec(line);
  if (match === null) return [];
  const [, options = "", uri = "", suite = "", components = ""] = match;
  const names = new Map([["arch", "architectures"]]);
  const fields = new Map([
    ["types", "deb"],
    ["uris", uri],
    ["suites", suite],
    ["components", components.trim()],
  ]);
  for (const option of options.split(/\s+/)) {
    const [name = "", value = ""] = option.split("=");
    fields.set(names.get(name) ?? name, value.replaceAll(",", " "));
  }
  return [fields];
}

/**
 * @param {Map<string, string>} stanza
 * @param {string} field
 */
function words(stanza, field) {
  return (stanza.get(field) ?? "").split(/\s+/);
}

/**
 * @param {string} scratch
 * @param {Say} say
 * @param {{ readonly url: string, readonly archives: ReadonlyMap<string, { readonly name: string, readonly sha256: string }> }} [release]
 * @returns {Promise<string>} the path of the unpacked executable
 */
export async function fetchFromRelease(scratch, say, release = RELEASE) {
  const platform = `${process.platform}-${process.arch}`;
  const archive = release.archives.get(platform);
  if (archive === undefined) throw new Error(`no release archive is known for ${platform}`);
  const url = `${release.url}/${archive.name}.tar.gz`;
  say(`fetching ${url}`);
  const path = join(scratch, "nats-server.tar.gz");
  const hash = createHash("sha256");
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(ARCHIVE_TIMEOUT_MS) });
    if (!response.ok || response.body === null) throw new Error(`HTTP ${response.status}`);
    await pipeline(
      Readable.fromWeb(response.body),
      async function* (chunks) {
        for await (const chunk of chunks) {
          hash.update(chunk);
          yield chunk;
        }
      },
      createWriteStream(path),
    );
  } catch (error) {
    throw new Error(`${url}: ${lastLine(error)}`);
  }
  if (hash.digest("hex") !== archive.sha256) {
    throw new Error(`${url}: the checksum is not the pinned one; nothing of it was used`);
  }
  await execute("tar", ["-xzf", path, "-C", scratch, `${archive.name}/nats-server`]);
  return join(scratch, archive.name, "nats-server");
}

/**
 * What a failed command said last, or the cause beneath `fetch failed`, on one line.
 * @param {unknown} error
 */
function lastLine(error) {
  if (!(error instanceof Error)) return String(error);
  if ("stderr" in error && typeof error.stderr === "string" && error.stderr.trim() !== "") {
    return error.stderr.trim().split("\n").at(-1) ?? "";
  }
  return error.cause instanceof Error ? error.cause.message : (error.message.split("\n")[0] ?? "");
}
