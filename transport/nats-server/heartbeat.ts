/**
 * Owns whether a nats-server still answers. One that hangs keeps its process and its sockets, so nothing
 * tells of it: it is asked, as a client that connects asks, and answers without its disk.
 *
 * 1. One silence is told, once, after three beats in a row without an answer: 9 to 12 s of it.
 * 2. Beats that this process itself was late for say nothing about the server.
 */
import type { Clock } from "../../host/clock.ts";
import { readServerInfo } from "./ready.ts";

export const BEAT_MS = 3_000;
const BEATS_MISSED = 3;
/** A beat later than this was held up here: frozen, or kept busy. */
const LATE_MS = 1_000;

/** Asks from now on. Returns the way to stop; after a silence it has stopped by itself. */
export function listenForBeats(
  port: number,
  clock: Clock,
  onSilence: (silentMs: number) => void,
): () => void {
  let cancel = (): void => {};
  let answeredMs = clock.monotonicMs();
  let missed = 0;

  function beat(): void {
    const askedMs = clock.monotonicMs();
    let answered = false;
    readServerInfo(port, clock, BEAT_MS).then(
      () => {
        answered = true;
        answeredMs = clock.monotonicMs();
      },
      () => {},
    );
    cancel = clock.after(BEAT_MS, () => {
      if (answered) missed = 0;
      else if (clock.monotonicMs() - askedMs < BEAT_MS + LATE_MS) missed += 1;
      if (missed < BEATS_MISSED) beat();
      else onSilence(Math.round(clock.monotonicMs() - answeredMs));
    });
  }

  beat();
  return () => cancel();
}
