/**
 * Owns the measured facts of this machine (node-host-io.md, "Host information"): read from the machine
 * at the time of the call, never estimated. A figure that can not be had is an error
 * (`measurement_failed`), never null and never zero in its place.
 */
import { execFile } from "node:child_process";
import { readFile, statfs } from "node:fs/promises";
import os from "node:os";
import { promisify } from "node:util";
import type { z } from "zod";
import { LemonError } from "../protocol/errors.ts";
import type { nodeHostInfo } from "../protocol/methods/nodes.ts";
import type { Clock } from "./clock.ts";
import { hasNative } from "./native/library.ts";

export type HostInfo = z.infer<typeof nodeHostInfo.result>;

/** Where the figures come from. */
export interface HostProbe {
  readonly platform: string;
  /** As Node names it: `x64`, `arm64`, … */
  readonly architecture: string;
  readonly musl: boolean;
  /** Of the kernel. */
  readonly release: string;
  hostname(): string;
  user(): string;
  cpuCount(): number;
  readFile(path: string): Promise<string>;
  /** Standard output of a program. */
  run(program: string, args: readonly string[]): Promise<string>;
  /** Of the file system that holds `path`, in bytes; what is free is what this account may still use, as `df` tells it. */
  disk(path: string): Promise<{ readonly totalBytes: number; readonly freeBytes: number }>;
}

export interface HostMeterSpec {
  readonly defaultCwd: string;
  readonly lemonVersion: string;
  readonly clock: Clock;
  readonly probe?: HostProbe;
}

/** A file system that does not answer by then (a dead network mount) can not be measured. */
const DEADLINE_MS = 10_000;

/** A measurement on call. Those who call while one is going on share it, so that a file system that hangs costs one thread. */
export function hostMeter(spec: HostMeterSpec): () => Promise<HostInfo> {
  let current: Promise<HostInfo> | undefined;
  return async () => {
    current ??= measure(spec, spec.probe ?? systemProbe).finally(() => {
      current = undefined;
    });
    return await withinDeadline(current, spec.clock);
  };
}

async function withinDeadline(measured: Promise<HostInfo>, clock: Clock): Promise<HostInfo> {
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(DEADLINE_MS, () => late.reject(failed("deadline")));
  try {
    return await Promise.race([measured, late.promise]);
  } finally {
    cancel();
  }
}

async function measure(spec: HostMeterSpec, probe: HostProbe): Promise<HostInfo> {
  try {
    const [memory, disk, uptimeSec] = await Promise.all([
      memoryOf(probe),
      probe.disk(spec.defaultCwd),
      uptimeOf(probe, spec.clock),
    ]);
    return {
      hostname: text("hostname", probe.hostname()),
      os: probe.platform,
      osVersion: kernelVersion(probe.release),
      arch: archTriple(probe),
      cpuCount: positive("cpuCount", probe.cpuCount()),
      memTotalBytes: positive("memTotalBytes", memory.totalBytes),
      memFreeBytes: positive("memFreeBytes", memory.freeBytes),
      diskTotalBytes: positive("diskTotalBytes", disk.totalBytes),
      // A full disk has none left.
      diskFreeBytes: count("diskFreeBytes", disk.freeBytes),
      uptimeSec,
      lemonVersion: spec.lemonVersion,
      defaultCwd: spec.defaultCwd,
      user: text("user", probe.user()),
    };
  } catch (failure) {
    throw failure instanceof LemonError ? failure : failed("unreadable", failure);
  }
}

interface Memory {
  readonly totalBytes: number;
  /** Pages that hold nothing, not those that could be given up. */
  readonly freeBytes: number;
}

async function memoryOf(probe: HostProbe): Promise<Memory> {
  if (probe.platform === "linux") return parseMeminfo(await probe.readFile("/proc/meminfo"));
  const [total, pages] = await Promise.all([
    probe.run("/usr/sbin/sysctl", ["-n", "hw.memsize"]),
    probe.run("/usr/bin/vm_stat", []),
  ]);
  return { totalBytes: whole("memTotalBytes", total.trim()), freeBytes: parseVmStat(pages) };
}

