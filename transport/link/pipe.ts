/**
 * Owns the bytes between a node's socket and the hub's once both agreed to be a websocket.
 *
 * 1. Neither side is read faster than the other takes it: what waits is one chunk and a socket's buffer.
 * 2. What a node sends counts against its share (`ration.ts`); what it is sent only shows that it is in use.
 * 3. An end on one side ends the other after what is still under way; a side that then does not end
 *    itself, and any error, is cut.
 */
import type { Duplex } from "node:stream";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { MessageCount } from "./message-count.ts";
import type { Ration, Share } from "./ration.ts";

/** A websocket has no use for a half-closed line: this is for what is still on its way. */
const LINGER_MS = 5_000;

export interface PipeOptions {
  readonly node: Duplex;
  readonly hub: Duplex;
  readonly ration: Ration;
  readonly clock: Clock;
  /** Called once, when both sides are closed. */
  readonly onClosed: () => void;
}

/** Joins two paused sockets; both have a listener for `error` from here on. */
export function pipe(options: PipeOptions): void {
  const { node, hub, ration, clock, onClosed } = options;
  let cancelLinger: CancelTimer | null = null;
  let closed = 0;

  const up = new Flow(node, hub);
  const down = new Flow(hub, node);
  const share: Share = ration.join({ hold: () => up.hold(), release: () => up.release() });
  const messages = new MessageCount();
  up.onChunk = (chunk) => share.took(chunk.length, messages.take(chunk));
  down.onChunk = (chunk) => share.gave(chunk.length);

  const linger = (): void => {
    cancelLinger ??= clock.after(LINGER_MS, () => {
      node.destroy();
      hub.destroy();
    });
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
  #full = false;
  #held = false;
  onChunk: (chunk: Buffer) => void = () => undefined;

  constructor(source: Duplex, target: Duplex) {
    this.#source = source;
    this.#target = target;
  }

  start(): void {
    this.#source.on("data", (chunk: Buffer) => {
      if (!this.#target.write(chunk)) this.#full = true;
      this.onChunk(chunk);
      this.#settle();
    });
    this.#target.on("drain", () => {
      this.#full = false;
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

  #settle(): void {
    if (this.#full || this.#held) this.#source.pause();
    else this.#source.resume();
  }
}
