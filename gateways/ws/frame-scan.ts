/**
 * Owns the counting of a client's data frames as their bytes come in (RFC 6455 5.2): a frame that is a part
 * of a message costs far more than its bytes while it waits for the others, down to 7 bytes on the wire.
 */

const LENGTH_BITS = 0x7f;
const LENGTH_16 = 126;
const LENGTH_64 = 127;
const FINAL_BIT = 0x80;
const OPCODE_BITS = 0x0f;
/** From here on they are control frames, which wait for nothing. */
const FIRST_CONTROL_OPCODE = 8;
const MASK_BYTES = 4;
const LONGEST_HEAD_BYTES = 14;

export class FrameScan {
  readonly #head = Buffer.alloc(LONGEST_HEAD_BYTES);
  #headBytes = 0;
  /** Of the payload that is coming in. */
  #payloadBytes = 0;
  #awaitsFragment = false;

  /** Whether a frame, or a message of which there was a fragment, has begun and is not whole. */
  get isWithinMessage(): boolean {
    return this.#headBytes > 0 || this.#payloadBytes > 0 || this.#awaitsFragment;
  }

  /** How many data frames have their last head byte in this chunk, which follows the one before. */
  dataFrames(chunk: Buffer): number {
    let frames = 0;
    for (let at = 0; at < chunk.length; ) {
      if (this.#payloadBytes > 0) {
        const taken = Math.min(this.#payloadBytes, chunk.length - at);
        this.#payloadBytes -= taken;
        at += taken;
        continue;
      }
      this.#head[this.#headBytes] = chunk[at] ?? 0;
      this.#headBytes += 1;
      at += 1;
      if (this.#headBytes >= 2 && this.#headBytes === this.#headLength()) {
        this.#payloadBytes = this.#payloadLength();
        this.#headBytes = 0;
        const first = this.#head[0] ?? 0;
        if ((first & OPCODE_BITS) < FIRST_CONTROL_OPCODE) {
          this.#awaitsFragment = (first & FINAL_BIT) === 0;
          frames += 1;
        }
      }
    }
    return frames;
  }

  #lengthCode(): number {
    return (this.#head[1] ?? 0) & LENGTH_BITS;
  }

  #headLength(): number {
    const code = this.#lengthCode();
    const extended = code === LENGTH_64 ? 8 : code === LENGTH_16 ? 2 : 0;
    return 2 + extended + MASK_BYTES;
  }

  #payloadLength(): number {
    const code = this.#lengthCode();
    if (code === LENGTH_16) return this.#head.readUInt16BE(2);
    return code === LENGTH_64 ? Number(this.#head.readBigUInt64BE(2)) : code;
  }
}
