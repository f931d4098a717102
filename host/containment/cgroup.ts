/**
 * Owns containment by cgroup v2: a cgroup for each run, below the worker's own (cgroups(7)).
 *
 * 1. A run is in its cgroup before its program starts: born there (glibc 2.39, kernel 5.7), else forked
 *    while this process itself stands in it for the moment of the fork. The event loop does nothing else
 *    in that moment, so no other child can be born there.
 * 2. No cgroup is killed while this process stands in it.
 * 3. Only a cgroup that is fit for a run (`cgroup-folder.ts`) is used, the first time and again.
 * 4. What a dead worker left is recognised by its lock, which nobody holds, and by nothing else.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  write,
  writeFileSync,
  writeSync,
} from "node:fs";
import { basename, join, resolve } from "node:path";
import { LemonError } from "../../protocol/errors.ts";
import { type FileLock, lockDirectory } from "../file-lock.ts";
import {
  canSpawnIntoCgroup,
  type NativeSpawn,
  type StandardStreams,
  spawnOnto,
} from "../native/spawn.ts";
import { CgroupFolder, isFrozen, removeTree, subfolders } from "./cgroup-folder.ts";
import type { Cell, Containment } from "./containment.ts";

/** Whose folders are ours to judge, and nobody else's. */
const FOLDER = /^lemon-runs-[0-9a-f]{16}$/;
/** Another worker's start can take a folder just made for abandoned. */
const ATTEMPTS = 3;
/** So long after a move the next one is fast. */
const WARM_MS = 4;

export class CgroupContainment implements Containment {
  readonly kind = "cgroup";
  readonly mark = null;
  readonly limit = null;
  readonly cgroup: string;
  readonly #lock: FileLock;
  /** Open `cgroup.procs` of the cgroup that this process lives in. */
  readonly #home: number;
  /** Open `cgroup.freeze` of the folder of all cells. */
  readonly #freeze: number;
  readonly #free: CgroupFolder[] = [];
  /** Whether a child can be born in a cgroup here. */
  #birth: "known" | "untried" | "refused" = canSpawnIntoCgroup() ? "untried" : "refused";
  #created = 0;
  #isHome = true;
  /** When this process was moved last. */
  #movedMs = Number.NEGATIVE_INFINITY;
  #warmUp: Promise<void> | null = null;
  #closed = false;

  private constructor(base: string, lock: FileLock, home: number, freeze: number) {
    this.cgroup = base;
    this.#lock = lock;
    this.#home = home;
    this.#freeze = freeze;
  }

