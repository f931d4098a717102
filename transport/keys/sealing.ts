/**
 * Owns how a secret crosses machines: sealed to the X25519 key of one worker life (nkeys' `xkv1`: X25519,
 * XSalsa20 and Poly1305), which opens it in that life's process alone.
 *
 * 1. What is said about the value (its name, its operation) is sealed together with it: nobody on the way
 *    can read either, or put them together in another way.
 * 2. The sender's key is made for one message, and forgotten with it: what was recorded on the way is not
 *    opened by anything that is stored anywhere.
 * 3. Every copy of the value that this room makes is overwritten. The library's own, while it seals, is not
 *    ours to overwrite.
 */
import { createCurve, type KeyPair } from "@nats-io/nkeys";

export interface Sealed {
  readonly sealed: Uint8Array;
  /** Public curve nkey of the sender. */
  readonly sender: string;
}

export interface Opened {
  /** As it was given to `sealFor`, parsed; not validated. */
  readonly about: unknown;
  /** The caller's to overwrite. */
  readonly value: Uint8Array;
}

/** Length of what is said about the value, before it, as an unsigned 32-bit integer. */
const LENGTH_BYTES = 4;

/** Seals `about` (plain JSON) and a copy of `value` to a public curve nkey. Throws when that is none. */
export function sealFor(recipient: string, about: object, value: Uint8Array): Sealed {
  const head = Buffer.from(JSON.stringify(about), "utf8");
  const plain = Buffer.alloc(LENGTH_BYTES + head.length + value.length);
  const sender = createCurve();
  try {
    plain.writeUInt32BE(head.length, 0);
    plain.set(head, LENGTH_BYTES);
    plain.set(value, LENGTH_BYTES + head.length);
    return { sealed: sender.seal(plain, recipient), sender: sender.getPublicKey() };
  } finally {
    plain.fill(0);
    head.fill(0);
    sender.clear();
  }
}

/** Null for what was not sealed to this key, or was changed on the way. */
export function openSealed(key: KeyPair, { sealed, sender }: Sealed): Opened | null {
  const plain = opened(key, sealed, sender);
  if (plain === null) return null;
  try {
    const head = plain.length < LENGTH_BYTES ? Number.NaN : plain.readUInt32BE(0);
    const start = LENGTH_BYTES + head;
    if (!(start <= plain.length)) return null;
    const about: unknown = JSON.parse(plain.toString("utf8", LENGTH_BYTES, start));
    return { about, value: new Uint8Array(plain.subarray(start)) };
  } catch {
    return null;
  } finally {
    plain.fill(0);
  }
}

function opened(key: KeyPair, sealed: Uint8Array, sender: string): Buffer | null {
  try {
    const plain = key.open(sealed, sender);
    return plain === null ? null : Buffer.from(plain.buffer, plain.byteOffset, plain.byteLength);
  } catch {
    // No curve nkey, or no sealed message at all.
    return null;
  }
}
