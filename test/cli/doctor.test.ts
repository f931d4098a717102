import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { writeControllerRecord } from "../../cli/controller-record.ts";
import type { Finding, Level } from "../../cli/doctor/check.ts";
import { checkLeftovers } from "../../cli/doctor/leftovers.ts";
import {
  checkBarrier,
  checkHome,
  checkNatsServer,
  checkRuntime,
} from "../../cli/doctor/machine.ts";
import { lockFile } from "../../host/file-lock.ts";
import { ownIdentity } from "../../host/process-identity.ts";
import { LemonError } from "../../protocol/errors.ts";
import { FakeControlPlane } from "../support/fake-control-plane.ts";
import { nodeDescription, nodeList, nodeRow } from "../support/node-rows.ts";
import { smallDisk } from "../support/small-disk.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";
import { TestShell } from "../support/test-shell.ts";

/** Some accounts may not have a file system of their own. */
const aDisk = await smallDisk(1_000_000);
const hasSmallDisks = aDisk !== null;
await aDisk?.[Symbol.asyncDispose]();

const HEALTH = {
  ok: true,
  uptime_ms: 1,
  memory_mb: 1,
  schedulers: 1,
  summary: { action: "health" },
} as const;

const VAULT = {
  configured: true,
  source: "file",
  keychainAvailable: false,
  envFallback: false,
  fileFallback: true,
  keychainErrorKind: null,
  healthy: true,
  owner: "default",
  count: 2,
  cleanup: {},
  summary: { problem: null },
} as const;

