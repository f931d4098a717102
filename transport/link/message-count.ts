/**
 * Owns the count of messages in what a node sends: the leaf protocol's lines inside websocket frames
 * (RFC 6455, section 5.2; nats-server, server/parser.go). Bytes alone do not tell what a flood costs:
 * the hub works on a small message about as long as on a large one.
 * A control frame counts as one too: the hub answers each PING with a frame of its own.
 *
 * 1. Counts only. Nothing is changed, kept or refused: what is no protocol the hub closes by itself.
 * 2. Counts too much rather than too little where it can not follow: every line is a message, and only
 *    the payload that a message announces is passed over.
 */

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const ZERO = 0x30;
const NINE = 0x39;
/** The first four letters of a line, in lower case. */
const LMSG = 0x6c6d7367;
const HMSG = 0x686d7367;
/** Far above any message that the hub takes. */
const LARGEST_PAYLOAD = 1_000_000_000;
const FIRST_CONTROL_OPCODE = 8;

export class MessageCount {
  /** Bytes of a frame's head so far; a head is 2 to 14 bytes. */
  readonly #head: number[] = [];
  readonly #mask = new Uint8Array(4);
  #maskAt = 0;
  #control = false;
  #frameLeft = 0;
  /** Bytes of a message's payload that are still to come. */
  #payloadLeft = 0;
  #lineLength = 0;
  #operation = 0;
  /** The line's last word, as far as it is a number. */
  #size = 0;
  #sizeIsNumber = false;
  #betweenWords = true;

  /** Messages that ended their line in this chunk, and control frames that began in it. */
  take(chunk: Uint8Array): number {
    let messages = 0;
    let at = 0;
    while (at < chunk.length) {
      if (this.#frameLeft === 0) {
        messages += this.#readHead(chunk[at] ?? 0);
        at += 1;
        continue;
      }
      const end = Math.min(chunk.length, at + this.#frameLeft);
      this.#frameLeft -= end - at;
      if (!this.#control) messages += this.#read(chunk, at, end);
      at = end;
    }
    return messages;
  }

  #readHead(byte: number): 0 | 1 {
    const head = this.#head;
    head.push(byte);
    if (head.length < 2) return 0;
    const [first = 0, second = 0] = head;
    const short = second & 0x7f;
    const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0;
    const maskBytes = second & 0x80 ? 4 : 0;
    if (head.length < 2 + lengthBytes + maskBytes) return 0;
    let length = lengthBytes === 0 ? short : 0;
    for (let at = 0; at < lengthBytes; at++) length = length * 256 + (head[2 + at] ?? 0);
    for (let at = 0; at < 4; at++) {
      this.#mask[at] = maskBytes === 0 ? 0 : (head[2 + lengthBytes + at] ?? 0);
    }
    this.#maskAt = 0;
    this.#control = (first & 0x0f) >= FIRST_CONTROL_OPCODE;
    this.#frameLeft = length;
    head.length = 0;
    return this.#control ? 1 : 0;
  }

  #read(chunk: Uint8Array, from: number, end: number): number {
    let messages = 0;
    let at = from;
    while (at < end) {
      if (this.#payloadLeft > 0) {
        const passed = Math.min(this.#payloadLeft, end - at);
        this.#payloadLeft -= passed;
        this.#maskAt += passed;
        at += passed;
        continue;
      }
      const byte = (chunk[at] ?? 0) ^ (this.#mask[this.#maskAt & 3] ?? 0);
      this.#maskAt += 1;
      at += 1;
      if (byte === LINE_FEED) {
        messages += 1;
        this.#endLine();
      } else if (byte !== CARRIAGE_RETURN) {
        this.#readLine(byte);
      }
    }
    return messages;
  }

  #readLine(byte: number): void {
    if (this.#lineLength < 4) this.#operation = (this.#operation << 8) | byte | 0x20;
    this.#lineLength += 1;
    if (byte === SPACE || byte === TAB) {
      this.#betweenWords = true;
      return;
    }
    if (this.#betweenWords) {
      this.#betweenWords = false;
      this.#size = 0;
      this.#sizeIsNumber = true;
    }
    if (byte < ZERO || byte > NINE) this.#sizeIsNumber = false;
    else this.#size = Math.min(LARGEST_PAYLOAD, this.#size * 10 + byte - ZERO);
  }

  #endLine(): void {
    const carries = this.#operation === LMSG || this.#operation === HMSG;
    // The payload is followed by a line end of its own.
    if (carries && this.#sizeIsNumber) this.#payloadLeft = this.#size + 2;
    this.#lineLength = 0;
    this.#operation = 0;
    this.#sizeIsNumber = false;
    this.#betweenWords = true;
  }
}
