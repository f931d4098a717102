/**
 * Owns the saying of what strangers can make happen thousands of times a second: at once when it begins,
 * then at most once each `everyMs`, with how often it happened since. Each time is counted in some line.
 */
import type { Clock } from "../host/clock.ts";

const EVERY_MS = 10_000;

export function occasionally(
  clock: Clock,
  say: (times: number) => void,
  everyMs = EVERY_MS,
): () => void {
  let times = 0;
  let isQuiet = false;
  const tell = (): void => {
    if (times === 0) return;
    say(times);
    times = 0;
    isQuiet = true;
    clock.after(everyMs, () => {
      isQuiet = false;
      tell();
    });
  };
  return () => {
    times += 1;
    if (!isQuiet) tell();
  };
}
