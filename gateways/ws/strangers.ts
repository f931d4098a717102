/**
 * Owns the memory that peers may take before anybody knows who they are: the unfinished frames of all of
 * them together stay below one bound, so that strangers by the thousand can not exhaust the machine.
 *
 * 1. When they exceed it, one is cut that holds more than anybody of good will has to send: the one whose
 *    bytes are too many, or else the one that holds most.
 * 2. What is counted is what it costs here, not only what came: each part of a message, and each piece in
 *    which the system hands it over, is an object of its own until the message is whole.
 * 3. It is counted until the socket is gone: a connection that is being closed still takes bytes.
 */
import type { Socket } from "node:net";
import { FrameScan } from "./frame-scan.ts";

/** Room for a `connect`, which is all that a stranger has to say. */
const CONNECT_BYTES = 16_384;

/** What a part of a message takes beside its bytes; measured: 126. */
const FRAME_COST_BYTES = 128;
/** What a chunk takes beside its bytes; measured: 200. */
const CHUNK_COST_BYTES = 256;

export class Strangers {
  readonly #maxBytes: number;
  readonly #meters = new Set<StrangerMeter>();
  #bytes = 0;

  /** `maxBytes`: for all unfinished frames together. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  meter(): StrangerMeter {
    return new StrangerMeter(this);
  }

  take(meter: StrangerMeter, bytes: number): void {
    this.#meters.add(meter);
    this.#bytes += bytes;
    if (this.#bytes <= this.#maxBytes) return;
    // What another holds is free only when the event loop comes round: so not that one, if it can be helped.
    if (meter.bytes > CONNECT_BYTES) meter.cut();
    else this.#largest()?.cut();
  }

  giveBack(meter: StrangerMeter, bytes: number): void {
    if (meter.bytes === 0) this.#meters.delete(meter);
    this.#bytes -= bytes;
  }

  #largest(): StrangerMeter | null {
    let largest: StrangerMeter | null = null;
    for (const meter of this.#meters) {
      if (meter.bytes > (largest?.bytes ?? 0)) largest = meter;
    }
    return largest;
  }
}

/** Counts what one stranger makes us hold since its last whole frame. */
export class StrangerMeter {
  readonly #strangers: Strangers;
  readonly #scan = new FrameScan();
  #bytes = 0;
  #lastChunkBytes = 0;
  #stop: () => void = () => {};
  #onExcess: () => void = () => {};
  #isCut = false;

  constructor(strangers: Strangers) {
    this.#strangers = strangers;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** `onExcess` is called once, when this stranger has to be let go of with all it sent. */
  begin(socket: Socket, onExcess: () => void): void {
    const count = (chunk: Buffer): void => {
      const frames = this.#scan.dataFrames(chunk);
      const bytes = chunk.length + frames * FRAME_COST_BYTES + CHUNK_COST_BYTES;
      this.#bytes += bytes;
      this.#lastChunkBytes = bytes;
      this.#strangers.take(this, bytes);
      // Whoever reads frames gets this chunk all the same, and makes of it what was too much; in zeros it
      // finds an unmasked frame, and stops.
      if (this.#isCut) chunk.fill(0);
    };
    // Before the listener that reads frames, so that a frame's last bytes are counted before it is whole.
    socket.prependListener("data", count);
    this.#stop = () => socket.off("data", count);
    this.#onExcess = onExcess;
  }

  /** What else came in the same chunk is held as long as anything of it waits. */
  frameRead(): void {
    const left = this.#scan.isWithinMessage ? Math.min(this.#lastChunkBytes, this.#bytes) : 0;
    this.#giveBack(this.#bytes - left);
  }

  end(): void {
    this.#stop();
    this.#giveBack(this.#bytes);
  }

  /** For the one who holds most. */
  cut(): void {
    this.#isCut = true;
    this.#onExcess();
    this.end();
  }

  #giveBack(bytes: number): void {
    this.#bytes -= bytes;
    this.#strangers.giveBack(this, bytes);
  }
}
