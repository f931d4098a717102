/**
 * Owns a stream of the host-agent as an async iterable that outlives cuts.
 *
 * 1. After a cut it comes back with the id of the last frame it gave out: none is given twice, and what the host
 *    no longer has it says itself, with one `{lost: true}`.
 * 2. It ends where the host ends it. A host that is silent for `SILENT_MS` (it sends a comment every 15 s), while
 *    it is asked or listened to, is taken for cut off; how long the caller takes over a frame counts for nothing.
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
export const PATIENCE_MS = 60_000;
const RETRY: BackoffPolicy = { firstMs: 200, maxMs: 5_000, resetAfterMs: 1_000 };
/** What may be otherwise a moment later. */
const PASSING: ReadonlySet<string> = new Set([
  "unreachable",
  "no-answer",
  "timeout",
  "shutting-down",
  "unavailable",
  "too-many-streams",
  "stream-lost",
]);

/** Whether the same may succeed a moment later: the host-agent restarts, or has no place left. */
export function isPassing(failure: unknown): boolean {
  return failure instanceof HostAgentCallError && PASSING.has(failure.code);
}

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
    let openedMs: number | null = null;
    try {
      const answer = await opened(requests, target, { ...input, lastEventId, signal }, timers);
      openedMs = timers.monotonicMs();
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
      if (cut instanceof HostAgentCallError && (isFirst || !isPassing(cut))) throw cut;
      const nowMs = timers.monotonicMs();
      const stoodMs = openedMs === null ? 0 : nowMs - openedMs;
      backoff.lasted(stoodMs);
      // One that stood had come back, although it may have had nothing to say.
      if (cutMs === null || stoodMs >= RETRY.resetAfterMs) cutMs = nowMs;
      if (nowMs - cutMs >= patienceMs) throw failure("stream-lost", target, input, { cause: cut });
    }
    await pause(backoff.next(), timers, signal);
  }
}

/** The head of the stream. A process that is there and does not answer is `timeout`, after `SILENT_MS`. */
async function opened(
  requests: Requests,
  target: Target,
  input: Input,
  timers: Timers,
): Promise<IncomingMessage> {
  const silence = new AbortController();
  const cancel = timers.after(SILENT_MS, () =>
    silence.abort(new DOMException("silent", "TimeoutError")),
  );
  const given = input.signal === undefined ? [] : [input.signal];
  try {
    return await requests.open(target, {
      ...input,
      signal: AbortSignal.any([...given, silence.signal]),
    });
  } finally {
    cancel();
  }
}

async function* eventsOf(
  answer: IncomingMessage,
  timers: Timers,
): AsyncGenerator<{ readonly id: string | null; readonly data: string }> {
  const reader = new EventReader();
  const chunks: AsyncIterator<Uint8Array> = answer[Symbol.asyncIterator]();
  try {
    for (;;) {
      const cancel = timers.after(SILENT_MS, () => answer.destroy(new Error("silent")));
      const { done, value } = await chunks.next().finally(cancel);
      if (done) break;
      yield* reader.read(value);
    }
    if (!answer.complete) throw new Error("the stream was cut");
  } finally {
    answer.destroy();
  }
}

/** Resolves after `delayMs`, or at once when the signal is aborted. */
export async function pause(
  delayMs: number,
  timers: Timers,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (signal?.aborted) return;
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
