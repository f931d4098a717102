/**
 * Owns the construction by which a vault keeps values (node-host-io.md, control-plane-wire.md 6.1).
 *
 * 1. A value is under AES-256-GCM with a key of its own: HKDF-SHA-256 of the master key, with 32 random bytes as salt
 *    and `lemon-secrets-v1` as info. The nonce is 96 random bits; the tag stands behind the ciphertext.
 * 2. The associated data bind owner, name and revision: moved to another name, swapped, or put back as another
 *    revision, it does not open.
 * 3. Derived keys and opened values are zeroed after use.
 *
 * Associated data: `lemon-secrets-v1`, then owner and name in UTF-8, each behind its length in bytes, then the
 * revision; lengths as 32 and the revision as 64 bits, most significant byte first.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  timingSafeEqual,
} from "node:crypto";
import { Secret } from "../../protocol/secret.ts";

const LABEL = "lemon-secrets-v1";
const INTENT_LABEL = "lemon-secrets-intent-v1";
const KEY_ID_LABEL = "lemon-secrets-key-id-v1";
const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
const SALT_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_ID_BYTES = 16;

/** Of `node:crypto`, or fixed bytes for a known answer. */
export type RandomBytes = (size: number) => Buffer;

/** What a sealed value is bound to. */
export interface Binding {
  readonly owner: string;
  readonly name: string;
  readonly revision: number;
}

export interface Sealed {
  readonly salt: Uint8Array;
  readonly nonce: Uint8Array;
  /** With the tag of 16 bytes behind it. */
  readonly ciphertext: Uint8Array;
}

export function seal(master: Secret, to: Binding, value: Secret, random: RandomBytes): Sealed {
  const salt = random(SALT_BYTES);
  const nonce = random(NONCE_BYTES);
  return withKey(master, salt, LABEL, (key) => {
    const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(associatedData(to));
    const body = value.use((bytes) => Buffer.concat([cipher.update(bytes), cipher.final()]));
    return { salt, nonce, ciphertext: Buffer.concat([body, cipher.getAuthTag()]) };
  });
}

/** Null when it is not what was sealed to this binding under this key. */
export function unseal(master: Secret, to: Binding, sealed: Sealed): Secret | null {
  const { salt, nonce, ciphertext } = sealed;
  if (ciphertext.length < TAG_BYTES || nonce.length !== NONCE_BYTES) return null;
  return withKey(master, salt, LABEL, (key) => {
    const cipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(associatedData(to));
    cipher.setAuthTag(ciphertext.subarray(-TAG_BYTES));
    const bytes = cipher.update(ciphertext.subarray(0, -TAG_BYTES));
    try {
      cipher.final();
      return Secret.take(bytes);
    } catch {
      bytes.fill(0);
      return null;
    }
  });
}

export interface Intent {
  readonly owner: string;
  /** Whose operation ids they are: the durable identity of the node. */
  readonly scope: string;
  readonly operationId: string;
  readonly name: string;
  readonly provider: string;
  readonly expiresAtMs: number | null;
  readonly value: Secret;
}

/**
 * Tells whether two operations meant the same, and nothing to whoever has no master key: not even that two
 * operations had the same value.
 */
export function fingerprintOf(master: Secret, intent: Intent): Buffer {
  const { owner, scope, operationId, name, provider, expiresAtMs, value } = intent;
  return withKey(master, Buffer.alloc(0), INTENT_LABEL, (key) => {
    const mac = createHmac("sha256", key);
    for (const text of [owner, scope, operationId, name, provider, String(expiresAtMs)]) {
      mac.update(framed(text));
    }
    return value.use((bytes) => mac.update(bytes).digest());
  });
}

export function sameFingerprint(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Names a master key without telling anything of it: 32 hexadecimal digits. */
export function keyIdOf(master: Secret): string {
  return withKey(master, Buffer.alloc(0), KEY_ID_LABEL, (key) =>
    key.toString("hex", 0, KEY_ID_BYTES),
  );
}

function withKey<T>(master: Secret, salt: Uint8Array, info: string, work: (key: Buffer) => T): T {
  const key = Buffer.from(master.use((bytes) => hkdfSync("sha256", bytes, salt, info, KEY_BYTES)));
  try {
    return work(key);
  } finally {
    key.fill(0);
  }
}

function associatedData({ owner, name, revision }: Binding): Buffer {
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(BigInt(revision));
  return Buffer.concat([Buffer.from(LABEL), framed(owner), framed(name), number]);
}

function framed(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
