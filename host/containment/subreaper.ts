/**
 * Owns containment without cgroups: a run leads a session and a group of its own, carries two marks, in
 * its environment and as a limit that nothing else uses, and its orphans are handed to this process
 * (PR_SET_CHILD_SUBREAPER, prctl(2)).
 *
 * 1. A straggler is ended only when it is proven to be the run's: by session or group (the unreaped
 *    leader keeps the number), by a mark, or as a descendant of one that is.
 * 2. It is signalled through its identity, never by its pid alone.
 * 3. Where nobody adopts orphans for us (macOS), the group is all there is.
 *
 * The limit is the mark that stays: a program clears its environment for good reasons, and has none to
 * set this limit. One that does both, detaches and outlives its parent is found by nobody.
 */
import { randomBytes, randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { setImmediate, setTimeout } from "node:timers/promises";
import { LemonError } from "../../protocol/errors.ts";
import type { ChildExits } from "../child-exits.ts";
import { lockLimitOf, withLockLimit } from "../native/lock-limit.ts";
import { isSubreaper, setSubreaper } from "../native/prctl.ts";
import { type NativeSpawn, type StandardStreams, spawnOnto } from "../native/spawn.ts";
import { identityOfRow, signalProcess } from "../process-identity.ts";
import { childrenOf, hasEnded, type ProcessRow, readProcessRow } from "../process-table.ts";
import type { Cell, Containment } from "./containment.ts";

/** The variable that marks a run and all that inherits its environment. */
const MARK = "LEMON_RUN";
/** The limit that marks a run: twelve digits of this life's own, then six of the run's. */
const LIVES = { from: 100_000_000_000, to: 1_000_000_000_000 } as const;
const RUNS = 1_000_000;
/** A killed process is given this long to go: only uninterruptible sleep takes longer. */
const CLEAR_WITHIN_MS = 2_000;
/** Becoming another program takes far less; what is unclear for longer was given no environment. */
const UNCLEAR_WITHIN_MS = 100;
const LOOK_AGAIN_MS = 5;
/** Thousands take long to look at, and not every death among them is worth another look at once. */
const LONG_LOOK_MS = 50;
/** For so long a look may hold up everything else that this process does. */
const HOLD_UP_MS = 5;

export class SubreaperContainment implements Containment {
  readonly kind = "subreaper";
  readonly cgroup = null;
  readonly #life = randomBytes(16).toString("hex");
  readonly mark = `${MARK}=${this.#life}`;
  readonly limit: string | null;
  readonly #exits: ChildExits;
  #wasSubreaper = false;
  #opened = 0;

  constructor(exits: ChildExits) {
    this.#exits = exits;
    this.limit = process.platform === "linux" ? usableLimit() : null;
    if (process.platform !== "linux") return;
    this.#wasSubreaper = isSubreaper();
    setSubreaper(true);
  }

  prepare(): void {}

  open(): Cell {
    this.#opened += 1;
    const run = String(this.#opened % RUNS).padStart(6, "0");
    const limit = this.limit === null ? null : BigInt(`${this.limit}${run}`);
    return new MarkedCell(`${this.mark}.${this.#opened}`, limit, this.#exits);
  }

  /** Leaves this process as it was found. */
  async close(): Promise<void> {
    if (process.platform === "linux") setSubreaper(this.#wasSubreaper);
  }
}

/** The digits of this life; null where the limit can not be set, or not be seen. */
function usableLimit(): string | null {
  const life = String(randomInt(LIVES.from, LIVES.to));
  const limit = BigInt(life) * BigInt(RUNS);
  try {
    return withLockLimit(limit, () => lockLimitOf(process.pid)) === limit ? life : null;
  } catch {
    return null;
  }
}

type Owned = "yes" | "no" | "unclear";

interface Look {
  /** Live processes of the run; each was sent the signal. */
  ours: number;
  unclear: boolean;
  /** Nothing was handed to us meanwhile. */
  complete: boolean;
  readonly tookMs: number;
}

/** A process to look at, below one that is the run's or not. */
interface Suspect {
  readonly pid: number;
  readonly parentIsOurs: boolean;
}

class MarkedCell implements Cell {
  readonly holdsAll = false;
  readonly #mark: string;
  readonly #limit: bigint | null;
  readonly #exits: ChildExits;
  #leader: ProcessRow | null = null;

  constructor(mark: string, limit: bigint | null, exits: ChildExits) {
    this.#mark = mark;
    this.#limit = limit;
    this.#exits = exits;
  }

  async spawn(spec: NativeSpawn, streams: StandardStreams): Promise<number> {
    const environment = [...spec.environment, this.#mark];
    const born = (): number => spawnOnto({ ...spec, environment }, streams);
    const pid = this.#limit === null ? born() : withLockLimit(this.#limit, born);
    try {
      this.#leader = readProcessRow(pid);
    } catch {
      // It only saves looking at older processes.
    }
    return pid;
  }

  kill(): void {
    throw new LemonError("process_stop_failed");
  }

  async clear(): Promise<boolean> {
    if (process.platform !== "linux") return true;
    const startedMs = performance.now();
    // A death meanwhile is a straggler's own or its parent's, and worth another look.
    let news = Promise.withResolvers<void>();
    const stop = this.#exits.onNews(() => news.resolve());
    try {
      for (;;) {
        news = Promise.withResolvers();
        const look = await this.#look();
        const leftMs = patienceMs(look) - (performance.now() - startedMs);
        if (leftMs <= 0) return look.ours === 0;
        await atMost(look.ours > 0 ? leftMs : LOOK_AGAIN_MS, news.promise);
        if (look.tookMs > LOOK_AGAIN_MS) await setTimeout(Math.min(look.tookMs, LONG_LOOK_MS));
      }
    } finally {
      stop();
    }
  }

  release(): void {}

  /**
   * One look for live processes of this run, each of which is ended. Its leader has ended, so whatever is
   * left hangs below one of this process's own children: usually there is none but other runs', and that
   * is all there is to see.
   */
  async #look(): Promise<Look> {
    const startedMs = performance.now();
    const look = { ours: 0, unclear: false, complete: true };
    const before = this.#strangers();
    const ahead: Suspect[] = before.map((pid) => ({ pid, parentIsOurs: false }));
    let breathedMs = startedMs;
    for (let suspect = ahead.pop(); suspect !== undefined; suspect = ahead.pop()) {
      this.#lookAt(suspect, look, ahead);
      if (performance.now() - breathedMs < HOLD_UP_MS) continue;
      await setImmediate();
      breathedMs = performance.now();
    }
    // What died while we looked had its children handed to us, perhaps after we had looked there.
    const known = new Set(before);
    look.complete = this.#strangers().every((pid) => known.has(pid));
    return { ...look, tookMs: performance.now() - startedMs };
  }

  /** Children of this process that are no run's leader. */
  #strangers(): number[] {
    return childrenOf(process.pid).filter((pid) => !this.#exits.children.has(pid));
  }

  #lookAt({ pid, parentIsOurs }: Suspect, look: Omit<Look, "tookMs">, ahead: Suspect[]): void {
    const row = readProcessRow(pid);
    if (row === null || hasEnded(row) || this.#isOlder(row)) return;
    const owned = parentIsOurs ? "yes" : this.#owns(row);
    if (owned === "unclear") look.unclear = true;
    for (const child of childrenOf(pid)) ahead.push({ pid: child, parentIsOurs: owned === "yes" });
    if (owned !== "yes") return;
    look.ours += 1;
    endNow(row);
  }

  /** What started before the leader does not descend from it, nor does anything below it that could be told. */
  #isOlder(row: ProcessRow): boolean {
    return this.#leader !== null && row.startTicks < this.#leader.startTicks;
  }

  #owns(row: ProcessRow): Owned {
    const leader = this.#leader?.pid;
    if (row.session === leader || row.group === leader) return "yes";
    if (this.#limit === null) return carries(row.pid, this.#mark);
    if (lockLimitOf(row.pid) === this.#limit) return "yes";
    return carries(row.pid, this.#mark) === "yes" ? "yes" : "no";
  }
}

/** Waits for `news`, and no longer than that. */
async function atMost(delayMs: number, news: Promise<void>): Promise<void> {
  const timer = new AbortController();
  const { signal } = timer;
  await Promise.race([news, setTimeout(delayMs, undefined, { signal }).catch(() => {})]);
  timer.abort();
}

/** How long after the first look it is worth looking again. */
function patienceMs({ ours, unclear, complete }: Look): number {
  if (ours > 0 || !complete) return CLEAR_WITHIN_MS;
  return unclear ? UNCLEAR_WITHIN_MS : 0;
}

function endNow(row: ProcessRow): void {
  try {
    signalProcess(identityOfRow(row), "SIGKILL");
  } catch {
    // It took on another account: it stays, and `clear` says so in the end.
  }
}

/**
 * Whether the environment that a process was started with holds this entry. Unclear while it has none to
 * be seen: it is just becoming another program, or ending, or it was given none.
 */
function carries(pid: number, entry: string): Owned {
  try {
    const environment = readFileSync(`/proc/${pid}/environ`, "latin1");
    if (environment === "") return "unclear";
    return environment.split("\0").includes(entry) ? "yes" : "no";
  } catch {
    return "no";
  }
}
