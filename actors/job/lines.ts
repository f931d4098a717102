/**
 * Owns how the bytes a program writes become lines of text. A line ends with LF (a CR before it is part of the
 * end); no character is parted, however the bytes came; what is no UTF-8 becomes U+FFFD.
 */

/** A line that is longer goes on in the next, so that a program without line ends is bounded, too. */
const LONGEST_LINE_BYTES = 1_048_576;
const LF = 0x0a;
const CR = 0x0d;

export class Lines {
  readonly #onLine: (line: string) => void;
  /** Bytes since the last line end. */
  #parts: Buffer[] = [];
  #bytes = 0;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /** `bytes` are read during the call only. */
  chunk(bytes: Uint8Array): void {
    let rest = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (;;) {
      const room = LONGEST_LINE_BYTES - this.#bytes;
      const at = rest.indexOf(LF);
      if (at >= 0 && at <= room) {
        this.#add(rest.subarray(0, at));
        this.#finish();
        rest = rest.subarray(at + 1);
      } else if (rest.length > room) {
        this.#add(rest.subarray(0, room));
        this.#part();
        rest = rest.subarray(room);
      } else break;
    }
    // A copy: the caller's bytes change.
    if (rest.length > 0) this.#add(Buffer.from(rest));
  }

  /** What came behind the last line end is a line, too. */
  end(): void {
    if (this.#bytes > 0) this.#finish();
  }

  #add(part: Buffer): void {
    if (part.length === 0) return;
    this.#parts.push(part);
    this.#bytes += part.length;
  }

  #finish(): void {
    const line = this.#whole();
    const end = line.at(-1) === CR ? line.length - 1 : line.length;
    this.#onLine(line.toString("utf8", 0, end));
  }

  /** Hands on the whole characters of a line that is too long. */
  #part(): void {
    const line = this.#whole();
    const end = wholeCharacters(line);
    this.#onLine(line.toString("utf8", 0, end));
    this.#add(Buffer.from(line.subarray(end)));
  }

  #whole(): Buffer {
    const [first] = this.#parts;
    const whole =
      this.#parts.length === 1 && first !== undefined ? first : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#bytes = 0;
    return whole;
  }
}

/** How many bytes of `line` are whole characters: its last one may be cut (RFC 3629). */
function wholeCharacters(line: Buffer): number {
  for (let back = 1; back <= 3; back += 1) {
    const byte = line[line.length - back] ?? 0;
    if (byte < 0x80) return line.length;
    if (byte >= 0xc0) {
      const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return length > back ? line.length - back : line.length;
    }
  }
  return line.length;
}