async function uptimeOf(probe: HostProbe, clock: Clock): Promise<number> {
  if (probe.platform === "linux") return parseUptime(await probe.readFile("/proc/uptime"));
  const boot = parseBootTime(await probe.run("/usr/sbin/sysctl", ["-n", "kern.boottime"]));
  return count("uptimeSec", Math.floor(clock.nowMs() / 1_000) - boot);
}

/** `/proc/meminfo` (proc_meminfo(5)): lines of `Name:  number kB`, kB being 1,024 bytes. */
export function parseMeminfo(meminfo: string): Memory {
  const bytes = (name: string): number =>
    whole(name, new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(meminfo)?.[1]) * 1_024;
  return { totalBytes: bytes("MemTotal"), freeBytes: bytes("MemFree") };
}

/** `/proc/uptime`: seconds with two decimals, then the idle time. */
export function parseUptime(uptime: string): number {
  return whole("uptimeSec", /^(\d+)(?:\.\d+)?(?:\s|$)/.exec(uptime)?.[1]);
}

/** Free bytes from macOS's `vm_stat`: the page size in its headline, `Pages free:  N.` below. */
export function parseVmStat(report: string): number {
  const pageBytes = whole("memFreeBytes", /page size of (\d+) bytes/.exec(report)?.[1]);
  return pageBytes * whole("memFreeBytes", /^Pages free:\s+(\d+)\.$/m.exec(report)?.[1]);
}

/** Unix seconds from macOS's `kern.boottime`: `{ sec = 1730000000, usec = 0 } …`. */
export function parseBootTime(boottime: string): number {
  return whole("uptimeSec", /^\{ sec = (\d+),/.exec(boottime)?.[1]);
}

/** The numbers a kernel's release begins with: `6.1.0-25-amd64` is 6.1.0. */
export function kernelVersion(release: string): string {
  const version = /^\d+\.\d+(?:\.\d+)?/.exec(release)?.[0];
  if (version === undefined) throw failed("osVersion");
  return version;
}

const MACHINES: Readonly<Record<string, string>> = {
  x64: "x86_64",
  arm64: "aarch64",
  loong64: "loongarch64",
  ppc64: "powerpc64le",
};

/** `x86_64-unknown-linux-gnu`, `aarch64-apple-darwin24.1.0`: what a BEAM calls its system architecture. */
export function archTriple(
  probe: Pick<HostProbe, "platform" | "architecture" | "musl" | "release">,
): string {
  const machine = MACHINES[probe.architecture] ?? probe.architecture;
  if (probe.platform === "darwin") return `${machine}-apple-darwin${kernelVersion(probe.release)}`;
  if (probe.platform !== "linux") throw failed("arch");
  return `${machine}-unknown-linux-${probe.musl ? "musl" : "gnu"}`;
}

const execute = promisify(execFile);

const systemProbe: HostProbe = {
  platform: process.platform,
  architecture: process.arch,
  get musl() {
    return process.platform === "linux" && !hasNative("const char *gnu_get_libc_version()");
  },
  release: os.release(),
  hostname: os.hostname,
  user() {
    try {
      return os.userInfo().username;
    } catch {
      // An account that no user database knows: its number is what it is called.
      return String(process.geteuid?.());
    }
  },
  cpuCount: () => os.cpus().length,
  readFile: async (path) => await readFile(path, "latin1"),
  run: async (program, args) =>
    (await execute(program, [...args], { timeout: DEADLINE_MS })).stdout,
  async disk(path) {
    const { blocks, bavail, frsize } = await statfs(path);
    return { totalBytes: blocks * frsize, freeBytes: bavail * frsize };
  },
};

function whole(figure: string, digits: string | undefined): number {
  const value = Number(digits);
  if (digits === undefined || digits === "" || !Number.isSafeInteger(value)) throw failed(figure);
  return value;
}

function count(figure: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < 0) throw failed(figure);
  return value;
}

function positive(figure: string, value: number): number {
  if (count(figure, value) === 0) throw failed(figure);
  return value;
}

function text(figure: string, value: string): string {
  if (value === "") throw failed(figure);
  return value;
}

function failed(figure: string, cause?: unknown): LemonError {
  return new LemonError("measurement_failed", { details: { figure }, cause });
}
