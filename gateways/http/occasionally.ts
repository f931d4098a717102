/**
 * Owns the saying of what strangers can make happen thousands of times a second: at once when it begins,
 * then at most once each `everyMs`, with how often it happened since.
 */
import type { Clock } from "../../host/clock.ts";

const EVERY_MS = 10_000;

export function occasionally(
  clock: Clock,
  say: (times: number) => void,
  everyMs = EVERY_MS,
): () => void {
  let saidAtMs = Number.NEGATIVE_INFINITY;
  let times = 0;
  return () => {
    times += 1;
    const nowMs = clock.monotonicMs();
    if (nowMs - saidAtMs < everyMs) return;
    saidAtMs = nowMs;
    say(times);
    times = 0;
  };
}
