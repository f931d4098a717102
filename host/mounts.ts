/**
 * Owns where an open object lies in its file system, whatever it is mounted as (proc_pid_mountinfo(5)): two
 * mounts of one folder are two paths, and one ground.
 *
 * 1. Told by the mount of the open object, never by a path that may name another by now.
 * 2. Bytes read as Latin-1: a path that is no UTF-8 equals itself only.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { entryAt, ITSELF } from "./native/entry.ts";
import { startsWith } from "./path-names.ts";

/** A place in one file system, and the names that lead to it from its top. */
export interface Ground {
  readonly device: string;
  readonly names: readonly string[];
}

interface Mount {
  readonly root: Ground;
  /** Where this process sees it. */
  readonly point: readonly string[];
}

export class Mounts {
  readonly #mounts: ReadonlyMap<bigint, Mount>;

  constructor(mountinfo: string) {
    this.#mounts = new Map(mountinfo.split("\n").flatMap(mountIn));
  }

  /** As this process has them now. */
  static now(): Mounts {
    return new Mounts(readFileSync("/proc/self/mountinfo", "latin1"));
  }

  /** What a mount shows; null for one of another mount namespace, or that is gone. */
  rootOf(mountId: bigint): Ground | null {
    return this.#mounts.get(mountId)?.root ?? null;
  }

  /** Where an open directory lies; null when its mount is none of this process. */
  groundOf(directory: number): Ground | null {
    const mount = this.#mounts.get(entryAt(directory, ITSELF).mountId);
    const path = pathOf(directory);
    if (mount === undefined || !startsWith(path, mount.point)) return null;
    const { device, names } = mount.root;
    return { device, names: [...names, ...path.slice(mount.point.length)] };
  }

  /** What is mounted on or below an open directory. */
  below(directory: number): Ground[] {
    const path = pathOf(directory);
    return [...this.#mounts.values()]
      .filter(({ point }) => startsWith(point, path))
      .map(({ root }) => root);
  }
}

export function liesIn(one: Ground, other: Ground): boolean {
  return one.device === other.device && startsWith(one.names, other.names);
}

function pathOf(directory: number): string[] {
  return namesOf(readlinkSync(`/proc/self/fd/${directory}`, "latin1"));
}

/** `36 35 98:0 /root /point …`: the ids of a mount and of its parent, device, root and mount point. */
function mountIn(line: string): [bigint, Mount][] {
  const [id, , device, root, point] = line.split(" ");
  if (id === undefined || device === undefined || root === undefined || point === undefined)
    return [];
  return [[BigInt(id), { root: { device, names: written(root) }, point: written(point) }]];
}

/** Space, tab, newline and backslash stand in octal. */
function written(path: string): string[] {
  const unescaped = path.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
  return namesOf(unescaped);
}

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "");
}
