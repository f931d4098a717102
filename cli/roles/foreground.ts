/**
 * Owns the life of a role in the foreground: it serves until a signal asks it to end, or until its
 * tree gave up.
 *
 * 1. The first SIGTERM or SIGINT drains: what runs may finish within `DRAIN_MS`, then it is cancelled.
 * 2. A second one hurries: what runs is cancelled at once.
 * 3. A signal that comes before the role serves is not lost.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { Death } from "../../supervision/actor.ts";

const DRAIN_MS = 10_000;
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
  const onSignal = (): void => {
    if (asked.signal.aborted) hurry.abort();
    else {
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
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
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
