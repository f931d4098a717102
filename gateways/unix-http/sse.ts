/**
 * Owns one-way streams over the socket (host-agent contract, "Pattern C"; WHATWG HTML, "Server-sent events"):
 * each is an actor that carries frames from its source to its response. Invariants:
 *
 * 1. Not more than `limit` are open; the next is refused (`too-many-streams`) before its source is opened.
 * 2. The headers leave at once. Nothing is sent before the source is there: what it refuses is a plain error.
 * 3. What waits for a reader is one batch and what the socket holds. One that takes nothing for `STALL_MS` is
 *    cut, without an end of the response: it can tell that from the end of the stream.
 * 4. Only a source that is at its end ends the response. Whoever is cut off because the agent goes can tell that
 *    there is more to come, and comes back for it.
 * 5. However a stream ends, its source is closed and its place is free.
 */
import type { ServerResponse } from "node:http";
import type { Frame, FrameReader } from "../../actors/job/messages.ts";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { ActorContext, ActorSpec, Death, SupervisorRef } from "../../supervision/actor.ts";

/** As many as the brain opens at a time, too. */
const STREAM_LIMIT = 16;
/** Of silence, before a comment shows that the stream lives. */
const HEARTBEAT_MS = 15_000;
/** What a client is asked to wait before it connects again. */
const RETRY_MS = 1_000;
const STALL_MS = 10_000;

const HEADERS = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache",
  Connection: "keep-alive",
} as const;

export interface Streams {
  /**
   * Answers `response` with the frames of `source`; resolves when that has begun. Errors, with nothing sent:
   * `too-many-streams`, and what `source` throws.
   */
  open(
    response: ServerResponse,
    source: () => FrameReader<unknown> | Promise<FrameReader<unknown>>,
  ): Promise<void>;
}

export interface StreamsOptions {
  readonly clock: Clock;
  readonly limit?: number;
}

export async function startStreams(
  parent: SupervisorRef,
  { clock, limit = STREAM_LIMIT }: StreamsOptions,
): Promise<Streams> {
  const room = await parent.startSupervisor({
    id: "streams",
    strategy: "one_for_one",
    restart: "permanent",
    intensity: { restarts: 5, windowMs: 60_000 },
    backoff: { firstMs: 100, maxMs: 5_000, resetAfterMs: 60_000 },
    stopOrder: "together",
  });
  let open = 0;
  let serial = 0;
  const leave = (): void => {
    open -= 1;
  };
  return {
    async open(response, source) {
      if (open >= limit) throw new HostAgentError("too-many-streams");
      open += 1;
      serial += 1;
      let reader: FrameReader<unknown> | undefined;
      try {
        reader = await source();
        const actor = await room.startActor(
          streamActor(`stream-${serial}`, response, reader, clock),
        );
        actor.watch(leave);
      } catch (failure) {
        reader?.close();
        leave();
        throw failure;
      }
    },
  };
}

/**
 * What a `Last-Event-ID` header names; null without one. One that is no number is of no stream of ours: -1,
 * behind which everything is missing.
 */
export function lastEventIdOf(header: string | undefined): number | null {
  if (header === undefined || header === "") return null;
  return /^\d+$/.test(header) ? Math.min(Number(header), Number.MAX_SAFE_INTEGER) : -1;
}

type Nothing = Record<never, never>;

function streamActor(
  id: string,
  response: ServerResponse,
  reader: FrameReader<unknown>,
  clock: Clock,
): ActorSpec<Nothing> {
  return {
    id,
    kind: "sse-stream",
    restart: "temporary",
    start(context) {
      const stream = new Stream(response, reader, clock, context);
      stream.begin();
      return { handlers: {}, stop: (reason) => stream.stop(reason) };
    },
  };
}

class Stream {
  readonly #response: ServerResponse;
  readonly #reader: FrameReader<unknown>;
  readonly #clock: Clock;
  readonly #context: ActorContext<Nothing>;
  #over = false;
  #wroteAtMs = 0;
  #cancelHeartbeat: CancelTimer = () => {};

  constructor(
    response: ServerResponse,
    reader: FrameReader<unknown>,
    clock: Clock,
    context: ActorContext<Nothing>,
  ) {
    this.#response = response;
    this.#reader = reader;
    this.#clock = clock;
    this.#context = context;
  }

  begin(): void {
    const response = this.#response;
    // One that is gone already tells nobody any more.
    if (response.destroyed || response.closed) {
      this.#context.end();
      return;
    }
    response.on("close", this.#gone);
    response.on("error", this.#gone);
    response.writeHead(200, HEADERS);
    response.flushHeaders();
    this.#send(`retry: ${RETRY_MS}\n\n`);
    this.#beatAfter(HEARTBEAT_MS);
    this.#carry().then(
      () => this.#context.end(),
      (failure: unknown) => {
        if (!this.#over) this.#context.crash(failure);
      },
    );
  }

  stop(reason: Death["reason"]): void {
    this.#over = true;
    this.#cancelHeartbeat();
    this.#reader.close();
    const response = this.#response;
    response.off("close", this.#gone);
    if (reason === "normal") response.end();
    else response.destroy();
  }

  readonly #gone = (): void => this.#context.end();

  async #carry(): Promise<void> {
    for (;;) {
      const frames = await this.#reader.next();
      if (frames === null || this.#over) return;
      if (!this.#send(frames.map(textOf).join(""))) await this.#drained();
      if (this.#over) return;
    }
  }

  #send(text: string): boolean {
    this.#wroteAtMs = this.#clock.monotonicMs();
    return this.#response.write(text);
  }

  /** Resolves when the socket takes more, or is gone; cuts a reader that takes nothing. */
  async #drained(): Promise<void> {
    const response = this.#response;
    if (!response.writableNeedDrain) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancelCut = this.#clock.after(STALL_MS, () => {
      this.#context.log.warn("a stream's reader took nothing for too long; it was cut");
      response.destroy();
    });
    response.once("drain", resolve);
    response.once("close", resolve);
    try {
      await promise;
    } finally {
      cancelCut();
      response.off("drain", resolve);
      response.off("close", resolve);
    }
  }

  #beatAfter(delayMs: number): void {
    this.#cancelHeartbeat = this.#clock.after(delayMs, () => {
      const silentMs = this.#clock.monotonicMs() - this.#wroteAtMs;
      // Whoever still has something to take needs no sign of life.
      const due = silentMs >= HEARTBEAT_MS && !this.#response.writableNeedDrain;
      if (due) this.#send(":\n\n");
      this.#beatAfter(due || silentMs >= HEARTBEAT_MS ? HEARTBEAT_MS : HEARTBEAT_MS - silentMs);
    });
  }
}

/** JSON has no line break in it, whatever the data is, so a frame is always two lines and a blank one. */
function textOf(frame: Frame<unknown>): string {
  return `id: ${frame.id}\ndata: ${JSON.stringify(frame.data)}\n\n`;
}
