/**
 * Owns one cgroup (v2) that a run is put into: the way in, what lives in it, its end and its removal
 * (cgroups(7)).
 *
 * 1. It is fit for a run only when, by the kernel's word, nothing lives in it or below it, and nobody
 *    froze it: whoever enters a frozen cgroup stops running, this process too.
 * 2. One that is gone holds nothing: the kernel removes none in which something lives.
 */
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmdirSync,
  watch,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../system-error.ts";

/** A cgroup is given this long to empty after `cgroup.kill`: only uninterruptible sleep takes longer. */
const EMPTY_WITHIN_MS = 2_000;
const LOOK_AGAIN_MS = 5;
/** What is read of a cgroup's files: two short lines at most. */
const TEXT = Buffer.alloc(128);
/** Links of a folder without folders in it. */
const LINKS_OF_A_LEAF = 2;

export class CgroupFolder {
  readonly path: string;
  /** Descriptor of the folder. */
  readonly directory: number;
  readonly #procs: number;
  readonly #events: number;
  readonly #freeze: number;
  /** The kernel did not let this process in. */
  #refuses = false;

  private constructor(
    path: string,
    directory: number,
    procs: number,
    events: number,
    freeze: number,
  ) {
    this.path = path;
    this.directory = directory;
    this.#procs = procs;
    this.#events = events;
    this.#freeze = freeze;
  }

  /** Throws what `node:fs` throws, and leaves nothing behind then. */
  static make(path: string): CgroupFolder {
    mkdirSync(path);
    const open: number[] = [];
    const opened = (name: string, flags: number): number => {
      const fd = openSync(join(path, name), flags);
      open.push(fd);
      return fd;
    };
    try {
      return new CgroupFolder(
        path,
        opened(".", constants.O_RDONLY | constants.O_DIRECTORY),
        opened("cgroup.procs", constants.O_WRONLY),
        opened("cgroup.events", constants.O_RDONLY),
        opened("cgroup.freeze", constants.O_RDONLY),
      );
    } catch (failure) {
      for (const fd of open) closeSync(fd);
      rmdirSync(path);
      throw failure;
    }
  }

  /** Puts this very process into it. */
  enter(): void {
    try {
      writeSync(this.#procs, "0");
    } catch (failure) {
      this.#refuses = true;
      throw failure;
    }
  }

  get isFit(): boolean {
    if (this.#refuses || !readAgain(this.#events).includes("populated 0")) return false;
    // Not `frozen` of the events: in one that was frozen while its last process ended it stays 0.
    if (isFrozen(this.#freeze)) return false;
    return fstatSync(this.directory).nlink === LINKS_OF_A_LEAF;
  }

  get isEmpty(): boolean {
    const events = readAgain(this.#events);
    return events === "" || events.includes("populated 0");
  }

  /** Kills all that lives in it and below it. */
  kill(): void {
    writeFileSync(join(this.path, "cgroup.kill"), "1");
  }

  /** True once it is empty; false when it is not after a few seconds. */
  async untilEmpty(): Promise<boolean> {
    return await new Promise((resolve) => {
      const settle = (empty: boolean): void => {
        stop();
        clearTimeout(timer);
        resolve(empty);
      };
      const look = (): void => {
        if (this.isEmpty) settle(true);
      };
      const stop = onChange(join(this.path, "cgroup.events"), look);
      const timer = setTimeout(() => settle(this.isEmpty), EMPTY_WITHIN_MS);
      look();
    });
  }

  /** Lets go of it, and removes it with those below it as far as they are empty. */
  remove(): void {
    for (const fd of [this.directory, this.#procs, this.#events, this.#freeze]) closeSync(fd);
    removeTree(this.path);
  }
}

/** The text of an open file of a cgroup as it is now; empty when the cgroup is gone. */
function readAgain(file: number): string {
  try {
    return TEXT.toString("latin1", 0, readSync(file, TEXT, 0, TEXT.length, 0));
  } catch (failure) {
    if (errnoOf(failure) === "ENODEV") return "";
    throw failure;
  }
}

/** Whether a cgroup itself was frozen, by its open `cgroup.freeze`. */
export function isFrozen(freeze: number): boolean {
  return readAgain(freeze).startsWith("1");
}

/** The kernel tells a change of `cgroup.events` as a modification of the file. Returns the way to stop. */
function onChange(path: string, look: () => void): () => void {
  try {
    const watcher = watch(path, look);
    watcher.on("error", () => {});
    return () => watcher.close();
  } catch {
    // This account has no watch left (inotify(7)), or the file is gone.
    const timer = setInterval(look, LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }
}

export function subfolders(path: string): string[] {
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(path, entry.name));
}

/** Removes a cgroup and those below it, as far as they are empty. */
export function removeTree(path: string): void {
  try {
    for (const inner of subfolders(path)) removeTree(inner);
    rmdirSync(path);
  } catch {
    // Populated, or gone already: a later start finds it by its lock.
  }
}
