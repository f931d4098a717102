/**
 * Owns a program that changes a tree thousands of times a second while others work on it: exchanges,
 * adds, touches, writes. It never removes or replaces an object: what is missing afterwards, others removed.
 *
 * Run as `node file-storm.ts ARENA`. On its input `go path MS` or `go descriptor MS` (reaching the tree by
 * its path each time, or by directories opened at the start) begins, and it rests after so many ms; `stop`
 * ends; then one line tells what was done: a `StormReport`.
 */
import {
  appendFileSync,
  chmodSync,
  closeSync,
  fstatSync,
  lstatSync,
  lutimesSync,
  openSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { openDirectory, openDirectoryAt } from "../../host/native/directory.ts";
import { renameAt } from "../../host/native/entry.ts";
import { checked, native } from "../../host/native/library.ts";
import { errnoOf, SystemError } from "../../host/system-error.ts";

export interface StormReport {
  /** Changes that succeeded: when each began and ended, by the monotonic clock of the machine, in nanoseconds. */
  readonly changes: readonly (readonly [string, string])[];
  /** Files that were made: what they contain, and their inode. */
  readonly made: readonly (readonly [string, string])[];
}

export const TREE = "root/tree";
export const VAULT = "root/vault";
export const FOLDERS = ["", "sub", "sub/deep"] as const;
export const FILES = 8;

const RENAME_EXCHANGE = 2;
const BATCH = 32;
const renameat2 = native("int renameat2(int, const char *, int, const char *, unsigned int)");

type Mode = "path" | "descriptor";

class Storm {
  readonly #arena: string;
  readonly #vault: string;
  readonly #mode: Mode;
  /** In the mode `descriptor`: the folders of the tree, opened at the start. */
  readonly #fds: readonly number[];
  readonly changes: [string, string][] = [];
  readonly made: [string, string][] = [];
  readonly #until: number;
  #ended = false;

  constructor(arena: string, mode: Mode, ms: number) {
    this.#until = performance.now() + ms;
    this.#arena = arena;
    this.#vault = join(arena, VAULT);
    this.#mode = mode;
    this.#fds = mode === "path" ? [] : FOLDERS.map((folder) => this.#open(folder));
  }

  run(): void {
    if (this.#ended) return;
    for (let n = 0; n < BATCH && performance.now() < this.#until; n += 1) this.#change();
    if (performance.now() >= this.#until) return;
    setImmediate(() => this.run());
  }

  end(): void {
    this.#ended = true;
    for (const fd of this.#fds) closeSync(fd);
  }

  #change(): void {
    const began = process.hrtime.bigint();
    const opened: number[] = [];
    try {
      this.#act(() => {
        const fd = this.#mode === "path" ? this.#open(pick(FOLDERS)) : pick(this.#fds);
        if (this.#mode === "path") opened.push(fd);
        return `/proc/self/fd/${fd}`;
      });
    } catch (failure) {
      if (errnoOf(failure) === null) throw failure;
      return;
    } finally {
      for (const fd of opened) closeSync(fd);
    }
    this.changes.push([String(began), String(process.hrtime.bigint())]);
  }

  /** A folder of the tree as it is now; no link leads out of it. */
  #open(folder: string): number {
    let fd = openDirectory(join(this.#arena, TREE));
    for (const name of folder.split("/").filter((part) => part !== "")) {
      const above = fd;
      try {
        fd = openDirectoryAt(above, name);
      } finally {
        closeSync(above);
      }
    }
    return fd;
  }

  /** Changes the tree once, or throws. */
  #act(folder: () => string): void {
    const file = () => join(folder(), `file-${random(FILES)}`);
    const kept = (kind: string) => join(this.#vault, `${kind}-${random(FILES)}`);
    const acts = [
      () => this.#make(folder()),
      () => exchange(file(), kept("file")),
      () => exchange(file(), kept("link")),
      () => exchange(file(), kept("folder")),
      () => lutimesSync(file(), random(1_000), random(1_000)),
      () => chmodSync(noLink(file()), random(2) === 0 ? 0o600 : 0o644),
      () => appendFileSync(noLink(file()), " more"),
      () => renameTo(file(), kept("taken")),
      () => renameTo(kept("taken"), file()),
      () => renameTo(join(folder(), `new-${random(8)}`), kept(`old-${process.hrtime.bigint()}`)),
    ];
    const tree = join(this.#arena, TREE);
    if (this.#mode === "path")
      acts.push(
        () => exchange(join(folder(), "sub"), kept("folder")),
        () => exchange(join(folder(), "deep"), kept("link")),
        () => exchange(tree, kept("folder")),
        () => exchange(tree, kept("link")),
      );
    pick(acts)();
  }

  #make(folder: string): void {
    const id = `made-${process.hrtime.bigint()}`;
    const fd = openSync(join(folder, `new-${random(8)}`), "wx");
    this.made.push([id, String(fstatSync(fd, { bigint: true }).ino)]);
    writeSync(fd, id);
    closeSync(fd);
  }
}

/** The path of what is no link: only this program puts links there. */
function noLink(path: string): string {
  if (!lstatSync(path).isFile()) throw new SystemError("lstat", "ELOOP");
  return path;
}

function random(below: number): number {
  return Math.floor(Math.random() * below);
}

function pick<T>(items: readonly T[]): T {
  const item = items[random(items.length)];
  if (item === undefined) throw new RangeError("nothing to pick from");
  return item;
}

const AT_FDCWD = -100;

function exchange(one: string, other: string): void {
  checked("renameat2", renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE));
}

function renameTo(from: string, to: string): void {
  renameAt(AT_FDCWD, Buffer.from(from), AT_FDCWD, Buffer.from(to));
}

const [, , arena] = process.argv;
if (import.meta.main && arena !== undefined) {
  let storm: Storm | null = null;
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, mode, ms] = line.split(" ");
    storm?.end();
    if (command === "go") {
      storm = new Storm(arena, mode === "descriptor" ? "descriptor" : "path", Number(ms));
      storm.run();
      process.stdout.write("going\n");
    } else {
      const { changes, made } = storm ?? { changes: [], made: [] };
      process.stdout.write(`${JSON.stringify({ changes, made } satisfies StormReport)}\n`);
      storm = null;
    }
  }
}
