/**
 * Owns containment without cgroups: a run leads a session and a group of its own, carries a mark in its
 * environment, and its orphans are handed to this process (PR_SET_CHILD_SUBREAPER, prctl(2)).
 *
 * 1. A straggler is ended only when it is proven to be the run's: by session or group (the unreaped
 *    leader keeps the number), by the mark, or as a descendant of one that is.
 * 2. It is signalled through its identity, never by its pid alone.
 * 3. Where nobody adopts orphans for us (macOS), the group is all there is.
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import type { ChildExits } from "../child-exits.ts";
import { isSubreaper, setSubreaper } from "../native/prctl.ts";
import { type NativeChild, type NativeSpawn, spawnNative } from "../native/spawn.ts";
import { identityOfRow, signalProcess } from "../process-identity.ts";
import { childrenOf, hasEnded, type ProcessRow, readProcessRow } from "../process-table.ts";
import type { Cell, Containment } from "./containment.ts";

/** The variable that marks a run and all that inherits its environment. */
const MARK = "LEMON_RUN";
/** A killed process is given this long to go: only uninterruptible sleep takes longer. */
const CLEAR_WITHIN_MS = 2_000;

export class SubreaperContainment implements Containment {
  readonly kind = "subreaper";
  readonly cgroup = null;
  readonly #life = randomBytes(16).toString("hex");
  readonly mark = `${MARK}=${this.#life}`;
  readonly #exits: ChildExits;
  #wasSubreaper = false;
  #opened = 0;

  constructor(exits: ChildExits) {
    this.#exits = exits;
    if (process.platform !== "linux") return;
    this.#wasSubreaper = isSubreaper();
    setSubreaper(true);
  }

  open(): Cell {
    this.#opened += 1;
    return new MarkedCell(`${this.mark}.${this.#opened}`, this.#exits);
  }

  /** Leaves this process as it was found. */
  async close(): Promise<void> {
    if (process.platform === "linux") setSubreaper(this.#wasSubreaper);
  }
}

class MarkedCell implements Cell {
  readonly holdsAll = false;
  readonly #mark: string;
  readonly #exits: ChildExits;
  #leader: ProcessRow | null = null;

  constructor(mark: string, exits: ChildExits) {
    this.#mark = mark;
    this.#exits = exits;
  }

  async spawn(spec: NativeSpawn): Promise<NativeChild> {
    const child = spawnNative({ ...spec, environment: [...spec.environment, this.#mark] });
    try {
      this.#leader = readProcessRow(child.pid);
    } catch {
      // It only saves looking at older processes.
    }
    return child;
  }

  kill(): void {
    throw new LemonError("process_stop_failed");
  }

  async clear(): Promise<boolean> {
    if (process.platform !== "linux") return true;
    const until = performance.now() + CLEAR_WITHIN_MS;
    for (;;) {
      const stragglers = this.#stragglers();
      if (stragglers.length === 0) return true;
      for (const straggler of stragglers) endNow(straggler);
      const leftMs = until - performance.now();
      if (leftMs <= 0) return false;
      await this.#news(leftMs);
    }
  }

  release(): void {}

  /**
   * Live processes of this run. Its leader has ended, so whatever is left hangs below one of this
   * process's own children: usually there is none but other runs', and that is all there is to see.
   */
  #stragglers(): ProcessRow[] {
    const found: ProcessRow[] = [];
    for (const pid of childrenOf(process.pid)) {
      if (this.#exits.children.has(pid)) continue;
      this.#collect(pid, false, found);
    }
    return found;
  }

  #collect(pid: number, parentIsOurs: boolean, found: ProcessRow[]): void {
    const row = readProcessRow(pid);
    if (row === null || hasEnded(row) || this.#isOlder(row)) return;
    const ours = parentIsOurs || this.#owns(row);
    if (ours) found.push(row);
    for (const child of childrenOf(pid)) this.#collect(child, ours, found);
  }

  /** What started before the leader does not descend from it, nor does anything below it that could be told. */
  #isOlder(row: ProcessRow): boolean {
    return this.#leader !== null && row.startTicks < this.#leader.startTicks;
  }

  #owns(row: ProcessRow): boolean {
    const leader = this.#leader?.pid;
    return row.session === leader || row.group === leader || carries(row.pid, this.#mark);
  }

  /** The next death of some child; a straggler's own or its parent's is one. */
  #news(atMostMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(done, atMostMs);
      const stop = this.#exits.onNews(done);
      function done(): void {
        clearTimeout(timer);
        stop();
        resolve();
      }
    });
  }
}

function endNow(row: ProcessRow): void {
  try {
    signalProcess(identityOfRow(row), "SIGKILL");
  } catch {
    // It took on another account: it stays, and `clear` says so in the end.
  }
}

/** Whether the environment a process was started with holds this entry. */
function carries(pid: number, entry: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(entry);
  } catch {
    return false;
  }
}
