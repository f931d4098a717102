/** Proves what the doctor says of Node.js, the nats-server, the state folder and its disk. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Level } from "../../../cli/doctor/check.ts";
import {
  checkBarrier,
  checkHome,
  checkNatsServer,
  checkRuntime,
} from "../../../cli/doctor/machine.ts";
import { ExaminedMachine } from "../../support/examined-machine.ts";
import { smallDisk } from "../../support/small-disk.ts";

/** Some accounts may not have a file system of their own. */
const aDisk = await smallDisk(1_000_000);
const hasSmallDisks = aDisk !== null;
await aDisk?.[Symbol.asyncDispose]();

describe("the doctor's look at this machine", () => {
  let machine: ExaminedMachine;
  beforeEach(async () => {
    machine = await ExaminedMachine.open();
  });
  afterEach(() => machine[Symbol.asyncDispose]());

  it("finds nothing wrong on a machine where nothing is", async () => {
    const shell = machine.shell();
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

  it("fails an old Node.js", () => {
    expect(checkRuntime("24.0.0").level).to.equal("ok");
    expect(checkRuntime("22.21.1")).to.deep.include({ level: "fail", name: "Node.js" });
  });

  it("fails a nats-server that was chosen and is not there", async () => {
    const { exitCode, find } = await machine.examine({
      LEMON_NATS_SERVER: join(machine.home, "gone"),
    });
    expect(exitCode).to.equal(1);
    expect(find("nats-server")?.finding).to.include("does not exist");
  });

  for (const [what, text, mode, finding] of [
    ["is too old", 'echo "nats-server: v2.12.6"', 0o755, "2.12.6"],
    ["is no such thing", "echo hello", 0o755, "does not run as a nats-server"],
    ["may not be executed", "exit 0", 0o644, "may not be executed"],
  ] as const) {
    it(`fails a nats-server that ${what}, and says what to install`, async () => {
      const path = join(machine.folder, "server");
      writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode });
      const { exitCode, find } = await machine.examine({ LEMON_NATS_SERVER: path });
      expect(exitCode).to.equal(1);
      expect(find("nats-server")).to.include({ level: "fail" });
      expect(find("nats-server")?.finding).to.include(finding);
      expect(find("nats-server")?.mend).to.include("install nats-server 2.12.7 or newer");
    });
  }

  it("only warns of a nats-server that nobody chose and that is missing: the first start fetches one", async () => {
    const bare = { PATH: "/nonexistent", LEMON_CACHE: join(machine.folder, "cache") };
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
      const { exitCode, find } = await machine.examine({ LEMON_HOME: own });
      expect(exitCode).to.equal(1);
      expect(find("disk space")).to.include({ level: "fail", finding: "0 B free" });
      expect(find("disk space")?.mend).to.include("free some space");
      expect(find("disk barrier")).to.include({ level: "fail" });
      expect(find("disk barrier")?.finding).to.include("ENOSPC");
      expect(find("disk barrier")?.mend).to.include("move LEMON_HOME");
      disk.free();
      const freed = await machine.examine({ LEMON_HOME: own });
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
      writeFileSync(join(machine.folder, "file"), "");
      mkdirSync(join(machine.folder, "open"), { mode: 0o755 });
      chmodSync(join(machine.folder, "open"), 0o755);
      symlinkSync("nowhere", join(machine.folder, "astray"));
      const found = await checkHome(join(machine.folder, path));
      expect(found.level).to.equal(level);
      expect(found.finding).to.match(finding);
    });
  }

  it("measures a synced write and leaves nothing behind", async () => {
    const before = spawnSync("ls", ["-A", machine.home]).stdout.toString();
    const { finding } = await checkBarrier(machine.home);
    expect(finding).to.match(/\d ms|in memory/);
    expect(spawnSync("ls", ["-A", machine.home]).stdout.toString()).to.equal(before);
  });

  it("fails a barrier that can not be written", async () => {
    writeFileSync(join(machine.home, "file"), "");
    const { level, finding } = await checkBarrier(join(machine.home, "file"));
    expect(level).to.equal("fail");
    expect(finding).to.include("ENOTDIR");
  });
});
