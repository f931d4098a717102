/**
 * Owns the bytes between a node's socket and the hub's once both agreed to be a websocket.
 *
 * 1. Neither side is read faster than the other takes it: what waits is one chunk and a socket's buffer.
 * 2. What a node sends counts against its share (`ration.ts`); what it is sent only shows that it is in use.
 * 3. An end on one side ends the other after what is still under way; a side that then does not end
 *    itself, and any error, is cut.
 * 4. Nobody waits for ever: while one side takes nothing, the other's end is not seen (it is not read), so
 *    a side that takes nothing for too long is cut.
 */
import type { Duplex } from "node:stream";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { MessageCount } from "./message-count.ts";
import type { Ration, Share } from "./ration.ts";

/** A websocket has no use for a half-closed line: this is for what is still on its way. */
const LINGER_MS = 5_000;
/** Longer than either end needs to find the other dead: 15 s by two PINGs unanswered, or the hub's write deadline of 10 s. */
const STALLED_MS = 30_000;

export interface PipeOptions {
  readonly node: Duplex;
  readonly hub: Duplex;
  readonly ration: Ration;
  readonly clock: Clock;
  /** Called with each chunk that the hub sends. */
  readonly onGiven: () => void;
  /** Called once, when both sides are closed. */
  readonly onClosed: () => void;
}

/** Joins two paused sockets; both have a listener for `error` from here on. */
export function pipe(options: PipeOptions): void {
  const { node, hub, ration, clock, onGiven, onClosed } = options;
  let cancelLinger: CancelTimer | null = null;
  let closed = 0;

  const cut = (): void => {
    node.destroy();
    hub.destroy();
  };
  const up = new Flow(node, hub, clock, cut);
  const down = new Flow(hub, node, clock, cut);
  const share: Share = ration.join({ hold: () => up.hold(), release: () => up.release() });
  const messages = new MessageCount();
  up.onChunk = (chunk) => share.took(chunk.length, messages.take(chunk));
  down.onChunk = (chunk) => {
    share.gave(chunk.length);
    onGiven();
  };

  const linger = (): void => {
    cancelLinger ??= clock.after(LINGER_MS, cut);
  };
  for (const [side, other] of [
    [node, hub],
    [hub, node],
  ] as const) {
    side.on("end", linger);
    side.on("error", () => other.destroy());
    side.on("close", () => {
      // Whoever closed in order has ended the other already; it may still have something to write.
      if (!side.readableEnded) other.destroy();
      closed += 1;
      if (closed < 2) return;
      cancelLinger?.();
      up.waitNoMore();
      down.waitNoMore();
      share.leave();
      onClosed();
    });
  }
  up.start();
  down.start();
}

/** One direction. It stands still while the target is full, or while it is held. */
class Flow {
  readonly #source: Duplex;
  readonly #target: Duplex;
  readonly #clock: Clock;
  readonly #onStalled: () => void;
  /** Set while the target is full. */
  #cancelStalled: CancelTimer | null = null;
  #held = false;
  onChunk: (chunk: Buffer) => void = () => undefined;

  constructor(source: Duplex, target: Duplex, clock: Clock, onStalled: () => void) {
    this.#source = source;
    this.#target = target;
    this.#clock = clock;
    this.#onStalled = onStalled;
  }

  start(): void {
    this.#source.on("data", (chunk: Buffer) => {
      if (!this.#target.write(chunk)) {
        this.#cancelStalled ??= this.#clock.after(STALLED_MS, this.#onStalled);
      }
      this.onChunk(chunk);
      this.#settle();
    });
    this.#target.on("drain", () => {
      this.waitNoMore();
      this.#settle();
    });
    this.#source.on("end", () => this.#target.end());
    this.#settle();
  }

  hold(): void {
    this.#held = true;
    this.#settle();
  }

  release(): void {
    this.#held = false;
    this.#settle();
  }

  waitNoMore(): void {
    this.#cancelStalled?.();
    this.#cancelStalled = null;
  }

  #settle(): void {
    if (this.#cancelStalled !== null || this.#held) this.#source.pause();
    else this.#source.resume();
  }
}
