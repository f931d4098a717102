/**
 * Owns the master key in the account's keychain: service `Lemon Secrets`, account `default`; the earlier keys under
 * account `default-previous` (control-plane-wire.md 6.1).
 *
 * 1. A keychain is looked for where one can be: on macOS, and where a session bus is. The library is loaded there
 *    alone, and its absence is the absence of a keychain.
 * 2. It is asked with a deadline: a locked one waits for a person.
 * 3. Never the kernel's keyring: what it holds is gone with the session.
 */
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
  /** Loads the library. Default: the real one. */
  readonly load?: () => Promise<OpenEntry>;
}

const SERVICE = "Lemon Secrets";
const CURRENT = "default";
const PREVIOUS = "default-previous";
const DEADLINE_MS = 5_000;

/** Null where no keychain can be. */
export function keychain(options: KeychainOptions): KeyPlace | null {
  const { platform, environment, clock, load = loadLibrary } = options;
  const canBe =
    platform === "darwin" ||
    (platform === "linux" && (environment["DBUS_SESSION_BUS_ADDRESS"] ?? "") !== "");
  if (!canBe) return null;
  let loaded: Promise<OpenEntry> | null = null;

  async function ask<T>(
    account: string,
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
        return await question((await loaded)(SERVICE, account), late.signal);
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
  const read = (account: string): Promise<Secret | null> =>
    ask(account, async (entry, signal) => {
      const text = await entry.getPassword(signal);
      return text === null ? null : Secret.ofText(text);
    });
  const write = (account: string, text: Secret): Promise<void> =>
    ask(account, (entry, signal) =>
      entry.setPassword(
        text.use((bytes) => Buffer.from(bytes).toString("latin1")),
        signal,
      ),
    );
  return {
    async read() {
      const current = await read(CURRENT);
      return { current, previous: current === null ? null : await read(PREVIOUS) };
    },
    writeCurrent: (text) => write(CURRENT, text),
    writePrevious: (text) => write(PREVIOUS, text),
  };
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
