/**
 * Owns the master keys that a vault holds in memory: the current one, and earlier ones that secrets may still be
 * under.
 *
 * 1. They are read when they are first needed, and again while what is needed is missing: a key that an operator
 *    puts there serves at once. So is one that took the place of what is held, as soon as the vault is told.
 * 2. They are zeroed when the vault ends.
 */
import type { MasterKey, MasterKeys } from "../../host/master-key/master-keys.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Secret } from "../../protocol/secret.ts";
import { keyIdOf } from "./crypto.ts";

interface Ring {
  readonly current: string;
  /** By id. */
  readonly keys: ReadonlyMap<string, Secret>;
}

export interface NamedKey {
  readonly id: string;
  readonly key: Secret;
}

export class Keyring {
  readonly #keys: MasterKeys;
  #ring: Ring | null = null;
  #isExternal = false;

  constructor(keys: MasterKeys) {
    this.#keys = keys;
  }

  /** Whether the key is an operator's own, who exchanges it by hand. */
  get isExternal(): boolean {
    return this.#isExternal;
  }

  /** The key for what is sealed now. Errors: `secret_key_missing`, `weak_master_key`. */
  async current(): Promise<NamedKey> {
    const ring = this.#ring ?? (await this.#read());
    if (ring === null) throw new LemonError("secret_key_missing");
    return named(ring, ring.current);
  }

  /** The key of that id. Errors: `secret_key_missing`, `secret_key_mismatch`, `weak_master_key`. */
  async of(id: string): Promise<NamedKey> {
    const known = this.#ring?.keys.has(id) === true ? this.#ring : await this.#read();
    if (known === null) throw new LemonError("secret_key_missing");
    return named(known, id);
  }

  /** The id of the key that is current now; null while that is not to be had. */
  async currentId(): Promise<string | null> {
    try {
      return (await this.current()).id;
    } catch {
      return null;
    }
  }

  /** Makes `key` the current one, here and where keys are kept. Errors: those of `MasterKeys.replace`. */
  async replace(key: Secret): Promise<void> {
    await this.#keys.replace(key);
    await this.#read();
  }

  /** Takes up what is current by now. Where nothing can be read, what is held serves on. Errors: `weak_master_key`. */
  async refresh(): Promise<void> {
    if (this.#ring === null) return;
    const found = await this.#keys.read();
    if (found !== null) this.#hold(found);
  }

  destroy(): void {
    for (const key of this.#ring?.keys.values() ?? []) key.destroy();
    this.#ring = null;
  }

  async #read(): Promise<Ring | null> {
    const found = await this.#keys.read();
    this.destroy();
    return found === null ? null : this.#hold(found);
  }

  #hold(found: MasterKey): Ring {
    this.destroy();
    this.#ring = ringOf(found);
    this.#isExternal = found.source === "env";
    return this.#ring;
  }
}

function ringOf({ key, previous }: MasterKey): Ring {
  const keys = new Map<string, Secret>();
  for (const one of [key, ...previous]) {
    const id = keyIdOf(one);
    if (keys.has(id)) one.destroy();
    else keys.set(id, one);
  }
  return { current: keyIdOf(key), keys };
}

function named({ keys }: Ring, id: string): NamedKey {
  const key = keys.get(id);
  if (key === undefined) throw new LemonError("secret_key_mismatch");
  return { id, key };
}
