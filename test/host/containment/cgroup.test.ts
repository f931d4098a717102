import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { CgroupContainment, cgroupFolder } from "../../../host/containment/cgroup.ts";
import { KILL_AT_ONCE } from "../../../host/spawner.ts";
import { MODES, run, shell, spawnerOf, start } from "../../support/native-run.ts";
import { refusalOf } from "../../support/refusal.ts";

const HYBRID = `24 23 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
26 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw`;

describe("the folder of this process's cgroup", () => {
  for (const [what, mountinfo, cgroups, expected] of [
    [
      "lies below the mount of the unified hierarchy",
      "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate",
      "0::/user.slice/user-1000.slice\n",
      "/sys/fs/cgroup/user.slice/user-1000.slice",
    ],
    [
      "lies in the hybrid's unified part",
      HYBRID,
      "4:memory:/a\n1:name=systemd:/b\n0::/c\n",
      "/sys/fs/cgroup/unified/c",
    ],
    ["is the mount itself at the root", HYBRID, "0::/\n", "/sys/fs/cgroup/unified"],
    [
      "is found below a mount of a part of the hierarchy",
      "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
      "0::/docker/abc/init\n",
      "/sys/fs/cgroup/init",
    ],
    [
      "is unknown when another part is mounted",
      "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
      "0::/docker/abcd\n",
      null,
    ],
    ["is unknown outside this namespace", HYBRID, "0::/../other\n", null],
    ["is unknown without cgroup v2", HYBRID, "4:memory:/a\n", null],
    ["is unknown when no cgroup v2 is mounted", "24 23 0:22 / / rw - ext4 x rw", "0::/\n", null],
    [
      "may be mounted anywhere",
      "30 23 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw",
      "0::/x\n",
      "/mnt/my groups/x",
    ],
  ] as const) {
    it(what, () => {
      expect(cgroupFolder(mountinfo, cgroups)).to.equal(expected);
    });
  }
});

const NO_WATCHES = 'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"';

/** Runs statements with a `containment` and its `spawner` in a process of its own. */
async function inWorker(body: string, prefix: readonly string[] = []) {
  const root = join(import.meta.dirname, "../../..");
  const program = `
    import { writeFileSync } from "node:fs";
    import { join } from "node:path";
    import { CgroupContainment } from "${root}/host/containment/cgroup.ts";
    import { isAlive } from "${root}/host/process-identity.ts";
    import { identityOf, run, shell, spawnerOf, start } from "${root}/test/support/native-run.ts";
    import { refusalOf } from "${root}/test/support/refusal.ts";
    const containment = CgroupContainment.create();
    const spawner = spawnerOf("cgroup", { containment: () => containment });
    try { ${body} } finally { await spawner.close(); }`;
  const [command = "", ...words] = [
    ...prefix,
    process.execPath,
    "--input-type=module",
    "-e",
    program,
  ];
  return await promisify(execFile)(command, words, { timeout: 15_000, killSignal: "SIGKILL" });
}

