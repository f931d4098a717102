/**
 * Owns the files in which the operator of a NATS system of their own hands us keys: credentials of a
 * user, as `nsc generate creds` writes them, and the seed of an operator's identity or signing key.
 *
 * 1. A seed leaves this room as signatures only. No error holds a path or a byte of a file.
 * 2. Credentials are read again whenever a server asks for them, so that renewed ones take effect by
 *    themselves. A file that is gone or damaged by then, or that became another account's, changes
 *    nothing: those read last stay in use.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { encodeAccount, encodeGeneric } from "@nats-io/jwt";
import { fromSeed } from "@nats-io/nkeys";
import { type Authenticator, jwtAuthenticator } from "@nats-io/transport-node";
import { z } from "zod";
import { errnoOf } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { AccountSigner } from "./authority.ts";
import { claimsOf } from "./claims.ts";
import { signingKey } from "./signing-key.ts";

/** Credentials are about 1 KiB, a seed is 58 bytes. */
const LARGEST_BYTES = 65_536;
/** A line of dashes is looked at once, from its first. */
const USER_JWT =
  /(?<!-)-{3,}BEGIN NATS USER JWT-{3,}\s+([\w-]+\.[\w-]+\.[\w-]+)\s+-{3,}END NATS USER JWT-{3,}/;
const USER_SEED =
  /(?<!-)-{3,}BEGIN USER NKEY SEED-{3,}\s+(SU[A-Z2-7]{56})\s+-{3,}END USER NKEY SEED-{3,}/;
const OPERATOR_SEED = /(?:^|\s)(SO[A-Z2-7]{56})(?:\s|$)/;

const userClaims = z.object({
  sub: z.string().regex(/^U[A-Z2-7]{55}$/),
  iss: z.string(),
  exp: z.number().optional(),
  nats: z.object({ issuer_account: z.string().optional() }),
});
const accountKey = z.string().regex(/^A[A-Z2-7]{55}$/);

export interface HandedFile {
  readonly path: string;
  /** What the user knows it as, for an error: `--nats-creds`. */
  readonly name: string;
}

export interface HandedCredentials {
  /** Public key of the account that they are for. */
  readonly account: string;
  readonly authenticator: Authenticator;
}

/** Errors: `invalid_request` (no credentials, or expired ones), `permission_denied`, `not_found`. */
export function openCredentials(file: HandedFile, nowMs: number): HandedCredentials {
  const first = parseCredentials(read(file));
  if (first === null) {
    throw refused(file, "holds no credentials of a NATS user (a JWT and its seed)");
  }
  if (first.expiresAtMs <= nowMs) throw refused(file, "holds credentials that have expired");
  const { account } = first;
  let current = first;
  const renew = (): void => {
    try {
      const now = read(file);
      if (now === current.text) return;
      const next = parseCredentials(now);
      if (next?.account === account) current = next;
    } catch {
      // It may be just being replaced.
    }
  };
  return {
    account,
    authenticator(nonce) {
      renew();
      return jwtAuthenticator(current.jwt, current.seed)(nonce);
    },
  };
}

/** Signs with the operator's key. Errors: `invalid_request`, `permission_denied`, `not_found`. */
export function openOperatorKey(file: HandedFile, controllerAccount: string): AccountSigner {
  const seed = OPERATOR_SEED.exec(read(file))?.[1];
  const key = seed === undefined ? null : keyOf(seed);
  if (key === null) throw refused(file, "holds no operator's seed (SO…)");
  return {
    controllerAccount,
    signAccount: (name, account, claims) => encodeAccount(name, account, claims, { signer: key }),
    signDeletion: (accounts) =>
      encodeGeneric("delete", key, "generic", { accounts: [...accounts] }),
  };
}

function keyOf(seed: string): ReturnType<typeof signingKey> | null {
  try {
    return signingKey(new TextEncoder().encode(seed));
  } catch {
    // The checksum.
    return null;
  }
}

interface Parsed {
  readonly text: string;
  readonly jwt: string;
  readonly seed: Uint8Array;
  readonly account: string;
  readonly expiresAtMs: number;
}

/** Null for anything but a user's JWT with the very seed it was made for. */
function parseCredentials(text: string): Parsed | null {
  const jwt = USER_JWT.exec(text)?.[1];
  const seedText = USER_SEED.exec(text)?.[1];
  if (jwt === undefined || seedText === undefined) return null;
  const claims = userClaims.safeParse(claimsOf(jwt));
  if (!claims.success) return null;
  const { sub, iss, exp, nats } = claims.data;
  const account = accountKey.safeParse(nats.issuer_account ?? iss);
  const seed = new TextEncoder().encode(seedText);
  if (!account.success || publicKeyOf(seed) !== sub) return null;
  const expiresAtMs = exp === undefined || exp === 0 ? Number.POSITIVE_INFINITY : exp * 1_000;
  return { text, jwt, seed, account: account.data, expiresAtMs };
}

function publicKeyOf(seed: Uint8Array): string | null {
  try {
    return fromSeed(seed).getPublicKey();
  } catch {
    return null;
  }
}

/** What a user names is theirs to protect: it may be a secret that their platform mounts. */
function read(file: HandedFile): string {
  let descriptor: number;
  try {
    // O_NONBLOCK: a FIFO in its place must not hang us.
    descriptor = openSync(file.path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (failure) {
    throw unreadable(file, failure);
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw refused(file, "does not name a regular file");
    if (stats.size > LARGEST_BYTES) throw refused(file, "names a file that is too large");
    return readFileSync(descriptor, "utf8");
  } catch (failure) {
    throw failure instanceof LemonError ? failure : unreadable(file, failure);
  } finally {
    closeSync(descriptor);
  }
}

function refused({ name }: HandedFile, why: string): LemonError {
  return new LemonError("invalid_request", { message: `${name} ${why}` });
}

function unreadable({ name }: HandedFile, failure: unknown): LemonError {
  const errno = errnoOf(failure);
  if (errno === "ENOENT") {
    return new LemonError("not_found", { message: `${name} names a file that is not there` });
  }
  return new LemonError("permission_denied", {
    message: `${name} names a file that can not be read (${errno ?? "unreadable"})`,
  });
}
