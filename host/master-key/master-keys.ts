/**
 * Owns where this machine's master key comes from: the account's keychain, else the environment, else a file
 * (control-plane-wire.md 6.1).
 *
 * 1. A key is standard base64 of at least 32 bytes. The first source that holds anything counts, be it weak; only a
 *    keychain whose value is unusable is passed over.
 * 2. A new key takes the place of the old one only after the old one is kept beside it: whatever is still under
 *    that opens, whenever the process is killed. Keys change one change at a time, whichever process makes it.
 * 3. No earlier key is ever dropped: a vault that was not opened since, or whose process goes on under an earlier
 *    one, may need any of them. Where there is no room for more, no key is replaced.
 * 4. The environment's key is the operator's: it is never written.
 */
import { randomBytes } from "node:crypto";
import { LemonError } from "../../protocol/errors.ts";
import { Secret } from "../../protocol/secret.ts";

export type KeySource = "keychain" | "env" | "file";

/** Both texts of one source; whoever is given them owns them. */
export interface KeyTexts {
  readonly current: Secret | null;
  /** Earlier keys, the latest first, one a line. */
  readonly previous: Secret | null;
}

/** A place for keys that we may write to. */
export interface KeyPlace {
  /** Rejects when it cannot be asked; for a keychain with a `KeychainError`. */
  read(): Promise<KeyTexts>;
  writeCurrent(text: Secret): Promise<void>;
  writePrevious(text: Secret): Promise<void>;
}

export interface MasterKey {
  readonly source: KeySource;
  /** Raw bytes, at least 32. */
  readonly key: Secret;
  /** The latest first. */
  readonly previous: readonly Secret[];
}

export interface MasterKeyStatus {
  /** Null when no source holds a key that can be used. */
  readonly source: KeySource | null;
  readonly keychainAvailable: boolean;
  readonly keychainErrorKind: string | null;
  readonly envFallback: boolean;
  readonly fileFallback: boolean;
}

export interface MasterKeys {
  /** Null when there is none. Whoever is given the keys destroys them. Errors: `weak_master_key`, `permission_denied`. */
  read(): Promise<MasterKey | null>;
  status(): Promise<MasterKeyStatus>;
  /** Makes a random key where there is none. Errors: `secret_key_exists`, `secret_key_busy`, those of `read`. */
  create(): Promise<KeySource>;
  /**
   * Makes `key` the current one; nothing happens when it is. Errors: `weak_master_key`, `secret_key_missing`,
   * `secret_key_external`, `secret_key_limit`, `secret_key_busy`, `unavailable` (the keychain).
   */
  replace(key: Secret): Promise<void>;
  /**
   * Calls back when what `read` finds may have changed, by whichever process. Returns what ends it. Errors: the
   * system's, when it cannot be watched.
   */
  watch(onChange: () => void): () => void;
}

/** Of a keychain that is there and does not serve: `locked`, `denied`, `timeout`, `failed`. */
export class KeychainError extends Error {
  override readonly name = "KeychainError";
  readonly kind: string;

  constructor(kind: string) {
    super(`the keychain does not serve: ${kind}`);
    this.kind = kind;
  }
}

export interface MasterKeysOptions {
  /** Null where no keychain can be. */
  readonly keychain: KeyPlace | null;
  readonly environment: KeyTexts;
  readonly file: KeyPlace;
  /** Runs a change of keys while no other process makes one. Errors: `secret_key_busy`. */
  readonly exclusively: <T>(change: () => Promise<T>) => Promise<T>;
  readonly watch: (onChange: () => void) => () => void;
}

const LEAST_BYTES = 32;
const MADE_BYTES = 32;
/** Earlier keys: so many of 32 bytes are well below what a private file may hold. */
const PREVIOUS_AT_MOST = 1_000;
const NEWLINE = 0x0a;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export function masterKeys(options: MasterKeysOptions): MasterKeys {
  return new Sources(options);
}

class Sources implements MasterKeys {
  readonly #options: MasterKeysOptions;
  /** Settles once the last change that was asked for in this process has ended. */
  #changed: Promise<unknown> = Promise.resolve();

  constructor(options: MasterKeysOptions) {
    this.#options = options;
  }

  async read(): Promise<MasterKey | null> {
    const { keychain } = await this.#keychain();
    if (keychain !== null) return keychain;
    const { environment, file } = this.#options;
    return read("env", environment) ?? readOnce("file", await file.read());
  }

