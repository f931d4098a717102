/**
 * Owns the memory that peers may take before anybody knows who they are: the unfinished frames of all of
 * them together stay below one bound, so that strangers by the thousand can not exhaust the machine.
 */
import type { Socket } from "node:net";

export class Strangers {
  readonly #maxBytes: number;
  #bytes = 0;

  /** `maxBytes`: for all unfinished frames together. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Counts further bytes; false when they are too many. */
  take(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= this.#maxBytes;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }

  meter(): StrangerMeter {
    return new StrangerMeter(this);
  }
}

/** Counts what one stranger has sent since its last whole frame. */
export class StrangerMeter {
  readonly #strangers: Strangers;
  #bytes = 0;
  #stop: () => void = () => {};

  constructor(strangers: Strangers) {
    this.#strangers = strangers;
  }

  /** `onExcess` is called when this stranger's bytes exceed what all may hold. */
  begin(socket: Socket, onExcess: () => void): void {
    const count = (chunk: Buffer): void => {
      this.#bytes += chunk.length;
      if (!this.#strangers.take(chunk.length)) onExcess();
    };
    // Before the listener that reads frames, so that a frame's last bytes are counted before it is whole.
    socket.prependListener("data", count);
    this.#stop = () => socket.off("data", count);
  }

  frameRead(): void {
    this.#strangers.giveBack(this.#bytes);
    this.#bytes = 0;
  }

  end(): void {
    this.#stop();
    this.frameRead();
  }
}
