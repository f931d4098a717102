/**
 * Owns the methods about the control plane's own secrets (control-plane-wire.md 3.8). No answer holds a value,
 * or anything of how it is kept.
 */
import { LemonError } from "../../protocol/errors.ts";
import { Secret } from "../../protocol/secret.ts";
import { refuseReservedName } from "../../protocol/secrets.ts";
import type { MethodHandlers } from "../session/handler.ts";
import { type Rotation, SET_BY_HAND, VAULT_DEADLINE, type Vault } from "./asking.ts";
import type { SecretMetadata } from "./messages.ts";

type SecretsMethod =
  | "secrets.status"
  | "secrets.list"
  | "secrets.set"
  | "secrets.delete"
  | "secrets.exists"
  | "secrets.rotate";

/** The one owner that there is (control-plane-wire.md 6.1). */
const OWNER = "default";

export interface SecretsMethodsOptions {
  readonly vault: Vault;
  /** Where a name may be looked for besides the vault, when the asker says so. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Puts all that is under this machine's master key under a new one. */
  readonly rotate: () => Promise<Rotation>;
}

export function secretsMethods(options: SecretsMethodsOptions): MethodHandlers<SecretsMethod> {
  const { vault, environment, rotate } = options;
  return {
    async "secrets.status"() {
      const { problem, ...status } = await vault.ask("status", null, VAULT_DEADLINE);
      return {
        ...status,
        summary: { source: status.source, healthy: status.healthy, count: status.count, problem },
      };
    },

    async "secrets.list"({ owner = OWNER }) {
      const entries = owner === OWNER ? await vault.ask("entries", null, VAULT_DEADLINE) : [];
      const secrets = entries.map(metadata);
      return { owner, secrets, summary: { count: secrets.length } };
    },

    async "secrets.set"({ name, value: text, provider = SET_BY_HAND, expiresAt = null }) {
      refuseReservedName(name);
      using value = Secret.ofText(text);
      const request = { name, value, operationId: null, provider, expiresAtMs: expiresAt };
      const set = await vault
        .ask("set", request, VAULT_DEADLINE)
        .catch((error: unknown) => fail(error, "what there is with secrets.list"));
      return {
        ok: true,
        secret: metadata(set.metadata),
        summary: { expires: expiresAt !== null },
      };
    },

    async "secrets.delete"({ name }) {
      refuseReservedName(name);
      const { deleted, ...about } = await vault
        .ask("delete", { name }, VAULT_DEADLINE)
        .catch((error: unknown) => fail(error, "whether it is there with secrets.exists"));
      return { ok: true, ...about, summary: { deleted } };
    },

    async "secrets.rotate"() {
      const { count, behind } = await rotate();
      return { ok: true, count, behind, summary: { count } };
    },

    async "secrets.exists"({ name, preferEnv = false, envFallback = false }) {
      const inEnvironment = (preferEnv || envFallback) && isSet(environment, name);
      const exists = (await vault.ask("exists", { name }, VAULT_DEADLINE)) || inEnvironment;
      return { name, exists, summary: { exists } };
    },
  };
}

/** A vault in this process is silent when it crashed, or its store does not answer. */
function fail(error: unknown, read: string): never {
  if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
  throw new LemonError("secret_outcome_unknown", {
    message: `The outcome is unknown; read ${read} before anything else`,
    wire: error.wire === "TIMEOUT" ? "TIMEOUT" : "UNAVAILABLE",
    cause: error,
  });
}

/** Lemon's own variables are nobody's secrets. */
function isSet(environment: SecretsMethodsOptions["environment"], name: string): boolean {
  if (name.startsWith("LEMON_") || !Object.hasOwn(environment, name)) return false;
  return (environment[name] ?? "") !== "";
}

function metadata(known: SecretMetadata) {
  const { expiresAtMs, lastUsedAtMs, createdAtMs, updatedAtMs, ...rest } = known;
  return {
    owner: OWNER,
    ...rest,
    expiresAt: expiresAtMs,
    lastUsedAt: lastUsedAtMs,
    createdAt: createdAtMs,
    updatedAt: updatedAtMs,
  };
}