if (MODES.includes("cgroup")) {
  describe("containment by cgroup", () => {
    it("gives each run a cgroup of its own, and uses an empty one again", async () => {
      const spawner = spawnerOf("cgroup");
      const where = async (script = "cat /proc/self/cgroup") => {
        const { stdout } = await run(spawner, { argv: shell(script) });
        return /^0::(.*)$/m.exec(stdout)?.[1];
      };
      const first = await where();
      expect(await where()).to.equal(first);
      const together = await Promise.all([where(), where(), where()]);
      expect(new Set(together).size).to.equal(3);
      expect(readFileSync("/proc/self/cgroup", "utf8")).not.to.contain("lemon-");
      await spawner.close();
    });

    it("has each run in its cgroup from the first instruction, however many start at once", async () => {
      const spawner = spawnerOf("cgroup");
      const places: (string | undefined)[] = [];
      for (let round = 0; round < 40; round += 1) {
        await Promise.all(
          Array.from({ length: 8 }, async (_, n) => {
            for (let turns = 0; turns < n; turns += 1) {
              await new Promise((resolve) => setImmediate(resolve));
            }
            const { stdout } = await run(spawner, { argv: ["/bin/cat", "/proc/self/cgroup"] });
            places.push(/^0::(.*)$/m.exec(stdout)?.[1]);
          }),
        );
      }
      expect(
        places.filter((place) => !/\/lemon-runs-[0-9a-f]{16}\/run-\d+$/.test(place ?? "")),
      ).to.deep.equal([]);
      await spawner.close();
    });

    it("ends and removes what a run made below its cgroup, too", async () => {
      const containment = CgroupContainment.create();
      if (containment === null) throw new Error("it is there");
      const spawner = spawnerOf("cgroup", { containment: () => containment });
      const heard = await start(spawner, { argv: ["/bin/sleep", "600"] });
      const [cell = ""] = readdirSync(containment.cgroup).filter((name) => name.startsWith("run-"));
      const inner = join(containment.cgroup, cell, "inner");
      mkdirSync(inner);
      writeFileSync(join(inner, "cgroup.procs"), String(heard.process.pid));
      await heard.process.stop(KILL_AT_ONCE);
      expect(await heard.process.exited).to.deep.equal({ code: null, signal: 9 });
      expect(await heard.process.clear()).to.equal(true);
      heard.process.release();
      expect(existsSync(inner)).to.equal(false);
      await spawner.close();
      expect(existsSync(containment.cgroup)).to.equal(false);
    });

    it("puts nothing, this process least of all, into a cgroup that is frozen", async () => {
      // In a process of its own: whoever enters a frozen cgroup never comes back to tell.
      const { stdout } = await inWorker(`
        const leave = \`cd \${containment.cgroup}; cell=$(basename $(sed -n s/^0:://p /proc/self/cgroup));
          echo $$ >../cgroup.procs; \`;
        await run(spawner, { argv: shell(leave + "echo 1 >$cell/cgroup.freeze") });
        const first = await run(spawner, { argv: ["/bin/true"] });
        writeFileSync(join(containment.cgroup, "cgroup.freeze"), "1");
        const refusal = await refusalOf(() => start(spawner, { argv: ["/bin/true"] }));
        writeFileSync(join(containment.cgroup, "cgroup.freeze"), "0");
        const last = await run(spawner, { argv: ["/bin/true"] });
        console.log([first.exit.code, refusal.code, last.exit.code].join());
      `);
      expect(stdout).to.equal("0,spawn_failed,0\n");
    });

    it("takes a cgroup that a run removed for empty, and makes another", async () => {
      const containment = CgroupContainment.create();
      if (containment === null) throw new Error("it is there");
      const spawner = spawnerOf("cgroup", { containment: () => containment });
      // Until whoever started it has left the cgroup, too, it is not empty.
      const leave = `cd ${containment.cgroup}; cell=$(basename $(sed -n s/^0:://p /proc/self/cgroup));
        echo $$ >../cgroup.procs; until rmdir $cell; do :; done`;
      const gone = await run(spawner, { argv: shell(leave) });
      expect(gone).to.deep.include({ exit: { code: 0, signal: null }, cleared: true });
      expect((await run(spawner, { argv: shell("exit 3") })).exit.code).to.equal(3);
      // Without the folder of all of them no run can be contained: that is not the program's fault.
      const [cell = ""] = readdirSync(containment.cgroup).filter((name) => name.startsWith("run-"));
      rmdirSync(join(containment.cgroup, cell));
      rmdirSync(containment.cgroup);
      const descriptors = readdirSync("/proc/self/fd").length;
      const refusal = await refusalOf(() => start(spawner, { argv: ["/bin/true"] }));
      expect(refusal).to.include({ code: "spawn_failed", mutationMayHaveApplied: false });
      expect(readdirSync("/proc/self/fd").length).to.be.at.most(descriptors);
      await spawner.close();
    });

    it("sees the end of what it kills also for an account that may watch no file", async () => {
      const { stdout } = await inWorker(
        `
        const heard = await start(spawner, { argv: shell("setsid sleep 600 & echo $!") });
        const straggler = identityOf(await heard.firstLine);
        await heard.process.exited;
        const cleared = await heard.process.clear();
        heard.process.release();
        console.log([cleared, isAlive(straggler)].join());
      `,
        // Nobody but this namespace's own processes is given no watch.
        ["unshare", "--user", "--map-root-user", "sh", "-c", NO_WATCHES, "sh"],
      );
      expect(stdout).to.equal("true,false\n");
    });

    it("ends and removes what a worker left that was killed with its reaper, and nothing that is held", async () => {
      const held = CgroupContainment.create();
      if (held === null) throw new Error("it is there");
      const abandoned = join(dirname(held.cgroup), "lemon-runs-0123456789abcdef");
      mkdirSync(join(abandoned, "run-1"), { recursive: true });
      const child = spawn("sleep", ["600"], { stdio: "ignore" });
      const exit = once(child, "exit");
      writeFileSync(join(abandoned, "run-1", "cgroup.procs"), String(child.pid));
      await CgroupContainment.create()?.close();
      expect(await exit).to.deep.equal([null, "SIGKILL"]);
      expect(existsSync(held.cgroup)).to.equal(true);
      // Populated until the child was gone, so the next start removes it at the latest.
      await CgroupContainment.create()?.close();
      expect(existsSync(abandoned)).to.equal(false);
      await held.close();
      expect(existsSync(held.cgroup)).to.equal(false);
    });
  });
}
