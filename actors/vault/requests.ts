/**
 * Owns what a vault accepts: every request is held against the bounds here, whoever validated it before.
 *
 * 1. A name is trimmed first and measured then, in UTF-8; what UTF-8 cannot hold (a lone surrogate) is refused, as
 *    two such names would be stored as one.
 * 2. Nothing of a name or a value stands in a refusal.
 */
import { LemonError } from "../../protocol/errors.ts";
import { type SetSecret, VAULT_BOUNDS, type VaultMessages } from "./messages.ts";

const OPERATION_ID = /^[A-Za-z0-9_:-]{1,128}$/;

/** The name as the vault knows it. Errors: `invalid_params`. */
export function readName(given: string): string {
  const name = given.trim();
  const bytes = Buffer.byteLength(name);
  if (bytes < 1 || bytes > VAULT_BOUNDS.nameBytes) refuse("must be 1 to 256 bytes of UTF-8");
  if (name.includes("\0") || !name.isWellFormed()) refuse("must be text without NUL");
  return name;
}

/** Errors: `invalid_params`. */
export function readOperationId(given: string): string {
  if (!OPERATION_ID.test(given)) {
    refuse("must be 1 to 128 of letters, digits, _, : and -", "operationId");
  }
  return given;
}

/** The request with its name trimmed. Errors: `invalid_params`, `too_large`, `secret_destroyed`. */
export function readSet(request: Parameters<VaultMessages["set"]>[0], nowMs: number): SetSecret {
  const name = readName(request.name);
  if (request.operationId !== null) readOperationId(request.operationId);
  const { provider, expiresAtMs, value } = request;
  if (Buffer.byteLength(provider) > VAULT_BOUNDS.providerBytes) {
    refuse("must be at most 256 bytes of UTF-8", "provider");
  }
  if (expiresAtMs !== null && !(Number.isSafeInteger(expiresAtMs) && expiresAtMs > nowMs)) {
    refuse("must be a time in the future, in Unix milliseconds", "expiresAt");
  }
  if (value.use(({ length }) => length) > VAULT_BOUNDS.valueBytes) {
    throw new LemonError("too_large");
  }
  return { ...request, name };
}

function refuse(why: string, field = "name"): never {
  throw new LemonError("invalid_params", { message: `Invalid params: ${field}: ${why}` });
}
