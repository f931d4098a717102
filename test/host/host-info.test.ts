import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import os from "node:os";
import { expect } from "chai";
import fc from "fast-check";
import { type Clock, systemClock } from "../../host/clock.ts";
import {
  archTriple,
  type HostProbe,
  hostMeter,
  kernelVersion,
  parseBootTime,
  parseMeminfo,
  parseUptime,
  parseVmStat,
} from "../../host/host-info.ts";
import { nodeHostInfo } from "../../protocol/methods/nodes.ts";
import { refusalOf } from "../support/refusal.ts";

const GIB = 1_073_741_824;

function machine(bent: Partial<HostProbe> = {}): HostProbe {
  return {
    platform: "linux",
    architecture: "x64",
    musl: false,
    release: "6.1.0-25-amd64",
    hostname: () => "worker-host",
    user: () => "lemon",
    cpuCount: () => 8,
    readFile: async (path) =>
      path === "/proc/uptime"
        ? "12345.67 8000.00\n"
        : "MemTotal:  100 kB\nMemFree:  10 kB\nMemAvailable: 90 kB\n",
    run: async () => {
      throw new Error("not on Linux");
    },
    disk: async () => ({ totalBytes: 10 * GIB, freeBytes: GIB }),
    ...bent,
  };
}

const measured = (probe: HostProbe, clock: Clock = systemClock) =>
  hostMeter({ defaultCwd: "/srv/project", lemonVersion: "2026.12.0", clock, probe });

describe("the facts of a host", () => {
  it("are those of this machine", async () => {
    const info = await hostMeter({
      defaultCwd: "/",
      lemonVersion: "2026.12.0",
      clock: systemClock,
    })();
    expect(nodeHostInfo.result.safeParse(info).success).to.equal(true);
    const run = (program: string, ...args: string[]) =>
      execFileSync(program, args, { encoding: "utf8" }).trim();
    expect(info.hostname).to.equal(run("uname", "-n"));
    // An account without a name is called by its number.
    expect(info.user).to.equal(run("sh", "-c", "id -un 2>/dev/null || id -u"));
    expect(run("uname", "-r").startsWith(info.osVersion)).to.equal(true);
    expect(info.arch.startsWith(`${run("uname", "-m")}-`)).to.equal(true);
    expect(info.cpuCount).to.equal(os.cpus().length);
    const [, total, , free] = (run("df", "-Pk", "/").split("\n")[1] ?? "").split(/\s+/);
    // `df` counts in KiB.
    expect(Math.abs(info.diskTotalBytes - Number(total) * 1_024)).to.be.lessThan(1_024);
    // Others write to the disk and to the memory meanwhile.
    expect(Math.abs(info.diskFreeBytes - Number(free) * 1_024)).to.be.lessThan(GIB);
    if (process.platform === "linux") {
      const meminfo = readFileSync("/proc/meminfo", "utf8");
      expect(info.memTotalBytes).to.equal(os.totalmem());
      expect(meminfo).to.contain(`${info.memTotalBytes / 1_024} kB`);
      expect(info.memFreeBytes).to.be.lessThan(info.memTotalBytes);
    }
    expect(Math.abs(info.uptimeSec - os.uptime())).to.be.lessThan(10);
    expect(info).to.include({ defaultCwd: "/", lemonVersion: "2026.12.0", os: process.platform });
  });

  it("hold exactly the contract's fields", async () => {
    expect(await measured(machine())()).to.deep.equal({
      hostname: "worker-host",
      os: "linux",
      osVersion: "6.1.0",
      arch: "x86_64-unknown-linux-gnu",
      cpuCount: 8,
      memTotalBytes: 102_400,
      memFreeBytes: 10_240,
      diskTotalBytes: 10 * GIB,
      diskFreeBytes: GIB,
      uptimeSec: 12_345,
      lemonVersion: "2026.12.0",
      defaultCwd: "/srv/project",
      user: "lemon",
    });
  });

  it("come from sysctl and vm_stat on macOS", async () => {
    const answers: Record<string, string> = {
      "hw.memsize": "17179869184\n",
      "kern.boottime": "{ sec = 1700000000, usec = 5 } Tue Nov 14 22:13:20 2023\n",
      vm_stat:
        "Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free:                     1234.\nPages active:  9.\n",
    };
    const info = await measured(
      machine({
        platform: "darwin",
        architecture: "arm64",
        release: "24.1.0",
        readFile: async () => {
          throw new Error("no /proc");
        },
        run: async (program, args) => answers[args[1] ?? "vm_stat"] ?? program,
      }),
      { ...systemClock, nowMs: () => 1_700_000_100_999 },
    )();
    expect(info).to.include({
      os: "darwin",
      osVersion: "24.1.0",
      arch: "aarch64-apple-darwin24.1.0",
      memTotalBytes: 17_179_869_184,
      memFreeBytes: 1_234 * 16_384,
      uptimeSec: 100,
    });
  });

  it("may tell a full disk, since that is measured", async () => {
    const full = machine({ disk: async () => ({ totalBytes: GIB, freeBytes: 0 }) });
    expect((await measured(full)()).diskFreeBytes).to.equal(0);
  });

  for (const [what, bent] of [
    ["no memory figure", { readFile: async () => "MemAvailable: 3 kB\n" }],
    ["an unreadable /proc", { readFile: () => Promise.reject(new Error("/proc/secret-path")) }],
    ["no file system", { disk: () => Promise.reject(new Error("ENOENT /srv/project")) }],
    ["a disk of no size", { disk: async () => ({ totalBytes: 0, freeBytes: 0 }) }],
    ["a size that is no number", { disk: async () => ({ totalBytes: Number.NaN, freeBytes: 1 }) }],
    ["no processor", { cpuCount: () => 0 }],
    ["no name", { hostname: () => "" }],
    ["no user", { user: () => "" }],
    ["an odd kernel", { release: "experimental" }],
    ["an unsupported system", { platform: "win32", run: async () => "1" }],
  ] as const satisfies readonly (readonly [string, Partial<HostProbe>])[]) {
    it(`are an error on a machine with ${what}, and not an invented figure`, async () => {
      const refusal = await refusalOf(measured(machine(bent)));
      expect(refusal.code).to.equal("measurement_failed");
      expect(refusal.wire).to.equal("UNAVAILABLE");
      expect(JSON.stringify([refusal.message, refusal.details])).not.to.contain("/");
    });
  }

  it("are given up when the file system does not answer, and measured once for all who wait", async () => {
    let disks = 0;
    let fire = (): void => {};
    const hung = Promise.withResolvers<{ totalBytes: number; freeBytes: number }>();
    const meter = measured(
      machine({
        disk: () => {
          disks += 1;
          return hung.promise;
        },
      }),
      {
        ...systemClock,
        after(_, onTime) {
          fire = onTime;
          return () => {};
        },
      },
    );
    const first = meter();
    const second = meter();
    fire();
    expect((await refusalOf(() => second)).code).to.equal("measurement_failed");
    hung.resolve({ totalBytes: GIB, freeBytes: 1 });
    expect((await first).diskFreeBytes).to.equal(1);
    expect(disks).to.equal(1);
    expect((await meter()).diskFreeBytes).to.equal(1);
    expect(disks).to.equal(2);
  });
});