describe("lemon doctor", () => {
  let folder: TempFolder;
  let home: string;
  let peer: FakeControlPlane;

  beforeEach(async () => {
    folder = tempFolder();
    home = join(folder.path, "home");
    mkdirSync(home, { mode: 0o700 });
    peer = await FakeControlPlane.start({ token: "secret" });
    peer
      .on("health", () => HEALTH)
      .on("secrets.status", () => VAULT)
      .on("node.list", () => nodeList(nodeRow()))
      .on("node.describe", () => nodeDescription());
  });

  afterEach(async () => {
    await peer.stop();
    folder[Symbol.dispose]();
  });

  /** A machine with everything in place, looked at through a controller that is `peer`. */
  const newShell = (environment: Readonly<Record<string, string>> = {}) =>
    new TestShell({
      environment: {
        LEMON_HOME: home,
        LEMON_CONTROLLER: peer.url,
        LEMON_WS_TOKEN: "secret",
        LEMON_NATS_SERVER: process.env["LEMON_NATS_SERVER"] ?? "",
        LEMON_CONTROL_PLANE_PORT: "1",
        ...environment,
      },
    });

  async function examine(
    environment: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly exitCode: number; readonly find: (name: string) => Finding | undefined }> {
    const shell = newShell(environment);
    const exitCode = await shell.run("doctor", "--json");
    const document = shell.document as { readonly ok: boolean; readonly checks: Finding[] };
    expect(document.ok).to.equal(exitCode === 0);
    expect(document.checks.some(({ level }) => level === "fail")).to.equal(exitCode === 1);
    for (const { level, mend } of document.checks) expect(mend === null).to.equal(level === "ok");
    return { exitCode, find: (name) => document.checks.find((check) => check.name === name) };
  }

  it("finds nothing wrong on a machine where nothing is", async () => {
    const shell = newShell();
    expect(await shell.run("doctor")).to.equal(0);
    const lines = shell.stdout.text.trimEnd().split("\n");
    expect(lines.map((line) => line.split(":")[0])).to.include.members([
      "ok    Node.js",
      "ok    nats-server",
      "ok    state folder",
      "ok    controllers here",
      "ok    port 1",
      "ok    clock",
      "ok    controller",
      "ok    node worker-1",
    ]);
    expect(shell.stdout.text).to.match(
      /disk barrier: .*a synced write takes|LEMON_HOME lies in memory/,
    );
  });

  it("warns of what an interrupted delete or move left below the home directory and the added roots, and of nothing else", async () => {
    const root = join(folder.path, "root");
    const random = "0123456789abcdef".repeat(2);
    for (const path of [
      `home/.lemon-doctor-${random}`,
      `user/a/.lemon-delete-${random}/.lemon-delete-${random}`,
      `user/.lemon-move-notes`,
      `home/.lemon-delete-${random}`,
      "root/b",
    ])
      mkdirSync(join(folder.path, path), { recursive: true });
    writeFileSync(join(root, "b", `.lemon-move-${random}`), "");
    symlinkSync(root, join(folder.path, "user/to-root"));
    const roots = [join(folder.path, "user"), root];
    const found = await checkLeftovers(roots, home);
    expect(found.level).to.equal("warn");
    expect(found.finding).to.equal(
      `2 left: ${join(root, "b", `.lemon-move-${random}`)} ${join(folder.path, "user/a", `.lemon-delete-${random}`)}`,
    );
    const none = await checkLeftovers([home], home, { entries: 2, ms: 60_000 });
    expect(none.level).to.equal("warn");

    const shell = newShell();
    await shell.run("doctor", "--json", "--allowed-root", root);
    const { checks } = shell.document as { readonly checks: Finding[] };
    const told = checks.find(({ name }) => name === "interrupted file work");
    expect(told?.finding).to.match(/^1 left: /);
  });

  it("warns of the part of an upload, and says that the same upload goes on with it", async () => {
    const root = join(folder.path, "root");
    mkdirSync(root);
    const part = join(root, `.lemon-put-${"0123456789ab".repeat(2)}`);
    for (const path of [part, `${part}0`, join(root, ".lemon-put-notes")]) writeFileSync(path, "");
    const found = await checkLeftovers([root], home);
    expect(found).to.include({ level: "warn", finding: `1 left: ${part}` });
    expect(found.mend).to.include("lemon fs put").and.not.include(".lemon-delete-");
  });

  it("says when it could not look at everything", async () => {
    const root = join(folder.path, "root");
    mkdirSync(join(root, "a"), { recursive: true });
    mkdirSync(join(root, "b"));
    const all = await checkLeftovers([root], home, { entries: 2, ms: 60_000 });
    expect(all.finding).to.equal("none is left");
    const some = await checkLeftovers([root], home, { entries: 1, ms: 60_000 });
    expect(some.finding).to.equal("none is left among the 1 entries looked at");
  });

  it("fails an old Node.js", () => {
    expect(checkRuntime("24.0.0").level).to.equal("ok");
    expect(checkRuntime("22.21.1")).to.deep.include({ level: "fail", name: "Node.js" });
  });

  it("fails a nats-server that was chosen and is not there", async () => {
    const { exitCode, find } = await examine({ LEMON_NATS_SERVER: join(home, "gone") });
    expect(exitCode).to.equal(1);
    expect(find("nats-server")?.finding).to.include("does not exist");
  });

  for (const [what, text, mode, finding] of [
    ["is too old", 'echo "nats-server: v2.12.6"', 0o755, "2.12.6"],
    ["is no such thing", "echo hello", 0o755, "does not run as a nats-server"],
    ["may not be executed", "exit 0", 0o644, "may not be executed"],
  ] as const) {
    it(`fails a nats-server that ${what}, and says what to install`, async () => {
      const path = join(folder.path, "server");
      writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode });
      const { exitCode, find } = await examine({ LEMON_NATS_SERVER: path });
      expect(exitCode).to.equal(1);
      expect(find("nats-server")).to.include({ level: "fail" });
      expect(find("nats-server")?.finding).to.include(finding);
      expect(find("nats-server")?.mend).to.include("install nats-server 2.12.7 or newer");
    });
  }

  it("only warns of a nats-server that nobody chose and that is missing: the first start fetches one", async () => {
    const bare = { PATH: "/nonexistent", LEMON_CACHE: join(folder.path, "cache") };
    const found = await checkNatsServer(bare, []);
    expect(found.level).to.equal("warn");
    expect(found.mend).to.include("`lemon up` fetches one");
  });

  if (hasSmallDisks) {
    it("fails a disk that is full, and the write that it could not take", async () => {
      await using disk = await smallDisk(1_000_000);
      if (disk === null) throw new Error("there was one a moment ago");
      const own = join(disk.path, "home");
      mkdirSync(own, { mode: 0o700 });
      disk.fill();
      const { exitCode, find } = await examine({ LEMON_HOME: own });
      expect(exitCode).to.equal(1);
      expect(find("disk space")).to.include({ level: "fail", finding: "0 B free" });
      expect(find("disk space")?.mend).to.include("free some space");
      expect(find("disk barrier")).to.include({ level: "fail" });
      expect(find("disk barrier")?.finding).to.include("ENOSPC");
      expect(find("disk barrier")?.mend).to.include("move LEMON_HOME");
      disk.free();
      const freed = await examine({ LEMON_HOME: own });
      expect(freed.find("disk barrier")?.finding).to.equal("LEMON_HOME lies in memory");
    });
  }

  const homes: readonly {
    readonly name: string;
    readonly path: string;
    readonly level: Level;
    readonly finding: RegExp;
  }[] = [
    { name: "that is not there yet", path: "new/home", level: "ok", finding: /will be made/ },
    { name: "that is a file", path: "file", level: "fail", finding: /is no folder/ },
    { name: "that others may enter", path: "open", level: "fail", finding: /others may enter/ },
    {
      name: "that is a link to nothing",
      path: "astray",
      level: "fail",
      finding: /link to nothing/,
    },
  ];
  for (const { name, path, level, finding } of homes) {
    it(`answers ${level} for a state folder ${name}`, async () => {
      writeFileSync(join(folder.path, "file"), "");
      mkdirSync(join(folder.path, "open"), { mode: 0o755 });
      chmodSync(join(folder.path, "open"), 0o755);
      symlinkSync("nowhere", join(folder.path, "astray"));
      const found = await checkHome(join(folder.path, path));
      expect(found.level).to.equal(level);
      expect(found.finding).to.match(finding);
    });
  }

  it("measures a synced write and leaves nothing behind", async () => {
    const before = spawnSync("ls", ["-A", home]).stdout.toString();
    const { finding } = await checkBarrier(home);
    expect(finding).to.match(/\d ms|in memory/);
    expect(spawnSync("ls", ["-A", home]).stdout.toString()).to.equal(before);
  });

  it("fails a barrier that can not be written", async () => {
    writeFileSync(join(home, "file"), "");
    const { level, finding } = await checkBarrier(join(home, "file"));
    expect(level).to.equal("fail");
    expect(finding).to.include("ENOTDIR");
  });

  it("fails a token that others can read, and warns of what a killed controller left", async () => {
    await writeControllerRecord(home, {
      port: 4_041,
      ...ownIdentity(),
      startTime: "gone",
      tokenFile: null,
    });
    writeFileSync(join(home, "run", "control-plane-4041.token"), "t", { mode: 0o600 });
    chmodSync(join(home, "run", "control-plane-4041.token"), 0o640);
    const { exitCode, find } = await examine();
    expect(exitCode).to.equal(1);
    expect(find("run/control-plane-4041.json")).to.include({ level: "warn" });
    expect(find("run/control-plane-4041.json")?.mend).to.include("remove it");
    expect(find("run/control-plane-4041.token")).to.include({ level: "fail" });
    expect(find("run/control-plane-4041.token")?.finding).to.include("(mode)");
  });

  it("fails a folder of the state that others may enter, since no role starts with it", async () => {
    const folders = ["run", "controller", "nodes/worker-1"];
    for (const name of folders) mkdirSync(join(home, name), { recursive: true, mode: 0o700 });
    expect((await examine()).exitCode).to.equal(0);
    for (const name of folders) {
      chmodSync(join(home, name), 0o750);
      const { exitCode, find } = await examine();
      expect(exitCode).to.equal(1);
      const mend = `chmod 700 ${join(home, name)}`;
      expect(find(`${name}/`)).to.include({ level: "fail", mend });
      expect(folders.filter((folder) => find(`${folder}/`) !== undefined)).to.deep.equal([name]);
      chmodSync(join(home, name), 0o700);
    }
  });

  it("names the process that serves an identity, and those that nobody serves", async () => {
    for (const name of ["controller", "nodes/idle", "nodes/served"]) {
      mkdirSync(join(home, name), { recursive: true, mode: 0o700 });
      writeFileSync(join(home, name, "lock"), "");
    }
    const lock = lockFile(join(home, "nodes/served/lock"));
    try {
      const { find } = await examine();
      const here = process.platform === "linux";
      expect(find("controller here")?.level).to.equal("ok");
      expect(find("node idle here")?.finding).to.equal(here ? "not running" : "was started here");
      expect(find("node served here")?.finding).to.equal(
        here ? `served by process ${process.pid}` : "was started here",
      );
    } finally {
      lock?.release();
    }
  });

  it("warns when another program has the usual port, and knows its own", async () => {
    const other = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const address = other.address();
    if (typeof address !== "object" || address === null) throw new Error("no address");
    const { port } = address;
    const environment = { LEMON_CONTROL_PLANE_PORT: String(port) };
    expect((await examine(environment)).find(`port ${port}`)).to.include({ level: "warn" });
    await writeControllerRecord(home, { port, ...ownIdentity(), tokenFile: null });
    expect((await examine(environment)).find(`port ${port}`)).to.include({ level: "ok" });
    await new Promise<void>((resolve) => other.close(() => resolve()));
  });

  it("only warns when no controller runs here and none was named", async () => {
    const { exitCode, find } = await examine({ LEMON_CONTROLLER: "" });
    expect(exitCode).to.equal(0);
    expect(find("controller")).to.include({ level: "warn", finding: "none runs here" });
    expect(find("controller")?.mend).to.include("start one with `lemon up`");
  });

  it("says how to mend a running controller's token that others can read, not to start another", async () => {
    const tokenFile = join(home, "run", "control-plane-4042.token");
    await writeControllerRecord(home, { port: 4_042, ...ownIdentity(), tokenFile });
    writeFileSync(tokenFile, "t".repeat(43), { mode: 0o640 });
    const { find } = await examine({ LEMON_CONTROLLER: "", LEMON_WS_TOKEN: "" });
    expect(find("controller")?.finding).to.include("can not be used (mode)");
    expect(find("controller")?.mend).to.include("chmod 600").and.not.include("lemon up");
  });

  it("fails when the controller that was named does not answer", async () => {
    await peer.stop();
    const gone = await FakeControlPlane.start();
    const { url } = gone;
    await gone.stop();
    peer = await FakeControlPlane.start();
    const { exitCode, find } = await examine({ LEMON_CONTROLLER: url });
    expect(exitCode).to.equal(1);
    expect(find("controller")?.finding).to.include("ECONNREFUSED");
    expect(find("clock")).to.include({ level: "warn" });
  });

  it("fails a wrong token, and says which variable holds the right one", async () => {
    const { find } = await examine({ LEMON_WS_TOKEN: "guess" });
    expect(find("controller")).to.include({ level: "fail" });
    expect(find("controller")?.mend).to.include("LEMON_WS_TOKEN");
  });

  const nodes: readonly {
    readonly name: string;
    readonly node: ReturnType<typeof nodeDescription>;
    readonly level: Level;
    readonly finding: string;
  }[] = [
    {
      name: "is offline",
      node: nodeDescription({ status: "offline" }),
      level: "warn",
      finding: "offline",
    },
    {
      name: "is revoked",
      node: nodeDescription({ status: "offline" }, { revoked: true }),
      level: "warn",
      finding: "revoked",
    },
    {
      name: "can not prove that it syncs",
      node: nodeDescription({}, { receiptStore: "durability_unproven" }),
      level: "fail",
      finding: "durability_unproven",
    },
    {
      name: "is in a state that only a newer version knows",
      node: nodeDescription({}, { receiptStore: "on_holiday" }),
      level: "fail",
      finding: "on_holiday",
    },
    {
      name: "has 899 spent ids",
      node: nodeDescription({}, { receipts: { retained: 899, limit: 1_000 } }),
      level: "ok",
      finding: "online",
    },
    {
      name: "has 900 spent ids",
      node: nodeDescription({}, { receipts: { retained: 900, limit: 1_000 } }),
      level: "warn",
      finding: "100 process ids left on",
    },
    {
      name: "runs another version",
      node: nodeDescription({}, { lemonVersion: "2025.1.0" }),
      level: "warn",
      finding: "2025.1.0",
    },
  ];
  for (const { name, node, level, finding } of nodes) {
    it(`answers ${level} for a node that ${name}`, async () => {
      peer.on("node.describe", () => node);
      const found = (await examine()).find("node worker-1");
      expect(found?.level).to.equal(level);
      expect(found?.finding).to.include(finding);
    });
  }

  it("fails a controller that can not reach its hub, and blames no node for that", async () => {
    peer.missing = ["hub", "documents"];
    peer.on("node.describe", () => nodeDescription({ status: "unknown" }));
    const { exitCode, find } = await examine();
    expect(exitCode).to.equal(1);
    expect(find("controller")).to.include({ level: "ok" });
    expect(find("controller's hub")?.finding).to.include("can not reach its hub");
    expect(find("controller's hub")?.mend).to.include("nats-server");
    expect(find("controller's documents")).to.include({ level: "fail" });
    expect(find("node worker-1")).to.include({ level: "warn" });
    expect(find("node worker-1")?.finding).to.include("says nothing about the node");
    expect(find("node worker-1")?.mend).not.to.include("node join");

    // Just before it reads unknown it has only fallen silent.
    peer.on("node.describe", () => nodeDescription({ status: "offline" }));
    const silent = (await examine()).find("node worker-1");
    expect(silent?.finding).to.include("says nothing about the node");
    expect(silent?.mend).not.to.include("node join");
  });

  it("does not tell anybody to join a node that is a part of its controller", async () => {
    peer.on("node.describe", () => nodeDescription({ status: "offline" }, { local: true }));
    expect((await examine()).find("node worker-1")?.mend).to.include("that one's log");
  });

  it("warns of a controller that is ending, and fails one that misses what this version does not know", async () => {
    peer.missing = ["stopping"];
    const ending = await examine();
    expect(ending.exitCode).to.equal(0);
    expect(ending.find("controller's stopping")).to.include({ level: "warn" });
    peer.missing = ["moon"];
    const strange = await examine();
    expect(strange.exitCode).to.equal(1);
    expect(strange.find("controller's moon")).to.include({ level: "fail" });
  });

  it("says of a damaged store what mends it: another id, which a local node gets by its removal", async () => {
    const mendOf = async (local: boolean) => {
      peer.on("node.describe", () =>
        nodeDescription({}, { receiptStore: "receipt_store_damaged", local }),
      );
      return (await examine()).find("node worker-1")?.mend;
    };
    expect(await mendOf(false)).to.include("join it again under a new id");
    expect(await mendOf(true)).to.include("remove it with `lemon node remove`");
  });

  it("fails a node that can not be asked, and goes on with the next", async () => {
    peer
      .on("node.list", () => nodeList(nodeRow(), nodeRow({ nodeId: "second", name: "worker-2" })))
      .on("node.describe", ({ nodeId }) => {
        if (nodeId !== "second") throw new LemonError("internal_error");
        return nodeDescription({ nodeId, name: "worker-2" });
      });
    const { find } = await examine();
    expect(find("node worker-1")).to.include({ level: "fail" });
    expect(find("node worker-2")).to.include({ level: "ok" });
  });

  it("fails a controller that does not tell its nodes", async () => {
    peer.on("node.list", () => {
      throw new LemonError("forbidden");
    });
    const { exitCode, find } = await examine();
    expect(exitCode).to.equal(1);
    expect(find("controller")).to.include({ level: "ok" });
  });

  it("warns when no node is enrolled", async () => {
    peer.on("node.list", () => nodeList());
    expect((await examine()).find("nodes")).to.include({ level: "warn" });
  });

  for (const [offMs, level, finding] of [
    [0, "ok", /^agrees with the controller's$/],
    [-3_000, "ok", /^agrees with the controller's$/],
    [8_000, "warn", /^[789] s from the controller's$/],
    [-290_000, "warn", /^5 min from the controller's$/],
    [310_000, "fail", /^5 min from the controller's$/],
    [-3_600_000, "fail", /^60 min from the controller's$/],
  ] as const) {
    it(`answers ${level} for a controller whose clock is ${offMs / 1_000} s off`, async () => {
      const server = createHttpServer((_request, response) => {
        response.setHeader("date", new Date(Date.now() + offMs).toUTCString()).end();
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const { exitCode, find } = await examine({ LEMON_CONTROLLER: `ws://127.0.0.1:${port}` });
      await new Promise((resolve) => server.close(resolve));
      expect(find("clock")?.level).to.equal(level);
      expect(find("clock")?.finding).to.match(finding);
      if (level !== "ok") expect(find("clock")?.mend).to.include("NTP");
      // It is no control plane: that is a failure of its own.
      expect(exitCode).to.equal(1);
    });
  }
});
