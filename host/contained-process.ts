/**
 * Owns one native process from its start to its release: its streams, its exit, its stop. The
 * invariants are those of `spawner.ts`.
 */
import { LemonError } from "../protocol/errors.ts";
import type { ChildExits } from "./child-exits.ts";
import type { Clock } from "./clock.ts";
import type { Cell } from "./containment/containment.ts";
import type { Exit } from "./native/wait.ts";
import type { Signal } from "./process-identity.ts";
import type { ProcessStreams } from "./process-streams.ts";
import { hasEnded, readAllRows } from "./process-table.ts";
import type { NativeProcess, StopPolicy } from "./spawner.ts";
import { errnoOf } from "./system-error.ts";

interface Surroundings {
  readonly streams: ProcessStreams;
  readonly cell: Cell;
  readonly exits: ChildExits;
  readonly clock: Clock;
  readonly killGroup: KillGroup;
  /** Called right before the leader is reaped. */
  readonly onReap: () => void;
}

/** Signals the group that `leader` leads (kill(2)); throws a system error. */
export type KillGroup = (leader: number, signal: Signal) => void;

export class ContainedProcess implements NativeProcess {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  readonly #with: Surroundings;
  #hasExited = false;
  /** The deadly signal was sent, to the group or to all in the cell. */
  #killed = false;
  #released = false;
  #reaped = false;
  #asked: Promise<void> | undefined;

  constructor(pid: number, surroundings: Surroundings) {
    this.#with = surroundings;
    this.pid = pid;
    this.exited = surroundings.exits.watch(pid).then((exit) => {
      this.#hasExited = true;
      if (this.#released) this.#reap();
      return exit;
    });
  }

  async stop(policy: StopPolicy): Promise<void> {
    if (this.#hasExited || this.#killed) return;
    if (policy.first === "SIGKILL") this.#kill();
    else await this.#askFirst(policy.graceMs);
  }

  async clear(): Promise<boolean> {
    if (!this.#with.cell.holdsAll && !this.#killed) {
      try {
        this.#signalGroup("SIGKILL");
      } catch {
        // The dead leader alone can be what may not be signalled (it had taken on another account).
        if (this.#othersLive()) return false;
      }
    }
    return await this.#with.cell.clear();
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#with.streams.close();
    if (this.#hasExited) this.#reap();
  }

  /** All of it at once, for the end of the worker. */
  async end(): Promise<void> {
    try {
      await this.stop({ first: "SIGKILL" });
      await this.exited;
      await this.clear();
    } finally {
      this.release();
    }
  }

  async #askFirst(graceMs: number): Promise<void> {
    this.#asked ??= this.#ask(graceMs);
    await this.#asked;
  }

  async #ask(graceMs: number): Promise<void> {
    this.#signalGroup("SIGTERM");
    let cancelTimer = (): void => {};
    const grace = new Promise<void>((resolve) => {
      cancelTimer = this.#with.clock.after(graceMs, resolve);
    });
    await Promise.race([this.exited, grace]);
    cancelTimer();
    if (!this.#hasExited && !this.#killed) this.#kill();
  }

  #kill(): void {
    if (!this.#killWithCell()) this.#signalGroup("SIGKILL");
    this.#killed = true;
  }

  #killWithCell(): boolean {
    if (!this.#with.cell.holdsAll) return false;
    try {
      this.#with.cell.kill();
      return true;
    } catch {
      return false;
    }
  }

  /** Only while the leader is unreaped, which keeps the group's number from meaning anybody else. */
  #signalGroup(signal: Signal): void {
    if (this.#reaped) return;
    try {
      this.#with.killGroup(this.pid, signal);
    } catch (failure) {
      const errno = errnoOf(failure);
      if (errno === "ESRCH") return;
      throw new LemonError("process_stop_failed", { details: { errno }, cause: failure });
    }
  }

  #othersLive(): boolean {
    if (process.platform !== "linux") return true;
    return readAllRows().some(
      (row) => row.group === this.pid && row.pid !== this.pid && !hasEnded(row),
    );
  }

  #reap(): void {
    if (this.#reaped) return;
    this.#reaped = true;
    this.#with.onReap();
    this.#with.exits.reap(this.pid);
    this.#with.cell.release();
  }
}
