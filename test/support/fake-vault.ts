/** Owns a vault in memory for tests of what stands in front of one: it keeps copies, and fails when it is told to. */
import type { Vault } from "../../actors/vault/asking.ts";
import type { SecretMetadata, SetSecret, VaultMessages } from "../../actors/vault/messages.ts";
import { LemonError } from "../../protocol/errors.ts";
import { Secret } from "../../protocol/secret.ts";
import type { AskOptions, MessageName, PayloadOf, ReplyOf } from "../../supervision/actor.ts";

interface Kept {
  readonly bytes: Uint8Array;
  readonly operationId: string | null;
  readonly metadata: SecretMetadata;
}

const NOW_MS = 1_796_058_000_000;

export class FakeVault implements Vault {
  readonly kept = new Map<string, Kept>();
  /** Every secret that was handed over; its sender has to have destroyed it. */
  readonly handed: Secret[] = [];
  readonly deadlines: number[] = [];
  /** What it fails with instead of answering. */
  failure: LemonError | null = null;

  async ask<K extends MessageName<VaultMessages>>(
    type: K,
    payload: PayloadOf<VaultMessages, K>,
    { deadlineMs }: AskOptions,
  ): Promise<ReplyOf<VaultMessages, K>> {
    this.deadlines.push(deadlineMs);
    await Promise.resolve();
    if (type === "set") this.handed.push((payload as SetSecret).value);
    if (this.failure !== null) throw this.failure;
    const answer: unknown = Reflect.apply(this.#handlers[type], undefined, [payload]);
    return answer as ReplyOf<VaultMessages, K>;
  }

  /** The value as a text. */
  text(name: string): string | undefined {
    const kept = this.kept.get(name);
    return kept === undefined ? undefined : Buffer.from(kept.bytes).toString("utf8");
  }

  readonly #handlers: VaultMessages = {
    set: ({ name, value, operationId, provider, expiresAtMs }) => {
      const metadata: SecretMetadata = {
        name,
        provider,
        expiresAtMs,
        usageCount: 0,
        lastUsedAtMs: null,
        createdAtMs: this.kept.get(name)?.metadata.createdAtMs ?? NOW_MS,
        updatedAtMs: NOW_MS,
        version: "v1",
      };
      const bytes = value.use((given) => Uint8Array.from(given));
      this.kept.set(name, { bytes, operationId, metadata });
      const plain = { name, revision: 1, metadata };
      return operationId === null
        ? plain
        : { ...plain, operationId, currentBindingMatches: true as const };
    },
    list: () => ({ names: [...this.kept.keys()].sort(), limit: 500, truncated: false }),
    entries: () => [...this.kept.values()].map(({ metadata }) => metadata),
    delete: ({ name }) => {
      this.kept.delete(name);
      return { name, deleted: true };
    },
    exists: ({ name }) => this.kept.has(name),
    receipt: ({ operationId }) => {
      const found = [...this.kept].find(([, kept]) => kept.operationId === operationId);
      return found === undefined
        ? { operationId, status: "not_found", name: null, currentBindingMatches: false }
        : { operationId, status: "applied", name: found[0], currentBindingMatches: true };
    },
    resolve: ({ name }) => {
      const kept = this.kept.get(name);
      if (kept === undefined) throw new LemonError("secret_not_found");
      return Secret.take(Uint8Array.from(kept.bytes));
    },
    status: () => ({
      owner: "default",
      source: "file",
      configured: true,
      keychainAvailable: false,
      keychainErrorKind: null,
      envFallback: false,
      fileFallback: true,
      healthy: true,
      problem: null,
      count: this.kept.size,
      cleanup: { unerased: 0, unrotated: 0 },
    }),
    rotate: () => ({ count: this.kept.size }),
  };
}
