/** Owns a vault on a real store for the tests of it: its actor, its keys in a file, its clock. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import pino from "pino";
import { startVault } from "../../actors/vault/actor.ts";
import type { SetSecret, VaultMessages } from "../../actors/vault/messages.ts";
import type { Clock } from "../../host/clock.ts";
import { changingKeys, keyFile, watchKeys } from "../../host/master-key/key-file.ts";
import { type MasterKeys, masterKeys } from "../../host/master-key/master-keys.ts";
import { Secret } from "../../protocol/secret.ts";
import type { ActorRef, PayloadOf, ReplyOf } from "../../supervision/actor.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { openRecordStore, type RecordStoreOptions } from "../../transport/records/open.ts";
import type { RecordBench } from "./record-bench.ts";

/** As on a busy machine: nothing here is about time. */
const ASK = { deadlineMs: 60_000 } as const;

export interface OpenVault extends AsyncDisposable {
  readonly ref: ActorRef<VaultMessages>;
  ask<K extends keyof VaultMessages & string>(
    type: K,
    payload: PayloadOf<VaultMessages, K>,
  ): Promise<ReplyOf<VaultMessages, K>>;
  /** Sets a text. */
  set(
    name: string,
    text: string,
    more?: Partial<SetSecret>,
  ): Promise<ReplyOf<VaultMessages, "set">>;
  /** The text that a name resolves to. */
  resolve(name: string): Promise<string>;
  names(): Promise<readonly string[]>;
}

export interface VaultOptions {
  readonly clock: Clock;
  readonly keys?: MasterKeys;
  readonly scope?: string;
  readonly store?: Partial<RecordStoreOptions>;
}

/** Keys in a file below the bench's folder, made unless they are there. */
async function benchKeys(bench: { readonly directory: string }): Promise<MasterKeys> {
  const nothing = { current: null, previous: null };
  const home = join(bench.directory, "home");
  const keys = masterKeys({
    keychain: null,
    environment: nothing,
    file: keyFile(home),
    exclusively: (change) => changingKeys(home, change),
    watch: (onChange) => watchKeys(home, onChange),
  });
  const found = await keys.status();
  if (found.source === null) await keys.create();
  return keys;
}

export const newKey = (): Secret => Secret.take(randomBytes(32));

export async function openVault(
  bench: Pick<RecordBench, "connection" | "sys" | "directory">,
  options: VaultOptions,
): Promise<OpenVault> {
  const { clock, scope = "node-1" } = options;
  const log = pino({ enabled: false });
  const system = createActorSystem({ name: "test", log, clock, random: () => 1 });
  const { connection, sys, directory } = bench;
  const ref = await startVault(system.root, {
    scope,
    clock,
    keys: options.keys ?? (await benchKeys(bench)),
    openStore: (sink) =>
      openRecordStore({
        bucket: "vault",
        connection,
        sys,
        directory,
        clock,
        log,
        sink,
        ...options.store,
      }),
  });
  const ask: OpenVault["ask"] = (type, payload) => ref.ask(type, payload, ASK);
  return {
    ref,
    ask,
    async set(name, text, more = {}) {
      using value = Secret.ofText(text);
      const plain = { operationId: null, provider: "manual", expiresAtMs: null };
      return await ask("set", { name, value, ...plain, ...more });
    },
    async resolve(name) {
      using value = await ask("resolve", { name });
      return value.use((bytes) => Buffer.from(bytes).toString());
    },
    names: async () => (await ask("list", null)).names,
    [Symbol.asyncDispose]: () => system.shutdown(),
  };
}