  async status(): Promise<MasterKeyStatus> {
    const { keychain, errorKind } = await this.#keychain();
    const env = holds(() => read("env", this.#options.environment));
    let file = false;
    try {
      const texts = await this.#options.file.read();
      file = holds(() => readOnce("file", texts));
    } catch {
      // Not as this account left it: it does not serve.
    }
    const has = keychain !== null;
    if (keychain !== null) destroy(keychain);
    return {
      source: has ? "keychain" : env ? "env" : file ? "file" : null,
      keychainAvailable: this.#options.keychain !== null && errorKind === null,
      keychainErrorKind: errorKind,
      envFallback: env,
      fileFallback: file,
    };
  }

  create(): Promise<KeySource> {
    return this.#inTurn(() => this.#create());
  }

  async replace(key: Secret): Promise<void> {
    if (key.use(({ length }) => length) < LEAST_BYTES) throw new LemonError("weak_master_key");
    await this.#inTurn(() => this.#replace(key));
  }

  watch(onChange: () => void): () => void {
    return this.#options.watch(onChange);
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const turn = this.#changed.then(() => this.#options.exclusively(change));
    this.#changed = turn.catch(() => {});
    return turn;
  }

  async #create(): Promise<KeySource> {
    const found = await this.read();
    if (found !== null) {
      destroy(found);
      throw new LemonError("secret_key_exists");
    }
    using key = Secret.take(randomBytes(MADE_BYTES));
    using text = base64Of(key);
    const { keychain, file } = this.#options;
    if (keychain !== null) {
      try {
        await keychain.writeCurrent(text);
        return "keychain";
      } catch (failure) {
        if (!(failure instanceof KeychainError)) throw failure;
      }
    }
    await file.writeCurrent(text);
    return "file";
  }

  async #replace(key: Secret): Promise<void> {
    const found = await this.read();
    if (found === null) throw new LemonError("secret_key_missing");
    try {
      if (same(found.key, key)) return;
      if (found.source === "env") throw new LemonError("secret_key_external");
      const { keychain, file } = this.#options;
      const place = found.source === "keychain" ? (keychain ?? file) : file;
      const others = found.previous.filter((one) => !same(one, key) && !same(one, found.key));
      const kept = [found.key, ...others];
      if (kept.length > PREVIOUS_AT_MOST) throw new LemonError("secret_key_limit");
      using previous = lines(kept);
      using current = base64Of(key);
      await place.writePrevious(previous);
      await place.writeCurrent(current);
    } catch (failure) {
      if (failure instanceof KeychainError) throw new LemonError("unavailable", { cause: failure });
      throw failure;
    } finally {
      destroy(found);
    }
  }

  async #keychain(): Promise<{ keychain: MasterKey | null; errorKind: string | null }> {
    const { keychain } = this.#options;
    if (keychain === null) return { keychain: null, errorKind: null };
    try {
      const texts = await keychain.read();
      try {
        return { keychain: readOnce("keychain", texts), errorKind: null };
      } catch {
        return { keychain: null, errorKind: "weak_master_key" };
      }
    } catch (failure) {
      const errorKind = failure instanceof KeychainError ? failure.kind : "failed";
      return { keychain: null, errorKind };
    }
  }
}

/** The keys of one source; null when it holds none. Errors: `weak_master_key`. */
function read(source: KeySource, { current, previous }: KeyTexts): MasterKey | null {
  if (current === null) return null;
  const key = current.use(keyIn);
  if (key === null) throw new LemonError("weak_master_key");
  return { source, key, previous: previous === null ? [] : previous.use(keysIn) };
}

/** The same, of texts that are not needed any more. */
function readOnce(source: KeySource, texts: KeyTexts): MasterKey | null {
  try {
    return read(source, texts);
  } finally {
    texts.current?.destroy();
    texts.previous?.destroy();
  }
}

function holds(reading: () => MasterKey | null): boolean {
  try {
    const found = reading();
    if (found !== null) destroy(found);
    return found !== null;
  } catch {
    return false;
  }
}

/** The key that a text encodes; null when it is none or a weak one. */
function keyIn(text: Uint8Array): Secret | null {
  const encoded = Buffer.from(text.buffer, text.byteOffset, text.length).toString("latin1").trim();
  if (!BASE64.test(encoded)) return null;
  const key = Buffer.from(encoded, "base64");
  if (key.length >= LEAST_BYTES) return Secret.take(key);
  key.fill(0);
  return null;
}

/** The keys of a text of lines; what is none is passed over. */
function keysIn(text: Uint8Array): Secret[] {
  const keys: Secret[] = [];
  for (let from = 0; from <= text.length; ) {
    const end = text.indexOf(NEWLINE, from);
    const line = text.subarray(from, end < 0 ? text.length : end);
    const key = keyIn(line);
    if (key !== null) keys.push(key);
    from += line.length + 1;
  }
  return keys;
}

function base64Of(key: Secret): Secret {
  return Secret.ofText(key.use((bytes) => Buffer.from(bytes).toString("base64")));
}

function lines(keys: readonly Secret[]): Secret {
  return Secret.ofText(
    keys.map((key) => key.use((bytes) => Buffer.from(bytes).toString("base64"))).join("\n"),
  );
}

function same(one: Secret, other: Secret): boolean {
  return one.use((a) => other.use((b) => Buffer.compare(a, b) === 0));
}

function destroy({ key, previous }: MasterKey): void {
  for (const one of [key, ...previous]) one.destroy();
}
