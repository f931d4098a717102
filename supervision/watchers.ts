/**
 * Owns who wants to hear of one life's end. Invariant: each of them hears at most once, and not at all
 * after it stopped watching, even when it stops while the others are being told.
 */
import type { Logger } from "pino";
import type { Death } from "./actor.ts";
import { codeOf, logFrames } from "./log.ts";

type OnDeath = (death: Death) => void;

export class Watchers {
  #watching: Set<{ readonly onDeath: OnDeath }> | null = null;

  /** Returns the way to stop watching. */
  add(onDeath: OnDeath): () => void {
    this.#watching ??= new Set();
    const watching = this.#watching;
    // The same function may watch twice, so each watch is an object of its own.
    const watcher = { onDeath };
    watching.add(watcher);
    return () => void watching.delete(watcher);
  }

  tell(death: Death, log: Logger): void {
    const watching = this.#watching;
    if (watching === null) return;
    for (const watcher of watching) {
      watching.delete(watcher);
      tellOne(watcher.onDeath, death, log);
    }
  }
}

/** For one that comes after the end: told soon, never inside its own call, unless it stops watching first. */
export function tellSoon(onDeath: OnDeath, death: Death, log: Logger): () => void {
  let watching = true;
  queueMicrotask(() => {
    if (watching) tellOne(onDeath, death, log);
  });
  return () => {
    watching = false;
  };
}

/** A watcher that throws is at fault alone: the others must still hear, and the kernel must go on. */
function tellOne(onDeath: OnDeath, death: Death, log: Logger): void {
  try {
    onDeath(death);
  } catch (error) {
    log.error({ actor: death.path, code: codeOf(error) }, "a watcher threw");
    logFrames(log, { actor: death.path }, error);
  }
}
