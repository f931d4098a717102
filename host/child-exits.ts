/**
 * Owns the news that a child of this process has ended: SIGCHLD, then waitid(2) on exact pids. Nothing
 * is polled, and no child of libuv's is ever touched.
 *
 * 1. An exit is told exactly once, and the child stays unreaped until `reap`: so long its pid, and the
 *    number of the group it led, belong to nobody else.
 * 2. While a child is watched (unless told otherwise), this process does not end for want of other work.
 */
import { type Exit, peekExit, reap } from "./native/wait.ts";

/** Any length; the handle, not the time, is what keeps the process alive. */
const KEEP_ALIVE_MS = 1 << 30;

export class ChildExits {
  readonly #watched = new Map<number, (exit: Exit) => void>();
  readonly #listeners = new Set<() => void>();
  readonly #unreaped = new Set<number>();
  /** Those whose end this process stays for. */
  readonly #awaited = new Set<number>();
  #keepAlive: NodeJS.Timeout | undefined;
  readonly #onSignal = (): void => this.#look();

  constructor() {
    process.on("SIGCHLD", this.#onSignal);
  }

  /** Children watched here and not reaped yet. */
  get children(): ReadonlySet<number> {
    return this.#unreaped;
  }

  /** Resolves when the child has ended. To be called in the turn of the event loop that started it. */
  watch(pid: number, { keepAlive = true } = {}): Promise<Exit> {
    this.#unreaped.add(pid);
    if (keepAlive) {
      this.#awaited.add(pid);
      this.#keepAlive ??= setInterval(() => {}, KEEP_ALIVE_MS);
    }
    return new Promise((resolve) => this.#watched.set(pid, resolve));
  }

  /** Reaps a child whose exit was told. */
  reap(pid: number): void {
    if (this.#unreaped.delete(pid)) reap(pid);
  }

  /** Calls `onNews` whenever some child, of whomever, may have ended. Returns the way to stop. */
  onNews(onNews: () => void): () => void {
    this.#listeners.add(onNews);
    return () => this.#listeners.delete(onNews);
  }

  close(): void {
    process.off("SIGCHLD", this.#onSignal);
    this.#awaited.clear();
    this.#letGo();
  }

  #look(): void {
    for (const [pid, tell] of this.#watched) {
      const exit = peekExit(pid);
      if (exit === null) continue;
      this.#watched.delete(pid);
      this.#awaited.delete(pid);
      tell(exit);
    }
    this.#letGo();
    for (const listener of this.#listeners) listener();
  }

  #letGo(): void {
    if (this.#awaited.size > 0) return;
    clearInterval(this.#keepAlive);
    this.#keepAlive = undefined;
  }
}
