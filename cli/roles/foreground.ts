/**
 * Owns the life of a role in the foreground: it serves until a signal asks it to end, or until its
 * tree gave up.
 *
 * 1. The first SIGTERM or SIGINT drains: what runs may finish within `DRAIN_MS`, then it is cancelled.
 * 2. A second one hurries: what runs is cancelled at once. A third one is not ours any more: it ends the
 *    process as it would any other, so that nothing can hang for ever.
 * 3. A signal that comes before the role serves gives its start up, in order.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { ActorSystem, Death } from "../../supervision/actor.ts";

/** What still runs gets this long after the first signal. */
export const DRAIN_MS = 10_000;
const SIGNALS = ["SIGINT", "SIGTERM"] as const;

export interface Foreground extends Disposable {
  /** Aborted by the first signal. */
  readonly asked: AbortSignal;
  /** Aborted `DRAIN_MS` after the first signal, or by the second. */
  readonly hurry: AbortSignal;
}

/** Takes the signals over from Node, whose default would end the process at once. */
export function takeForeground(): Foreground {
  const asked = new AbortController();
  const hurry = new AbortController();
  let drain: NodeJS.Timeout | undefined;
  const giveBack = (): void => {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
  const onSignal = (): void => {
    if (asked.signal.aborted) {
      giveBack();
      hurry.abort();
    } else {
      drain = setTimeout(() => hurry.abort(), DRAIN_MS);
      asked.abort();
    }
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    asked: asked.signal,
    hurry: hurry.signal,
    [Symbol.dispose]() {
      clearTimeout(drain);
      giveBack();
    },
  };
}

/**
 * Runs a part of a start. Asked to end meanwhile, the tree ends, which no start outlives for long.
 * Errors: `aborted`; those of the start.
 */
export async function unlessAsked<T>(
  asked: AbortSignal,
  system: ActorSystem,
  start: () => Promise<T>,
): Promise<T> {
  const giveUp = (): void => void system.shutdown();
  asked.addEventListener("abort", giveUp, { once: true });
  try {
    asked.throwIfAborted();
    return await start();
  } catch (cause) {
    throw asked.aborted ? new LemonError("aborted", { cause }) : cause;
  } finally {
    asked.removeEventListener("abort", giveUp);
  }
}

/** Whether a role ended because it was asked to before it served. */
export function wasGivenUp(failure: unknown): boolean {
  return failure instanceof LemonError && failure.code === "aborted";
}

/** Resolves once a signal asked. Errors: `restart_intensity_exceeded` when the tree gave up before that. */
export async function untilAsked({ asked }: Foreground, ended: Promise<Death>): Promise<void> {
  const died = await Promise.race([aborted(asked), ended]);
  if (died === null || asked.aborted) return;
  throw new LemonError("restart_intensity_exceeded", {
    message: "A service failed again and again, so everything was stopped; the log says which",
  });
}

function aborted(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null);
    else signal.addEventListener("abort", () => resolve(null), { once: true });
  });
}