describe("a report of the system", () => {
  it("is read right whatever its figures", () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), (total, free) => {
        expect(parseMeminfo(`MemTotal:       ${total} kB\nMemFree:   ${free} kB\n`)).to.deep.equal({
          totalBytes: total * 1_024,
          freeBytes: free * 1_024,
        });
        expect(parseUptime(`${total}.99 ${free}.00\n`)).to.equal(total);
        expect(parseVmStat(`(page size of 4096 bytes)\nPages free: ${free}.\n`)).to.equal(
          free * 4_096,
        );
        expect(parseBootTime(`{ sec = ${total}, usec = ${free} } x`)).to.equal(total);
      }),
    );
  });

  it("that says something else is refused", async () => {
    for (const [parse, report] of [
      [parseMeminfo, ""],
      [parseMeminfo, "MemTotal: 5 kB\n"],
      [parseMeminfo, "MemTotal: 5 MB\nMemFree: 1 MB\n"],
      [parseMeminfo, "xMemTotal: 5 kB\nMemFree: -1 kB\n"],
      [parseUptime, ""],
      [parseUptime, "-5.0 1.0"],
      [parseUptime, "1e5 1.0"],
      [parseVmStat, "Pages free: 12."],
      [parseVmStat, "page size of 4096 bytes"],
      [parseBootTime, "sec = 5"],
    ] as const) {
      expect((await refusalOf(() => parse(report))).code, report).to.equal("measurement_failed");
    }
  });
});

describe("the name of an architecture", () => {
  for (const [platform, architecture, musl, release, triple] of [
    ["linux", "x64", false, "6.8.0", "x86_64-unknown-linux-gnu"],
    ["linux", "arm64", false, "6.8.0", "aarch64-unknown-linux-gnu"],
    ["linux", "arm64", true, "6.8.0", "aarch64-unknown-linux-musl"],
    ["linux", "riscv64", false, "6.8.0", "riscv64-unknown-linux-gnu"],
    ["darwin", "x64", false, "23.6.0", "x86_64-apple-darwin23.6.0"],
  ] as const) {
    it(`is ${triple}`, () => {
      expect(archTriple({ platform, architecture, musl, release })).to.equal(triple);
    });
  }

  it("stands beside the first numbers of the kernel's release", () => {
    expect(kernelVersion("6.18.44-fc-v669")).to.equal("6.18.44");
    expect(kernelVersion("6.1-rc1")).to.equal("6.1");
    expect(kernelVersion("5.10.102.1-microsoft-standard-WSL2")).to.equal("5.10.102");
  });
});
