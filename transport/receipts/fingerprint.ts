/**
 * Owns the keyed fingerprint of an intent: enough to tell whether two requests with one id meant the
 * same, and nothing for whoever reads the store without this host's key.
 *
 * 1. The key is random, made on this host, in a file of mode 0600, and never leaves the host.
 * 2. A lost or damaged key is replaced. Ids stay spent: a fingerprint made under another key only can
 *    no longer be compared.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readSecureFile, writeSecureFile } from "../../host/secure-file.ts";
import { digestOf } from "./record.ts";

export interface Fingerprint {
  /** Which key made it; tells nothing about the key. */
  readonly key: Uint8Array;
  readonly mac: Uint8Array;
}

export interface Fingerprinter {
  of(id: string, intent: Uint8Array): Fingerprint;
  /** Whether both stand for the same intent; null when that can no longer be told. */
  same(a: Fingerprint, b: Fingerprint): boolean | null;
}

const KEY_BYTES = 32;
const KEY_NAME_BYTES = 8;

/**
 * Opens the key file. `made` is true when there was no key that can be used, and one was made.
 * `bucket` keeps the fingerprints of one kind of work apart from another's. Errors:
 * `permission_denied` when others could have read the file.
 */
export async function openFingerprinter(
  path: string,
  bucket: string,
): Promise<{ readonly fingerprinter: Fingerprinter; readonly made: boolean }> {
  const found = await readKey(path);
  const key = found ?? randomBytes(KEY_BYTES);
  if (found === null) await writeSecureFile(path, Buffer.concat([key, checkOf(key)]));
  return { fingerprinter: new HmacFingerprinter(key, bucket), made: found === null };
}

/** The file holds the key and a check of it; anything else is no key. */
async function readKey(path: string): Promise<Buffer | null> {
  const bytes = await readSecureFile(path);
  if (bytes === null) return null;
  const key = bytes.subarray(0, KEY_BYTES);
  return bytes.equals(Buffer.concat([key, checkOf(key)])) ? key : null;
}

function checkOf(key: Uint8Array): Buffer {
  return Buffer.from(digestOf(Buffer.concat([Buffer.from("check"), key])), "latin1");
}

class HmacFingerprinter implements Fingerprinter {
  readonly #key: Uint8Array;
  readonly #name: Uint8Array;
  readonly #bucket: string;

  constructor(key: Uint8Array, bucket: string) {
    this.#key = key;
    this.#bucket = bucket;
    this.#name = createHmac("sha256", key).update("name").digest().subarray(0, KEY_NAME_BYTES);
  }

  of(id: string, intent: Uint8Array): Fingerprint {
    // An id holds no NUL that could move the boundary: it is given with its length.
    const mac = createHmac("sha256", this.#key)
      .update(`${this.#bucket}\0${Buffer.byteLength(id)}\0${id}\0`)
      .update(intent)
      .digest();
    return { key: this.#name, mac };
  }

  same(a: Fingerprint, b: Fingerprint): boolean | null {
    if (!Buffer.from(a.key).equals(b.key)) return null;
    return a.mac.length === b.mac.length && timingSafeEqual(a.mac, b.mac);
  }
}