  /** Null where no cgroup v2 is mounted, writable and killable (kernel 5.14). */
  static create(): CgroupContainment | null {
    const own = process.platform === "linux" ? ownCgroup() : null;
    if (own === null) return null;
    removeAbandoned(own);
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const containment = CgroupContainment.#tryBelow(own);
      if (containment !== null) return containment;
    }
    return null;
  }

  static #tryBelow(own: string): CgroupContainment | null {
    const base = join(own, `lemon-runs-${randomBytes(8).toString("hex")}`);
    const open: number[] = [];
    let lock: FileLock | undefined;
    let containment: CgroupContainment | undefined;
    try {
      mkdirSync(base);
      lock = holdNew(base);
      const home = openSync(join(own, "cgroup.procs"), constants.O_WRONLY);
      open.push(home);
      const freeze = openSync(join(base, "cgroup.freeze"), constants.O_RDONLY);
      open.push(freeze);
      containment = new CgroupContainment(base, lock, home, freeze);
      containment.#prove();
      return containment;
    } catch {
      for (const fd of open) closeSync(fd);
      // Where this process could not leave again, the lock is what keeps it from being taken for abandoned.
      if (containment?.isHome !== false) lock?.release();
      removeTree(base);
      return null;
    }
  }

  /** One way in and out, so that a machine that refuses it is found out before any run. */
  #prove(): void {
    const folder = this.#fitFolder();
    try {
      this.#standIn(folder, () => {});
      if (!this.#isHome) throw new Error("no way back");
    } catch (failure) {
      folder.remove();
      throw failure;
    }
    this.#free.push(folder);
  }

  prepare(): void {
    // One that was moved just now will still be warm when the start comes.
    const willCool = performance.now() - this.#movedMs > WARM_MS / 2;
    if (this.#birth === "refused" && willCool) this.#warmUp ??= this.#warm();
  }

  open(): Cell {
    return new CgroupCell(this, this.#fitFolder());
  }

  async spawnIn(
    folder: CgroupFolder,
    spec: NativeSpawn,
    streams: StandardStreams,
  ): Promise<number> {
    if (this.#birth !== "refused") {
      try {
        const pid = spawnOnto({ ...spec, cgroup: folder.directory }, streams);
        this.#birth = "known";
        return pid;
      } catch (failure) {
        // Where it was never done yet, it may be this kernel that refuses, and not the program that fails.
        if (this.#birth === "known") throw failure;
      }
    }
    // Looked at and acted upon in one turn: a warm-up that is under way would move this process out of
    // the cell in the very moment of the fork.
    while (!this.#closed && (this.#warmUp !== null || !this.#isWarm())) {
      this.#warmUp ??= this.#warm();
      await this.#warmUp;
    }
    if (this.#closed) throw new LemonError("spawn_failed", { details: { reason: "closed" } });
    const pid = this.#standIn(folder, () => spawnOnto(spec, streams));
    this.#birth = "refused";
    return pid;
  }

  #isWarm(): boolean {
    return performance.now() - this.#movedMs <= WARM_MS;
  }

  /**
   * The kernel's lock for moving a process takes milliseconds to get when none was moved lately (it waits
   * for an RCU grace period). A move to where this process is already, on a pool thread, makes the moves
   * that follow fast.
   */
  async #warm(): Promise<void> {
    // Whether it worked shows when it counts.
    await new Promise<void>((resolve) => write(this.#home, "0", () => resolve()));
    this.#movedMs = performance.now();
    this.#warmUp = null;
  }

  #standIn<T>(folder: CgroupFolder, act: () => T): T {
    folder.enter();
    this.#isHome = false;
    try {
      return act();
    } finally {
      this.#goHome();
    }
  }

  #goHome(): void {
    try {
      writeSync(this.#home, "0");
      this.#isHome = true;
      this.#movedMs = performance.now();
    } catch {
      // The home was taken away from us. `kill` knows: no cell is killed from inside.
    }
  }

  /** Whether this process stands in no cell. */
  get isHome(): boolean {
    return this.#isHome;
  }

  #fitFolder(): CgroupFolder {
    if (isFrozen(this.#freeze)) {
      throw new LemonError("spawn_failed", { details: { reason: "cgroup_frozen" } });
    }
    for (let folder = this.#free.pop(); folder !== undefined; folder = this.#free.pop()) {
      if (folder.isFit) return folder;
      folder.remove();
    }
    this.#created += 1;
    return CgroupFolder.make(join(this.cgroup, `run-${this.#created}`));
  }

  /** One that is fit is kept for the next run; another is removed, at the latest by `close`. */
  giveBack(folder: CgroupFolder): void {
    if (folder.isFit) this.#free.push(folder);
    else folder.remove();
  }

  async close(): Promise<void> {
    this.#closed = true;
    // Its descriptor must not become another file's under it.
    if (this.#warmUp !== null) await this.#warmUp;
    for (const folder of this.#free.splice(0)) folder.remove();
    removeTree(this.cgroup);
    for (const fd of [this.#home, this.#freeze]) closeSync(fd);
    this.#lock.release();
  }
}

/** Locks a folder just made. Should another worker have taken it for abandoned, it is gone. */
function holdNew(base: string): FileLock {
  const lock = lockDirectory(base);
  if (lock === null) throw new Error("taken for abandoned");
  if (existsSync(join(base, "cgroup.kill"))) return lock;
  lock.release();
  throw new Error("no cgroup.kill");
}

class CgroupCell implements Cell {
  readonly #containment: CgroupContainment;
  readonly #folder: CgroupFolder;

  constructor(containment: CgroupContainment, folder: CgroupFolder) {
    this.#containment = containment;
    this.#folder = folder;
  }

  spawn(spec: NativeSpawn, streams: StandardStreams): Promise<number> {
    return this.#containment.spawnIn(this.#folder, spec, streams);
  }

  get holdsAll(): boolean {
    return this.#containment.isHome;
  }

  kill(): void {
    if (!this.holdsAll) throw new LemonError("process_stop_failed");
    this.#folder.kill();
  }

  async clear(): Promise<boolean> {
    if (this.#folder.isEmpty) return true;
    if (!this.holdsAll) return false;
    this.kill();
    return await this.#folder.untilEmpty();
  }

  release(): void {
    this.#containment.giveBack(this.#folder);
  }
}

/** Ends and removes what workers left that were killed together with their reaper. */
function removeAbandoned(own: string): void {
  for (const folder of foldersOfWorkers(own)) {
    try {
      const lock = lockDirectory(folder);
      if (lock === null) continue;
      writeFileSync(join(folder, "cgroup.kill"), "1");
      removeTree(folder);
      lock.release();
    } catch {
      // Somebody else is removing it, or may.
    }
  }
}

function foldersOfWorkers(own: string): string[] {
  try {
    return subfolders(own).filter((folder) => FOLDER.test(basename(folder)));
  } catch {
    return [];
  }
}

/** The folder of the cgroup (v2) this process is in; null where none can be reached. */
function ownCgroup(): string | null {
  try {
    return cgroupFolder(
      readFileSync("/proc/self/mountinfo", "utf8"),
      readFileSync("/proc/self/cgroup", "utf8"),
    );
  } catch {
    return null;
  }
}

/** From the texts of `/proc/self/mountinfo` and `/proc/self/cgroup` (proc_pid_mountinfo(5), cgroups(7)). */
export function cgroupFolder(mountinfo: string, cgroups: string): string | null {
  const path = /^0::(\/.*)$/m.exec(cgroups)?.[1];
  // A path that starts with `/..` lies outside what this cgroup namespace can see.
  if (path === undefined || path.startsWith("/..")) return null;
  for (const line of mountinfo.split("\n")) {
    const [mount = "", filesystem = ""] = line.split(" - ");
    if (!filesystem.startsWith("cgroup2 ")) continue;
    const [, , , root, mountPoint] = mount.split(" ").map(unescapeMount);
    if (root === undefined || mountPoint === undefined) continue;
    const below = root === "/" ? path : withoutPrefix(path, root);
    if (below !== null) return resolve(mountPoint, `.${below}`);
  }
  return null;
}

/** What follows `root` in `path`, for a path at or below it. */
function withoutPrefix(path: string, root: string): string | null {
  if (path === root) return "";
  return path.startsWith(`${root}/`) ? path.slice(root.length) : null;
}

/** Space, tab, newline and backslash stand there as three octal digits. */
function unescapeMount(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}
