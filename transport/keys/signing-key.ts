/**
 * Owns keys that sign often. The library signs in JavaScript: 8 ms a signature and 5 ms each time a
 * public key is asked for, on the event loop that every call passes through. Here OpenSSL signs
 * (0.06 ms) and the public key is worked out once; the encodings stay the library's.
 */
import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { fromSeed, type KeyPair } from "@nats-io/nkeys";

const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/** A seed is two prefix bytes, the 32 bytes of the key and a checksum (github.com/nats-io/nkeys). */
const PREFIX_BYTES = 2;
const KEY_BYTES = 32;
/** What stands before an Ed25519 key in PKCS #8 (RFC 8410, section 7). */
const PKCS8_ED25519 = Buffer.from("302e020100300506032b657004220420", "hex");

/** The key pair of a seed; throws when it is none. `pair` may be given when it is at hand. */
export function signingKey(seed: Uint8Array, pair: KeyPair = fromSeed(seed)): KeyPair {
  const publicKey = pair.getPublicKey();
  let key: KeyObject | null = privateKeyOf(seed);
  let encoded: Uint8Array | null = null;
  return {
    getPublicKey: () => publicKey,
    getSeed: () => pair.getSeed(),
    // Asked for at each signature, as proof that the key is not a public one.
    getPrivateKey: () => {
      encoded ??= pair.getPrivateKey();
      return encoded;
    },
    sign: (input) => (key === null ? pair.sign(input) : sign(null, input, key)),
    verify: (input, signature) => pair.verify(input, signature),
    seal: (input, recipient, nonce) => pair.seal(input, recipient, nonce),
    open: (message, sender) => pair.open(message, sender),
    clear() {
      key = null;
      encoded?.fill(0);
      encoded = null;
      pair.clear();
    },
  };
}

/** A new pair that signs the same way. */
export function newSigningKey(create: () => KeyPair): KeyPair {
  const pair = create();
  return signingKey(pair.getSeed(), pair);
}

function privateKeyOf(seed: Uint8Array): KeyObject {
  const raw = fromBase32(seed).subarray(PREFIX_BYTES, PREFIX_BYTES + KEY_BYTES);
  const key = Buffer.concat([PKCS8_ED25519, raw]);
  try {
    return createPrivateKey({ key, format: "der", type: "pkcs8" });
  } finally {
    key.fill(0);
  }
}

/** RFC 4648, section 6, without padding, as nkeys writes it. */
function fromBase32(text: Uint8Array): Buffer {
  const bytes = Buffer.alloc(Math.floor((text.length * 5) / 8));
  let bits = 0;
  let held = 0;
  let at = 0;
  for (const character of text) {
    held = ((held << 5) | BASE32.indexOf(String.fromCharCode(character))) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at] = (held >> bits) & 0xff;
    at += 1;
  }
  return bytes;
}
