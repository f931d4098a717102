/**
 * Owns the words of a vault: what may be asked of it, and what it answers (node-host-io.md, "Write-only encrypted
 * secrets"; control-plane-wire.md 3.8).
 *
 * 1. Only `resolve` answers with a value, and only inside this process.
 * 2. A value in a message stays its sender's: the vault reads it while the message is handled, keeps nothing of it,
 *    and the sender destroys it. A value in an answer is the asker's to destroy.
 * 3. Names are trimmed by the vault; every answer has the trimmed one.
 *
 * Errors of every message: `secret_store_damaged`, `secret_store_unavailable`; of those that write also `no_space`,
 * `durability_unproven`, and `secret_outcome_unknown`, which a `receipt` (a repeat for a `delete`) settles.
 */
import type { Secret } from "../../protocol/secret.ts";
import { SECRET_BOUNDS } from "../../protocol/secrets.ts";

export const VAULT_BOUNDS = {
  ...SECRET_BOUNDS,
  providerBytes: 256,
  /** Names that a vault remembers, those included that have receipts alone. */
  names: 10_000,
} as const;

export interface SetSecret {
  readonly name: string;
  readonly value: Secret;
  /** The caller's own id of this operation; null for a set without a receipt. */
  readonly operationId: string | null;
  /** Who put it there, for the metadata alone. */
  readonly provider: string;
  /** Unix ms, in the future; null for a secret that does not expire. */
  readonly expiresAtMs: number | null;
}

export interface SecretSet {
  readonly name: string;
  readonly revision: number;
  readonly metadata: SecretMetadata;
  /** With an operation id alone. */
  readonly operationId?: string;
  readonly currentBindingMatches?: true;
}

export interface SecretNames {
  /** Unexpired, in the order of their UTF-16 code units. */
  readonly names: readonly string[];
  readonly limit: 500;
  readonly truncated: boolean;
}

/** Times in Unix ms. */
export interface SecretMetadata {
  readonly name: string;
  readonly provider: string;
  readonly expiresAtMs: number | null;
  /** Resolutions of this value; those of the last second before a crash may be missing. */
  readonly usageCount: number;
  readonly lastUsedAtMs: number | null;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  readonly version: string;
}

export interface SecretReceipt {
  readonly operationId: string;
  readonly status: "applied" | "not_found";
  readonly name: string | null;
  readonly currentBindingMatches: boolean;
}

export type MasterKeySource = "keychain" | "env" | "file";

export interface VaultStatus {
  readonly owner: string;
  /** Where the master key comes from; null when there is none. */
  readonly source: MasterKeySource | null;
  readonly configured: boolean;
  readonly keychainAvailable: boolean;
  /** The kind of the keychain's failure, free of content; null when it did not fail or was not asked. */
  readonly keychainErrorKind: string | null;
  /** Whether the two other sources hold a key that would serve. */
  readonly envFallback: boolean;
  readonly fileFallback: boolean;
  /** Whether secrets can be set and resolved now. */
  readonly healthy: boolean;
  /** Why not, as a code of the table. */
  readonly problem: string | null;
  /** Unexpired secrets. Null while nobody knows. */
  readonly count: number | null;
  readonly cleanup: {
    /** Replaced or deleted records that are not erased yet. */
    readonly unerased: number;
    /** Secrets that are still under an earlier master key. */
    readonly unrotated: number;
  };
}

export type VaultMessages = {
  /**
   * Installs or replaces a secret. Errors: `invalid_params`, `too_large`, `secret_operation_conflict`,
   * `secret_receipt_capacity`, `secret_name_limit`, `secret_destroyed`, `secret_key_missing`, `secret_key_mismatch`,
   * `weak_master_key`.
   */
  set: (request: SetSecret) => SecretSet;
  list: (request: null) => SecretNames;
  /** All unexpired secrets, in the order of `list`. */
  entries: (request: null) => readonly SecretMetadata[];
  /** Also of a name that there is none of. It is answered once nothing of the value is left on the disk. */
  delete: (request: { readonly name: string }) => { readonly name: string; readonly deleted: true };
  exists: (request: { readonly name: string }) => boolean;
  /** Reads alone: neither decrypts nor counts. */
  receipt: (request: { readonly operationId: string }) => SecretReceipt;
  /**
   * The value, for a consumer in this process; counted as a use. Errors: `secret_not_found`, `secret_key_missing`,
   * `secret_key_mismatch`, `weak_master_key`.
   */
  resolve: (request: { readonly name: string }) => Secret;
  /** Never fails for the store's sake. */
  status: (request: null) => VaultStatus;
  /**
   * Makes `newKey` the machine's master key and puts every secret of this vault under it; the earlier key is kept
   * beside it for the machine's other vaults, which follow when they are opened. It holds after a kill at any point.
   * Errors: `weak_master_key`, `secret_key_missing`, `secret_key_external` (the environment's is the operator's).
   */
  rotate: (request: { readonly newKey: Secret }) => { readonly count: number };
};
