/**
 * Owns the words of containment: what holds everything that one run started, however it forked,
 * detached or renamed itself, so that all of it can be ended.
 *
 * - `cgroup`: a cgroup (v2) for each run. Nothing escapes it but what its own account moves out.
 * - `subreaper`: session, group, parentage, a mark in the environment and one in a limit. What detaches,
 *   outlives its parent, clears its environment and also sets that limit escapes.
 */
import type { ChildExits } from "../child-exits.ts";
import type { NativeSpawn, StandardStreams } from "../native/spawn.ts";
import { CgroupContainment } from "./cgroup.ts";
import { SubreaperContainment } from "./subreaper.ts";

/** What holds one run. */
export interface Cell {
  /**
   * Whether the kernel knows what is in the cell, so that `kill` and `clear` reach all of it. If not, the
   * run's process group is to be signalled before `clear`.
   */
  readonly holdsAll: boolean;
  /** Starts the run's program inside the cell: it is there before its first instruction. The pid. Once. */
  spawn(spec: NativeSpawn, streams: StandardStreams): Promise<number>;
  /** Kills everything in the cell by one act of the kernel. Only where it `holdsAll`. */
  kill(): void;
  /**
   * After the leader has ended: ends whatever the run left behind and waits until it is gone. False when
   * something still lives after a few seconds.
   */
  clear(): Promise<boolean>;
  /** Gives the cell back. The leader is reaped, or never was. */
  release(): void;
}

export interface Containment {
  readonly kind: "cgroup" | "subreaper";
  /** For the reaper process: the folder of all cells, whose `cgroup.kill` ends them together. */
  readonly cgroup: string | null;
  /** For the reaper process: what stands in the environment of all runs; null when none is needed. */
  readonly mark: string | null;
  /** For the reaper process: the first digits of the limit of file locks of all runs; null when there is none. */
  readonly limit: string | null;
  /** Does what can be done for a start that is near, and is no harm when it never comes. */
  prepare(): void;
  /** A cell for one run. */
  open(): Cell;
  /** No cell is open any more. */
  close(): Promise<void>;
}

/** The strongest containment this machine offers. */
export function strongestContainment(exits: ChildExits): Containment {
  return CgroupContainment.create() ?? new SubreaperContainment(exits);
}
