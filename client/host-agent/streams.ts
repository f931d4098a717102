/**
 * Owns a stream of the host-agent as an async iterable that outlives cuts.
 *
 * 1. After a cut it comes back with the id of the last frame it gave out: none is given twice, and what the host
 *    no longer has it says itself, with one `{lost: true}`.
 * 2. It ends where the host ends it. A host that is silent for `SILENT_MS` (it sends a comment every 15 s) is taken
 *    for cut off.
 * 3. It reads no faster than it is iterated; breaking off the loop closes the connection.
 */
import type { IncomingMessage } from "node:http";
import { Backoff, type BackoffPolicy } from "../backoff.ts";
import type { Timers } from "../timers.ts";
import { HostAgentCallError } from "./errors.ts";
import { abortCode, failure, type Input, type Requests, type Target } from "./request.ts";
import { EventReader } from "./sse.ts";

export interface StreamOptions {
  readonly signal?: AbortSignal;
  /** Begin behind this id; default: with all that the host still has. */
  readonly after?: string;
  /** For how long a stream that was cut is tried again, in ms, from each cut on. Default 60,000; 0: never. */
  readonly patienceMs?: number;
}

/** One frame and its id, to begin behind it another time. */
export interface Frame<T> {
  readonly id: string;
  readonly data: T;
}

const SILENT_MS = 45_000;
const PATIENCE_MS = 60_000;
const RETRY: BackoffPolicy = { firstMs: 200, maxMs: 5_000, resetAfterMs: 1_000 };
/** What may be otherwise a moment later. */
const PASSING: ReadonlySet<string> = new Set([
  "unreachable",
  "no-answer",
  "shutting-down",
  "unavailable",
  "too-many-streams",
]);

export async function* frames<T>(
  requests: Requests,
  target: Target,
  input: Input,
  options: StreamOptions,
  timers: Timers,
): AsyncGenerator<Frame<T>, void, undefined> {
  const { signal, patienceMs = PATIENCE_MS } = options;
  const backoff = new Backoff(RETRY, Math.random);
  let lastEventId = options.after;
  let cutMs: number | null = null;
  for (;;) {
    const connectedMs = timers.monotonicMs();
    try {
      const head = { ...input, lastEventId, signal };
      const answer = await requests.open(target, head);
      for await (const { id, data } of eventsOf(answer, timers)) {
        cutMs = null;
        lastEventId = id ?? lastEventId;
        yield { id: lastEventId ?? "", data: JSON.parse(data) as T };
      }
      return;
    } catch (cut) {
      if (signal?.aborted) throw failure(abortCode(signal), target, input, { cause: cut });
      if (cut instanceof SyntaxError || cut instanceof RangeError) {
        throw failure("bad-answer", target, input, { cause: cut });
      }
      // An answer that refuses for good is the caller's to hear; so is the first one that is refused at all.
      const isFirst = cutMs === null && lastEventId === options.after;
      if (cut instanceof HostAgentCallError && (isFirst || !PASSING.has(cut.code))) throw cut;
      cutMs ??= timers.monotonicMs();
      if (timers.monotonicMs() - cutMs >= patienceMs) {
        throw failure("stream-lost", target, input, { cause: cut });
      }
    }
    backoff.lasted(timers.monotonicMs() - connectedMs);
    await pause(backoff.next(), timers, signal);
  }
}

async function* eventsOf(
  answer: IncomingMessage,
  timers: Timers,
): AsyncGenerator<{ readonly id: string | null; readonly data: string }> {
  const reader = new EventReader();
  let cancelSilence = (): void => {};
  const heard = (): void => {
    cancelSilence();
    cancelSilence = timers.after(SILENT_MS, () => answer.destroy(new Error("silent")));
  };
  heard();
  try {
    for await (const chunk of answer) {
      heard();
      yield* reader.read(chunk);
    }
    if (!answer.complete) throw new Error("the stream was cut");
  } finally {
    cancelSilence();
    answer.destroy();
  }
}

async function pause(delayMs: number, timers: Timers, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = timers.after(delayMs, done);
    signal?.addEventListener("abort", done, { once: true });
  });
}
