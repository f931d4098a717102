/**
 * Owns the operator's token: where it comes from and how one is compared with it.
 * Source: control-plane-wire.md 2.1, rulings ("the ready line").
 *
 * 1. A token given in the environment is never written to disk.
 * 2. The managed file holds 256 random bits, made once; it is used only as a regular file of this
 *    account with mode 0600 in a folder of mode 0700, else the start is refused.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import { ensurePrivateDirectory, readSecureFile, writeSecureFile } from "../../host/secure-file.ts";
import { LemonError } from "../../protocol/errors.ts";
import { OPERATOR_TOKEN_VARIABLE } from "../../protocol/http.ts";

const TOKEN_BYTES = 32;
/** What a managed file may hold: one token of visible characters, also one an earlier release made. */
const MANAGED_TOKEN = /^[\x21-\x7e]{32,512}$/;

export interface OperatorToken {
  readonly token: string;
  /** Path of the managed file that holds it; null for a token from the environment. */
  readonly file: string | null;
}

/**
 * The operator's token for the control plane on `port`: the environment's (trimmed; blank is unset),
 * else the one in `<home>/run/control-plane-<port>.token`, which is made when it is not there.
 * Errors: `operator_token_unusable`, `no_space`, `unavailable`.
 */
export async function loadOperatorToken(options: {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `LEMON_HOME`. */
  readonly home: string;
  readonly port: number;
}): Promise<OperatorToken> {
  const given = options.environment[OPERATOR_TOKEN_VARIABLE]?.trim() ?? "";
  if (given !== "") return { token: given, file: null };

  const folder = join(options.home, "run");
  const file = join(folder, `control-plane-${options.port}.token`);
  try {
    await ensurePrivateDirectory(folder);
    const held = await readSecureFile(file);
    if (held !== null) return { token: managedToken(held.toString("utf8")), file };
    const token = randomBytes(TOKEN_BYTES).toString("base64url");
    await writeSecureFile(file, `${token}\n`);
    return { token, file };
  } catch (failure) {
    throw tokenFileRefusal(failure, options.port);
  }
}

function managedToken(text: string): string {
  const token = text.trim();
  if (!MANAGED_TOKEN.test(token)) throw refused("content");
  return token;
}

function refused(reason: string): LemonError {
  return new LemonError("permission_denied", { details: { reason } });
}

/** `operator_token_unusable`, which says which file, by its fixed name, and what is wrong with it; any other failure as it is. */
export function tokenFileRefusal(failure: unknown, port: number): unknown {
  if (!(failure instanceof LemonError) || !(failure.code in UNUSABLE)) return failure;
  const reason = String(failure.details["reason"] ?? failure.details["errno"] ?? failure.code);
  return new LemonError("operator_token_unusable", {
    message:
      `run/control-plane-${port}.token in LEMON_HOME can not be used (${reason}): it must be a regular ` +
      "file of this account with mode 0600, in a folder of mode 0700; mend or remove it, or set " +
      OPERATOR_TOKEN_VARIABLE,
    details: { reason },
    cause: failure,
  });
}

const UNUSABLE: Readonly<Partial<Record<LemonError["code"], true>>> = {
  permission_denied: true,
  not_directory: true,
  not_found: true,
};

/** Compares tokens without telling by its time how much of one was right. */
export function tokenComparison(token: string): (offered: string) => boolean {
  const expected = digestOf(token);
  return (offered) => timingSafeEqual(digestOf(offered), expected);
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token, "utf8").digest();
}
