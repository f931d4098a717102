/**
 * Owns the master key in the account's keychain: service `Lemon Secrets`, account `default`; the earlier keys under
 * account `default-previous` (control-plane-wire.md 6.1). That is the key of `~/.lemon`.
 *
 * 1. A keychain is looked for where one can be: on macOS, and where a session bus is. The library is loaded there
 *    alone, and its absence is the absence of a keychain.
 * 2. It is asked with a deadline: a locked one waits for a person.
 * 3. Never the kernel's keyring: what it holds is gone with the session.
 * 4. Another state folder has entries of its own, `default:` and a digest of where it lies: keys change under the
 *    lock of one folder, so two that shared an entry could each drop the key that the other had just made.
 */
import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { Secret } from "../../protocol/secret.ts";
import type { Clock } from "../clock.ts";
import { KeychainError, type KeyPlace } from "./master-keys.ts";

/** What we need of the library's `AsyncEntry`; every call can reject. */
export interface KeychainEntry {
  getPassword(signal: AbortSignal): Promise<string | null>;
  setPassword(text: string, signal: AbortSignal): Promise<void>;
}
export type OpenEntry = (service: string, account: string) => KeychainEntry;

export interface KeychainOptions {
  readonly platform: NodeJS.Platform;
  readonly environment: NodeJS.ProcessEnv;
  readonly clock: Clock;
  /** The state folder, and the account's own folder. */
  readonly home: string;
  readonly accountHome: string;
  /** Loads the library. Default: the real one. */
  readonly load?: () => Promise<OpenEntry>;
}

const SERVICE = "Lemon Secrets";
const DEFAULT_ACCOUNT = "default";
const DIGEST_DIGITS = 16;
const DEADLINE_MS = 5_000;

/** Null where no keychain can be. */
export function keychain(options: KeychainOptions): KeyPlace | null {
  const { platform, environment, clock, load = loadLibrary } = options;
  const canBe =
    platform === "darwin" ||
    (platform === "linux" && (environment["DBUS_SESSION_BUS_ADDRESS"] ?? "") !== "");
  if (!canBe) return null;
  /** Looked up each time: the folder, and what its links lead to, may only be made by now. */
  const account = (): string => accountOf(options);
  let loaded: Promise<OpenEntry> | null = null;

  async function ask<T>(
    entryOf: string,
    question: (entry: KeychainEntry, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const late = new AbortController();
    const { promise, reject } = Promise.withResolvers<never>();
    const cancel = clock.after(DEADLINE_MS, () => {
      late.abort();
      reject(new KeychainError("timeout"));
    });
    async function answer(): Promise<T> {
      try {
        loaded ??= load();
        return await question((await loaded)(SERVICE, entryOf), late.signal);
      } catch (failure) {
        throw new KeychainError(kindOf(failure));
      }
    }
    try {
      return await Promise.race([answer(), promise]);
    } finally {
      cancel();
    }
  }
  const read = (entryOf: string): Promise<Secret | null> =>
    ask(entryOf, async (entry, signal) => {
      const text = await entry.getPassword(signal);
      return text === null ? null : Secret.ofText(text);
    });
  const write = (entryOf: string, text: Secret): Promise<void> =>
    ask(entryOf, (entry, signal) =>
      entry.setPassword(
        text.use((bytes) => Buffer.from(bytes).toString("latin1")),
        signal,
      ),
    );
  return {
    async read() {
      const current = await read(account());
      return { current, previous: current === null ? null : await read(`${account()}-previous`) };
    },
    writeCurrent: (text) => write(account(), text),
    writePrevious: (text) => write(`${account()}-previous`, text),
  };
}

function accountOf({ home, accountHome }: KeychainOptions): string {
  const [here, usual] = [home, join(accountHome, ".lemon")].map(whereItLies);
  if (here === undefined || here === usual) return DEFAULT_ACCOUNT;
  const digest = createHash("sha256").update(here).digest("hex");
  return `${DEFAULT_ACCOUNT}:${digest.slice(0, DIGEST_DIGITS)}`;
}

/** One folder has one name, whichever links lead there; also one that is not made yet. */
function whereItLies(path: string): string {
  const above = resolve(path, "..");
  for (const known of [path, above]) {
    try {
      const real = realpathSync(known);
      return known === path ? real : join(real, basename(resolve(path)));
    } catch {
      // Not there yet.
    }
  }
  return resolve(path);
}

async function loadLibrary(): Promise<OpenEntry> {
  const { AsyncEntry } = await import("@napi-rs/keyring");
  return (service, account) =>
    new AsyncEntry(service, account, { linux: { store: "secret-service" } });
}

/** The library's messages may hold anything; of them only this much goes on. */
function kindOf(failure: unknown): string {
  const text = failure instanceof Error ? failure.message.toLowerCase() : "";
  if (text.includes("locked")) return "locked";
  if (text.includes("denied") || text.includes("not allowed")) return "denied";
  if (failure instanceof Error && "code" in failure && failure.code === "ERR_MODULE_NOT_FOUND") {
    return "missing_library";
  }
  return "failed";
}
