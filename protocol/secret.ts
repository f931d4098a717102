/**
 * Owns the one form in which a secret value is handed around inside a process: bytes that can be lent, and
 * neither shown nor copied by accident.
 *
 * 1. No rendering holds a byte of it, nor its length: inspection, JSON, text, templates and msgpack give a fixed
 *    marker; a structured clone (a worker, another process) is refused by whoever would make it.
 * 2. The bytes are in memory once, in a buffer of their own, never in a pool that others share.
 * 3. Destroyed, they are zeros, and nothing can be lent any more.
 *
 * No claim is made for a value that once was an immutable string: whoever has the choice hands over bytes.
 */
import { LemonError } from "./errors.ts";

const MARKER = "[Secret]";
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

export class Secret implements Disposable {
  #bytes: Uint8Array | null;
  /** A function of its own, which makes a structured clone fail where it would else be an empty object. */
  readonly toJSON: () => string = marker;

  private constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Copies `bytes` and zeroes them where they were. */
  static take(bytes: Uint8Array): Secret {
    const own = new Uint8Array(bytes.length);
    own.set(bytes);
    bytes.fill(0);
    return new Secret(own);
  }

  /** The UTF-8 bytes of a text, which stays in memory as long as the engine likes. */
  static ofText(text: string): Secret {
    return Secret.take(new TextEncoder().encode(text));
  }

  /**
   * Lends the bytes for as long as `borrow` runs; when it answers with a promise, until that settles. They are
   * not to be kept or changed. Errors: `secret_destroyed`.
   */
  use<T>(borrow: (bytes: Uint8Array) => T): T {
    if (this.#bytes === null) throw new LemonError("secret_destroyed");
    return borrow(this.#bytes);
  }

  get isDestroyed(): boolean {
    return this.#bytes === null;
  }

  /** Zeroes the bytes; again, nothing happens. Whoever made or was given a secret calls it, or has `using` do so. */
  destroy(): void {
    this.#bytes?.fill(0);
    this.#bytes = null;
  }

  [Symbol.dispose](): void {
    this.destroy();
  }

  toString(): string {
    return MARKER;
  }

  valueOf(): string {
    return MARKER;
  }

  [Symbol.toPrimitive](): string {
    return MARKER;
  }

  get [Symbol.toStringTag](): string {
    return "Secret";
  }

  [INSPECT](): string {
    return MARKER;
  }
}

function marker(): string {
  return MARKER;
}
