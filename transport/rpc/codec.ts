/**
 * Owns the encoding of what crosses the link: msgpack, bytes as bytes.
 *
 * 1. What comes in is plain: null, booleans, numbers, text, bytes, arrays, and maps with text keys.
 *    Anything else (an extension type, a 64-bit integer, a non-text key) is refused by a scan of the
 *    bytes before a single value of it is built, so the decoder's extensions are out of a peer's reach.
 * 2. Depth and number of values are bounded, so that a small message can not become a large heap.
 * 3. Decoded bytes are views on the message they came in: whoever keeps them longer than the call
 *    copies them.
 */
import { Packr } from "msgpackr";

/** Deeper than anything we send; shallow enough for recursion on both sides. */
const MAX_DEPTH = 32;
/** A listing of 10,000 entries with a dozen fields fits twice; costs at most some tens of MB to build. */
const MAX_VALUES = 250_000;

const options = {
  useRecords: false,
  /** A member that is undefined is absent; in an array its place is kept. */
  skipValues: [undefined],
  encodeUndefinedAsNil: true,
};
const packr = new Packr(options);

export function encode(value: unknown): Uint8Array {
  return packr.pack(value);
}

/** Throws on anything that is not plain; the message names no content. */
export function decode(bytes: Uint8Array): unknown {
  new Scan(bytes).message();
  const value: unknown = packr.unpack(bytes);
  return value;
}

const REFUSED = "not a plain message";

/** One pass over a message that builds nothing. Format: github.com/msgpack/msgpack, spec.md. */
class Scan {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;
  #valuesLeft = MAX_VALUES;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  message(): void {
    this.#value(0);
    if (this.#at !== this.#bytes.length) throw new Error(REFUSED);
  }

  #value(depth: number): void {
    if (--this.#valuesLeft < 0) throw new Error(REFUSED);
    const tag = this.#length(1);
    if (tag < 0x80 || tag >= 0xe0) return; // small integers
    if (tag < 0x90) this.#map(tag & 0x0f, depth);
    else if (tag < 0xa0) this.#array(tag & 0x0f, depth);
    else if (tag < 0xc0)
      this.#skip(tag & 0x1f); // short text
    else this.#tagged(tag, depth);
  }

  #tagged(tag: number, depth: number): void {
    switch (tag) {
      case 0xc0: // nil
      case 0xc2: // false
      case 0xc3: // true
        break;
      case 0xc4: // bytes
      case 0xd9: // text
        this.#skip(this.#length(1));
        break;
      case 0xc5:
      case 0xda:
        this.#skip(this.#length(2));
        break;
      case 0xc6:
      case 0xdb:
        this.#skip(this.#length(4));
        break;
      case 0xcc: // integers of 8, 16 and 32 bits
      case 0xd0:
        this.#skip(1);
        break;
      case 0xcd:
      case 0xd1:
        this.#skip(2);
        break;
      case 0xca: // float 32
      case 0xce:
      case 0xd2:
        this.#skip(4);
        break;
      case 0xcb: // float 64; integers beyond 32 bits travel as this
        this.#skip(8);
        break;
      case 0xdc:
        this.#array(this.#length(2), depth);
        break;
      case 0xdd:
        this.#array(this.#length(4), depth);
        break;
      case 0xde:
        this.#map(this.#length(2), depth);
        break;
      case 0xdf:
        this.#map(this.#length(4), depth);
        break;
      default:
        throw new Error(REFUSED);
    }
  }

  #array(entries: number, depth: number): void {
    if (depth >= MAX_DEPTH || entries > this.#valuesLeft) throw new Error(REFUSED);
    for (let entry = 0; entry < entries; entry++) this.#value(depth + 1);
  }

  #map(entries: number, depth: number): void {
    if (depth >= MAX_DEPTH || entries > this.#valuesLeft) throw new Error(REFUSED);
    for (let entry = 0; entry < entries; entry++) {
      this.#key();
      this.#value(depth + 1);
    }
  }

  #key(): void {
    const tag = this.#length(1);
    if (tag >= 0xa0 && tag < 0xc0) this.#skip(tag & 0x1f);
    else if (tag === 0xd9) this.#skip(this.#length(1));
    else if (tag === 0xda) this.#skip(this.#length(2));
    else throw new Error(REFUSED);
  }

  #length(width: 1 | 2 | 4): number {
    const at = this.#at;
    this.#skip(width);
    if (width === 1) return this.#view.getUint8(at);
    return width === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at);
  }

  #skip(bytes: number): void {
    if (bytes > this.#bytes.length - this.#at) throw new Error(REFUSED);
    this.#at += bytes;
  }
}
